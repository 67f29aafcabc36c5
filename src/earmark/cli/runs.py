"""`earmark runs`, `report`, `summary`, `export`, `import`, `merge`, `bundle`, `highlights`.

They summarise runs, write them for other tools and people, and join them.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning.limits import Limits
from earmark.cli.caption import tell_requests
from earmark.cli.options import (
    INPUT_PRICE_HELP,
    OUTPUT_PRICE_HELP,
    AsJson,
    Blurred,
    RunFolder,
    face_blur,
)
from earmark.errors import LedgerError
from earmark.ledger.run_merge import merge as merge_runs
from earmark.ledger.run_reader import Run, find_runs
from earmark.media.source import place_of
from earmark.models.user_folders import model_store
from earmark.pipeline.batch import export_batch, import_batch
from earmark.pipeline.clips import bundle as write_bundle
from earmark.pipeline.clips import highlights as write_highlights
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.console import emit, emit_json, out, print_table, warn
from earmark.reporting.export_formats import EXPORTERS
from earmark.reporting.export_formats import export as write_export
from earmark.reporting.run_overview import overview
from earmark.reporting.run_report import write_report
from earmark.reporting.text_format import counted
from earmark.timeline import format_clock

BATCH = "batch"
"""Export format of requests instead of picks; it needs the plan of the run."""

Voices = Annotated[
    bool,
    typer.Option(
        " /--no-voices", help="Leave out transcripts, and mute speech in clips.", show_default=False
    ),
]


def export(
    folder: RunFolder,
    format: Annotated[
        str, typer.Option(help=f"Output format: {', '.join(EXPORTERS)} or {BATCH}.")
    ] = "jsonl",
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="File to write; a folder for formats with one file per recording."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of the model that a batch is for.")
    ] = None,
    blur: Blurred = "none",
) -> None:
    """Write the picks and captions of a run in a format for other tools.

    The output goes to stdout unless --out is given.

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
    EXPORTERS.named(format)  # raises for an unknown format before any output
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
    tell_requests(folder, to, files=written.paths, count=written.requests, model=model)


def import_results(
    folder: RunFolder,
    results: Annotated[list[Path], typer.Argument(help="Result and error files of the batch.")],
    model: Annotated[str, typer.Option(help="Name of the model that the batch was for.")],
    input_price: Annotated[float, typer.Option(help=INPUT_PRICE_HELP)] = 0.0,
    output_price: Annotated[float, typer.Option(help=OUTPUT_PRICE_HELP)] = 0.0,
) -> None:
    """Store the results of a batch in the run that it was exported from.

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
    folder: Annotated[Path, typer.Argument(help="Folder to look in.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder and below it, with their progress and spend.

    For example:

      earmark runs

      earmark runs archive/ --json
    """
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
        rows.append(
            (
                str(place),
                opened[:16].replace("T", " "),
                str(totals.recordings),
                format_clock(totals.duration),
                f"{totals.answered} of {totals.picks}",
                str(totals.failed),
                f"{totals.spend:.4f}" if totals.spend else "0",
            )
        )
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
        Path | None,
        typer.Option("--out", "-o", help="Page to write.", show_default="RUN/report.html"),
    ] = None,
    title: Annotated[
        str | None, typer.Option(help="Title of the page.", show_default="name of the folder")
    ] = None,
    blur: Blurred = "none",
) -> None:
    """Write the report of a run: one page that opens from disk without a network.

    Small runs are one file. Larger ones have a folder of pictures, or a page
    for each recording.

    For example:

      earmark report runs/tuesday

      earmark report runs/tuesday --out tuesday.html --title "Tuesday, early shift"
    """
    with Run(folder, blur=face_blur(blur)) as run:
        out.print(str(write_report(run, to or folder / "report.html", title=title)))


def summary(folder: RunFolder, as_json: AsJson = False) -> None:
    """Print what happened in a run: active time, what was heard and when, and the captions.

    Active time is estimated by the gate. Louder time is measured by level and
    named sounds alone. Recordings in which something happened come first.
    Sounds have names if YAMNet was installed when `earmark caption` ran.

    For example:

      earmark summary runs/tuesday

      earmark summary runs/tuesday --json
    """
    with Run(folder) as run:
        overviews = overview(run)
        missed = run.failed_recordings()
    if as_json:
        emit_json([asdict(each) for each in overviews])
        return
    for number, each in enumerate(overviews):
        out.print(f"{'' if number == 0 else chr(10)}{place_of(each.name)}", style="bold")
        for heading, lines in each.lines():
            for place, line in enumerate(lines):
                out.print(f"  {'' if place else heading:<11}{line}")
    if not overviews:
        warn(f"there is no recording in {folder} to tell of")
    for one in missed:
        warn(f"{one.path} could not be done: {one.reason}")


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of the runs.")],
    into: Annotated[
        Path, typer.Option("--into", help="Folder of the joined run, new or existing.")
    ],
    as_json: AsJson = False,
) -> None:
    """Join runs of the same command, such as the shards of an archive, into one run.

    The runs are only read. Runs with another plan or version are refused, and
    so are runs in which one path is two recordings; nothing is merged then. No stored
    answer is asked for again. To spend one budget over everything, run the
    command without --shard on the joined run.

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
        f"{counted(merged.recordings, 'recording')} and {counted(merged.answers, 'answer')} "
        f"of {counted(merged.runs, 'run')} are in {into}"
    )
    if merged.missed:
        missed = counted(merged.missed, "recording")
        warn(f"{missed} could not be done: `earmark caption … --run {into} --retry-failed`")


def bundle(
    folder: RunFolder,
    to: Annotated[Path, typer.Option("--out", "-o", help="ZIP archive to write.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write a run as one ZIP archive to give away: the report with short clips, and the captions.

    Unpack it on any machine and open `index.html`. Recordings are named by file
    name; paths, server addresses and keys are left out. Pictures and clips show
    whoever was filmed, faces included unless they are blurred.

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
    to: Annotated[Path, typer.Option("--out", "-o", help="MP4 file to write.")],
    voices: Voices = True,
    blur: Blurred = "none",
) -> None:
    """Write the picks of a run as one video, with captions as subtitles and one chapter per pick.

    Picks of one recording are copied without re-encoding, each from the key
    frame before it. Picks whose streams differ, and blurred ones, are encoded
    again.

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
    """The file that `export` would write, as text; `ValueError` if it is not one text file."""
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
