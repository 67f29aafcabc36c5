"""`earmark export`, `search`, `runs` and `report`: what a run left behind."""

from __future__ import annotations

import base64
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from earmark.captioning.limits import Limits
from earmark.cli.console import emit, emit_json, err, out, print_table, warn
from earmark.errors import LedgerError
from earmark.ledger.records import SearchHit, Totals
from earmark.ledger.run_reader import Run, find_runs
from earmark.pipeline.batch import export_batch, import_batch
from earmark.reporting.archive_index import write_report
from earmark.reporting.export_formats import EXPORTERS
from earmark.reporting.export_formats import export as write_export
from earmark.timeline import Span, format_clock

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]


BATCH = "batch"
"""The format that only a run with a plan can be written in: requests, not picks."""


def export(
    folder: RunFolder,
    format: Annotated[
        str, typer.Option(help=f"What to write: {', '.join(EXPORTERS)} or {BATCH}.")
    ] = "jsonl",
    to: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A file; a folder for subtitles of several recordings."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Of a batch: the model its requests are for.")
    ] = None,
) -> None:
    """Write the picks and captions of a run for other tools; to stdout unless `--out` says where.

    For example:

      earmark export runs/tuesday --format csv > tuesday.csv

      earmark export runs/tuesday --format srt --out subtitles/

      earmark export runs/tuesday --format parquet --out tuesday.parquet

      earmark export runs/tuesday --format batch --model gpt-5-mini --out requests.jsonl
    """
    if format == BATCH:
        _export_batch(folder, to, model)
        return
    with Run.open(folder) as run:
        for missed in run.failed_recordings():
            warn(f"left out {missed.path}: {missed.reason}")
        if to is None:
            emit(_as_text(run, format))
            return
        for path in write_export(run, to, format=format):
            out.print(str(path))


def _export_batch(folder: Path, to: Path | None, model: str | None) -> None:
    if to is None or model is None:
        raise ValueError("a batch needs --out FILE to write to and --model NAME to be asked of")
    written = export_batch(folder, to, model=model)
    for line in written.left_out:
        warn(line)
    for path in written.paths:
        out.print(str(path))
    err.print(
        f"{written.requests} requests; when their results are back: "
        f"earmark import {folder} RESULTS.jsonl --model {model}"
    )


def import_results(
    folder: RunFolder,
    results: Annotated[list[Path], typer.Argument(help="Result and error files of a batch.")],
    model: Annotated[str, typer.Option(help="The model the requests were written for.")],
    input_price: Annotated[float, typer.Option(help="What a million tokens in cost.")] = 0.0,
    output_price: Annotated[float, typer.Option(help="What a million tokens out cost.")] = 0.0,
) -> None:
    """Import the results of a batch into the run it was exported from.

    For example:

      earmark import runs/tuesday results.jsonl --model gpt-5-mini
    """
    limits = Limits(input_price=input_price, output_price=output_price)
    came = import_batch(folder, results, model=model, limits=limits)
    out.print(f"{came.answered} answers kept, {came.failed} failed, {came.missing} missing")
    if came.unknown:
        warn(f"{came.unknown} results answer no question of this run: another run, or model?")
    if came.failed or came.missing:
        raise typer.Exit(1)


def search(
    folder: RunFolder,
    words: Annotated[str, typer.Argument(help="Words to find in captions and tags; all of them.")],
    most: Annotated[int, typer.Option(help="At most so many windows.", min=1)] = 50,
    thumbnails: Annotated[
        Path | None, typer.Option(help="Also write the pictures found into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find windows by the words of their captions and tags.

    For example:

      earmark search runs/tuesday "red hammer"

      earmark search runs/tuesday water --thumbnails found/
    """
    with Run.open(folder) as run:
        hits = run.search(words, most=most)
    pictures = _write_pictures(hits, thumbnails) if thumbnails else {}
    if as_json:
        emit_json([_plain(hit) for hit in hits])
        return
    for hit in hits:
        span = f"{format_clock(hit.span.start)} - {format_clock(hit.span.end)}"
        out.print(f"{hit.path}  {span}", style="bold")
        out.print(f"  {hit.caption}" if hit.caption else f"  heard: {', '.join(hit.tags)}")
        if (hit.recording, hit.span) in pictures:
            out.print(f"  {pictures[hit.recording, hit.span]}")
    if not hits:
        warn(f"nothing in {folder} matches {words!r}")


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it."""
    if not folder.is_dir():
        raise LedgerError(f"{folder} is no folder, so there are no runs in it; check the path")
    rows, plain = [], []
    for place in find_runs(folder):
        try:
            with Run.open(place) as run:
                opened, totals = run.opened(), run.totals()
        except LedgerError as error:
            warn(str(error))
            continue
        plain.append({"run": str(place), "opened": opened, **asdict(totals)})
        rows.append((str(place), opened[:16].replace("T", " "), *_cells(totals)))
    if as_json:
        emit_json(plain)
    elif plain:
        columns = ("run", "started", "recordings", "duration", "answered", "failed", "spend")
        print_table(columns, rows, words=columns[:2])
    else:
        warn(f"no runs in {folder}")


def report(
    folder: RunFolder,
    to: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; in the run's folder if not given.")
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="The headline; the folder's name if not.")
    ] = None,
) -> None:
    """Write the page of a run, which opens from disk with no network; one file if it is small."""
    with Run.open(folder) as run:
        out.print(str(write_report(run, to or folder / "report.html", title=title)))


def _as_text(run: Run, format: str) -> str:
    """What `export` would write, as text."""
    exporter = EXPORTERS.named(format)
    if not exporter.is_text:
        raise ValueError(f"a {format} file is not text: say where to write it with --out FILE")
    if exporter.is_per_recording and len(run.recordings()) != 1:
        raise ValueError(
            f"{run.folder} has {len(run.recordings())} recordings and {format} holds one a file: "
            f"say which folder to write to with --out FOLDER"
        )
    with tempfile.TemporaryDirectory() as scratch:
        (path,) = write_export(run, Path(scratch) / f"run.{format}", format=format)
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()


def _cells(totals: Totals) -> tuple[str, ...]:
    return (
        str(totals.recordings),
        format_clock(totals.duration),
        f"{totals.answered} of {totals.picks}",
        str(totals.failed),
        f"{totals.spend:.4f}" if totals.spend else "0",
    )


def _write_pictures(hits: list[SearchHit], folder: Path) -> dict[tuple[str, Span], Path]:
    """The thumbnails of `hits` as files, numbered best match first."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for number, hit in enumerate(hits, start=1):
        if hit.thumbnail:
            path = folder / f"{number:03d}-{Path(hit.path).stem}-{hit.span.start:.0f}s.jpg"
            path.write_bytes(hit.thumbnail)
            written[hit.recording, hit.span] = path
    return written


def _plain(hit: SearchHit) -> dict[str, Any]:
    return {
        "recording": hit.recording,
        "path": hit.path,
        "window": hit.window,
        "start": hit.span.start,
        "end": hit.span.end,
        "caption": hit.caption or None,
        "tags": list(hit.tags),
        "model": hit.model or None,
        "thumbnail": base64.b64encode(hit.thumbnail).decode(),
    }
