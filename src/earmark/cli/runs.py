"""`earmark run`: list, merge, import, audit and forget."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.captioning.captioner import FORMS
from earmark.cli import options
from earmark.errors import RunError
from earmark.models.model_store import cache_folder
from earmark.pipeline.audit import audit as audit_run
from earmark.pipeline.audit import forecast_widths
from earmark.pipeline.batch import import_batch
from earmark.pipeline.forget import find_recording
from earmark.pipeline.forget import forget as forget_recording
from earmark.report.console import Format, emit_json, out, print_lines, print_table, warn
from earmark.run.merge import merge as merge_runs
from earmark.run.run import Run, find_runs
from earmark.settings import InvalidSetting, Settings
from earmark.text_format import counted
from earmark.timeline import format_clock

LADDER = (10, 20, 40, 80, 160, 320)
"""Numbers of calls for which `audit --dry-run` prints the width of the interval."""


def list_runs(
    folder: Annotated[Path, typer.Argument(help="Folder to look in.")] = Path(),
    format: options.ResultFormat = Format.table,
) -> None:
    """List the runs in a folder and below it, with their progress and spend.

    For example:

      earmark run list

      earmark run list archive/ --format json
    """
    if not folder.is_dir():
        raise RunError(f"{folder} is not a folder; check the path")
    rows, plain, unread = [], [], list[str]()
    for path in find_runs(folder):
        try:
            with Run(path) as run:
                opened, totals = run.opened(), run.totals()
                missed = len(run.failed_recordings())
        except RunError as error:
            warn(str(error))
            continue
        plain.append({"run": str(path), "opened": opened, **asdict(totals)})
        if missed:
            recordings = counted(missed, "recording")
            unread.append(f"{path}: {recordings} could not be processed; see `earmark show {path}`")
        rows.append(
            (
                str(path),
                opened[:16].replace("T", " "),
                str(totals.recordings),
                format_clock(totals.duration),
                f"{totals.answered} of {totals.picks}",
                str(totals.failed),
                f"{totals.spend:.4f}" if totals.spend else "0",
            )
        )
    if format is Format.json:
        emit_json(plain)
    elif plain:
        columns = ("run", "started", "recordings", "duration", "answered", "failed", "spend")
        print_table(columns, rows, words=columns[:2])
    else:
        warn(f"no runs in {folder}")
    options.end_with((), unread)


def merge(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of the runs.")],
    into: Annotated[
        Path, typer.Option("--into", help="Folder of the joined run, new or existing.")
    ],
    format: options.ResultFormat = Format.table,
) -> None:
    """Join runs of the same command, such as the shards of an archive, into one run.

    The runs are only read. Runs with another plan or version are refused, and
    so are runs in which one path is two recordings; nothing is merged then. No stored
    answer is asked for again. To spend one budget over everything, run the
    command without --shard on the joined run.

    For example:

      earmark caption archive/ --shard 1/2 --run runs/part-1

      earmark caption archive/ --shard 2/2 --run runs/part-2

      earmark run merge runs/part-1 runs/part-2 --into runs/archive
    """
    merged = merge_runs(runs, into)
    if format is Format.json:
        emit_json({"run": str(into), **asdict(merged)})
        return
    out.print(
        f"{counted(merged.recordings, 'recording')} and {counted(merged.answers, 'answer')} "
        f"of {counted(merged.runs, 'run')} are in {into}"
    )
    if merged.missed:
        missed = counted(merged.missed, "recording")
        warn(f"{missed} could not be processed: `earmark caption … --run {into} --retry-failed`")


@options.takes_settings("model", "input_price", "output_price")
def import_results(
    folder: options.RunFolder,
    results: Annotated[list[Path], typer.Argument(help="Result and error files of the batch.")],
    settings: Settings,
) -> None:
    """Store the results of a batch in the run that it was exported from.

    For example:

      earmark run import runs/tuesday results.jsonl --model gpt-5-mini
    """
    if settings.model is None:
        raise InvalidSetting("model", "name the model that the batch was for")
    model = settings.model.rpartition("#")[2]
    imported = import_batch(folder, results, model=model, limits=settings.limits)
    counts = f"{imported.failed} failed, {imported.missing} missing"
    out.print(f"{imported.answered} answers stored, {counts}")
    if imported.unknown:
        warn(f"{imported.unknown} results belong to another run or model")
    for reason in imported.damaged:
        warn(f"left out: {reason}")
    if imported.failed or imported.missing or imported.damaged:
        raise typer.Exit(1)


@options.takes_settings("model", "concurrency", "blur")
def audit(
    run: options.RunFolder,
    settings: Settings,
    calls: Annotated[int, typer.Option("--calls", help="Number of windows to draw.", min=1)] = 40,
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence", help="Confidence of the interval in per cent.", min=1, max=99.9
        ),
    ] = 95,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draw.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Call no model; print how wide the interval will be.")
    ] = False,
    format: options.ResultFormat = Format.table,
) -> None:
    """Estimate how much a run has missed, from calls on windows drawn at random.

    Windows are drawn among those that no answered pick touches, each with the
    same probability. So the estimated share of active windows is unbiased; the
    sound only makes its interval narrower. If the command is stopped, the same
    command continues with the same windows. Use the run's model.

    For example:

      earmark run audit runs/shift --dry-run

      earmark run audit runs/shift --calls 40 --model http://localhost:8000/v1
    """
    share = confidence / 100
    if dry_run:
        widths = forecast_widths(run, sorted({*LADDER, calls}), confidence=share)
        if format is Format.json:
            emit_json({str(calls): width for calls, width in widths.items()})
            return
        rows = [(str(calls), f"± {50 * width:.1f} points") for calls, width in widths.items()]
        print_table(("calls", "the share will be known to"), rows)
        out.print(
            "This assumes as much activity as the sound suggests; with more, the interval is wider."
        )
        return
    if settings.model is None:
        raise InvalidSetting("model", f"an audit needs a model: {FORMS}")
    with options.progress_of(settings) as progress:
        result = audit_run(
            run,
            calls=calls,
            settings=settings,
            api_key=options.api_key(),
            confidence=share,
            seed=seed,
            progress=progress,
        )
    options.show(result, format)
    if missing := result.drawn - result.answered:
        draws = counted(missing, "window")
        warn(f"{draws} without a usable answer; run the same command to ask again")
        raise typer.Exit(1)


@options.takes_settings()
def forget(
    recording: Annotated[
        str, typer.Argument(help="Path, name in a manifest, id or file name of the recording.")
    ],
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FOLDER", help="Folders to search for runs.", show_default="."),
    ] = None,
    *,
    settings: Settings,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete everything that runs and the cache hold about a recording.

    This deletes scores, picks, calls, answers, corrections and pictures, and
    rewrites every index and report. The recording itself is not touched. Clips
    and exports that earmark wrote elsewhere are listed: delete those yourself.
    If the command is interrupted, run it again.

    For example:

      earmark run forget archive/tuesday.mp4

      earmark run forget tuesday.mp4 runs/ exports/ --yes
    """
    searched = folders or [Path()]
    rows = find_recording(recording, [run for folder in searched for run in find_runs(folder)])
    if not yes:
        for path in sorted({row.path for stored in rows.values() for row in stored}):
            out.print(path)
        runs = counted(len(rows), "run")
        typer.confirm(f"Delete everything that {runs} and the cache hold about it?", abort=True)
    result = forget_recording(recording, searched, cache=settings.folders.cache or cache_folder())
    print_lines(result.lines())
    for run in result.empty:
        warn(f"{run} has no recordings left; delete the folder, too, if its name reveals anything")
