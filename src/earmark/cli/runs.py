"""`earmark runs`, `report`, `summary`, `export`, `import`, `merge`, `bundle`, `highlights`.

What runs left behind: told, written for others, joined.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning.limits import Limits
from earmark.cli.options import AsJson, Blurred, RunFolder, face_blur
from earmark.errors import LedgerError
from earmark.ledger.records import Totals
from earmark.ledger.run_merge import merge as merge_runs
from earmark.ledger.run_reader import Run, find_runs
from earmark.models.user_folders import model_store
from earmark.pipeline.batch import export_batch, import_batch
from earmark.pipeline.clips import bundle as write_bundle
from earmark.pipeline.clips import highlights as write_highlights
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.console import emit, emit_json, err, out, print_table, warn
from earmark.reporting.export_formats import EXPORTERS
from earmark.reporting.export_formats import export as write_export
from earmark.reporting.run_overview import overview
from earmark.reporting.run_report import write_report
from earmark.reporting.text_format import counted
from earmark.timeline import format_clock

BATCH = "batch"
"""The format that only a run with a plan can be written in: requests, not picks."""

Voices = Annotated[
    bool, typer.Option(" /--no-voices", help="Leave out what is said, and mute it in clips.")
]


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
    EXPORTERS.named(format)  # a wrong name is said before anything else
    with Run(folder, blur=face_blur(blur)) as run:
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
            with Run(place) as run:
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
    with Run(folder, blur=face_blur(blur)) as run:
        out.print(str(write_report(run, to or folder / "report.html", title=title)))


def summary(folder: RunFolder, as_json: AsJson = False) -> None:
    """Say what happened: how long it was active, what was heard when, and what captions tell.

    Active is by what the gate expects, louder by level and names alone.

    Recordings in which something happened come first. Sounds have names where `earmark caption`
    ran with YAMNet at hand.

    For example:

      earmark summary runs/tuesday

      earmark summary runs/tuesday --json
    """
    with Run(folder) as run:
        told = overview(run)
        missed = run.failed_recordings()
    if as_json:
        emit_json([asdict(each) for each in told])
        return
    for number, each in enumerate(told):
        out.print(f"{'' if number == 0 else chr(10)}{each.name}", style="bold")
        for heading, said in each.lines():
            out.print(f"  {heading:<11}{said[0]}")
            for line in said[1:]:
                out.print(f"  {'':<11}{line}")
    if not told:
        warn(f"there is no recording in {folder} to tell of")
    for one in missed:
        warn(f"{one.path} could not be done: {one.reason}")


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of the runs.")],
    into: Annotated[Path, typer.Option("--into", help="The folder of the one run, new or not.")],
    as_json: AsJson = False,
) -> None:
    """Bring runs of one command together, such as the shards of an archive.

    The runs are only read. Runs of another plan or version, and runs in which one path is two
    recordings, are refused, and nothing is merged. No answer is ever asked for again; to spend one
    budget over all of it, run the command without `--shard` on the merged run.

    For example:

      earmark caption archive/ --shard 1/2 --run runs/part-1

      earmark caption archive/ --shard 2/2 --run runs/part-2

      earmark merge runs/part-1 runs/part-2 --into runs/archive
    """
    merged = merge_runs(runs, into)
    if as_json:
        emit_json({"run": str(into), **asdict(merged)})
        return
    out.print(
        f"{merged.recordings} recordings and {merged.answers} answers of {merged.runs} runs "
        f"are in {into}"
    )
    if merged.missed:
        warn(f"{merged.missed} recordings could not be done: the same command with --retry-failed")


def bundle(
    folder: RunFolder,
    to: Annotated[Path, typer.Option("--out", "-o", help="The archive to write, a .zip.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write a run as one archive: its page with short clips, and its captions.

    It opens on any machine: unpack it and open `index.html`. It names recordings by their files
    and says nothing of where they lay, whom a model was asked of, or any key. Pictures and clips
    show whatever and whoever was filmed, faces too unless they are blurred.

    For example:

      earmark bundle runs/tuesday --out tuesday.zip

      earmark bundle runs/tuesday --out tuesday.zip --no-voices --blur faces
    """
    made = write_bundle(folder, to, voices=voices, blur=face_blur(blur), store=model_store())
    for line in made.uncut:
        warn(line)
    out.print(f"{made.path}: the page, captions and {counted(made.clips, 'clip')}")


def highlights(
    folder: RunFolder,
    to: Annotated[Path, typer.Option("--out", "-o", help="The video to write, an MP4.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write the picks of a run as one video, with captions and chapters.

    Captions are subtitles that a player can turn off. Picks of one recording are copied as they
    were recorded, each from the key frame before it; those of several are encoded anew,
    and so is what is blurred.

    For example:

      earmark highlights runs/tuesday --out day.mp4

      earmark highlights runs/tuesday --out day.mp4 --blur faces
    """
    made = write_highlights(folder, to, voices=voices, blur=face_blur(blur), store=model_store())
    for line in made.left_out:
        warn(line)
    how = "copied as recorded" if made.is_copied else "encoded anew"
    out.print(f"{made.path}: {counted(made.picks, 'pick')}, {how}")


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
