"""`earmark export`, `import`, `runs` and `report`: what a run left behind."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning.limits import Limits
from earmark.cli.options import Blurred, face_blur
from earmark.errors import LedgerError
from earmark.ledger.records import Totals
from earmark.ledger.run_reader import Run, find_runs
from earmark.models.user_folders import model_store
from earmark.pipeline.batch import export_batch, import_batch
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.archive_index import write_report
from earmark.reporting.console import emit, emit_json, err, out, print_table, warn
from earmark.reporting.export_formats import EXPORTERS
from earmark.reporting.export_formats import export as write_export
from earmark.timeline import format_clock

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
    blur: Blurred = "none",
) -> None:
    """Write the picks and captions of a run for other tools; to stdout unless `--out` says where.

    For example:

      earmark export runs/tuesday --format csv > tuesday.csv

      earmark export runs/tuesday --format srt --out subtitles/

      earmark export runs/tuesday --format parquet --out tuesday.parquet

      earmark export runs/tuesday --format mp4 --out chaptered/

      earmark export runs/tuesday --format corrections --out said.jsonl

      earmark export runs/tuesday --format batch --model gpt-5-mini --out requests.jsonl
    """
    if format == BATCH:
        _export_batch(folder, to, model, make_plan(blur=blur, store=model_store()))
        return
    with Run.open(folder, blur=face_blur(blur)) as run:
        for missed in run.failed_recordings():
            warn(f"left out {missed.path}: {missed.reason}")
        if to is None:
            emit(_as_text(run, format))
            return
        for path in write_export(run, to, format=format):
            out.print(str(path))


def _export_batch(folder: Path, to: Path | None, model: str | None, plan: Plan) -> None:
    if to is None or model is None:
        raise ValueError("a batch needs --out FILE to write to and --model NAME to be asked of")
    written = export_batch(folder, to, model=model, plan=plan)
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
    blur: Blurred = "none",
) -> None:
    """Write the page of a run, which opens from disk with no network; one file if it is small."""
    with Run.open(folder, blur=face_blur(blur)) as run:
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
