"""`earmark select`: which windows to send to a vision model, and why."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from earmark.cli.console import emit_json, err, out, warn
from earmark.cli.options import BACKEND, LISTENING, SPENDING, takes_plan
from earmark.cli.progress_display import Log, MetricsHost, MetricsPort, show_progress
from earmark.cli.selection_tables import as_csv, as_jsonl, left_out_table, picks_table, summary
from earmark.pipeline.run_plan import Plan
from earmark.pipeline.select import select as select_windows
from earmark.reporting.edl import selection_edl
from earmark.reporting.text_format import counted, noted
from earmark.selection.result import Selection, selection_schema


class PicksAs(StrEnum):
    """How a selection is printed."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    edl = "edl"


@takes_plan(SPENDING, LISTENING, BACKEND)
def select(
    plan: Plan,
    format: Annotated[PicksAs, typer.Option(help="How to print the picks.")] = PicksAs.table,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also list the best windows left out, and why.")
    ] = False,
    log: Log = "bar",
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
) -> None:
    """Listen to recordings and print the windows worth a call.

    No video frame is decoded. Results go to stdout, progress and warnings to stderr; the exit code
    is 1 if any recording could not be done.

    For example:

      earmark select shift.mp4 --budget 25%

      earmark select archive/ --budget 500 --across --format json

      earmark select s3://bucket/cam1.mp4 --rule separated --explain
    """
    with show_progress(log, metrics_port=metrics_port, metrics_host=metrics_host) as progress:
        selection = select_windows(plan=plan, explain=10 if explain else 0, progress=progress)
    show(selection, format)
    if selection.failures:
        raise typer.Exit(1)


def show(selection: Selection, format: PicksAs) -> None:
    """Print `selection`; what is odd or could not be done goes to stderr whatever the format."""
    if format is PicksAs.table:
        show_tables(selection)
    elif format is PicksAs.json:
        emit_json(selection.to_json())
    elif format is PicksAs.jsonl:
        sys.stdout.writelines(f"{line}\n" for line in as_jsonl(selection))
    elif format is PicksAs.csv:
        sys.stdout.write(as_csv(selection))
    else:
        sys.stdout.write(selection_edl(selection))
    for line in noted((one.path, note) for one in selection.recordings for note in one.notes):
        warn(line)
    for failed in selection.failures:
        err.print(f"earmark: {failed.error}", style="red")


def show_tables(selection: Selection) -> None:
    """One table a recording, and a line of totals where there are several."""
    for chosen in selection.recordings:
        out.print(summary(chosen), style="bold")
        if chosen.picks:
            out.print(picks_table(chosen))
        if chosen.left_out:
            out.print(left_out_table(chosen))
        if chosen.picks or chosen.left_out:
            out.print()
    if len(selection.recordings) + len(selection.failures) > 1:
        out.print(
            f"{counted(selection.calls, 'call')} of {selection.windows} in "
            f"{counted(len(selection.recordings), 'recording')}; {len(selection.failures)} failed"
        )


def schema() -> None:
    """Print the JSON Schema of what `earmark select --format json` prints."""
    emit_json(selection_schema())
