"""`earmark select`: prints which windows to send to a vision model, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Literal

import typer

from earmark.cli import options
from earmark.gate.forecast_error import as_count, as_range
from earmark.pipeline.run_plan import Plan
from earmark.pipeline.select import select as select_windows
from earmark.reporting.console import emit, emit_csv, emit_json, out, print_table, warn
from earmark.reporting.edit_list import selection_edl
from earmark.reporting.text_format import counted, format_bytes_read, format_notes
from earmark.selection.pick import Pick
from earmark.selection.result import COLUMNS, Chosen, LeftOut, Selection, selection_schema
from earmark.timeline import format_clock

PicksAs = Literal["table", "json", "jsonl", "csv", "edl"]
"""Output formats of `select`."""

NUMBERS = ("score", "rate", "expected")


@options.shows_progress
@options.takes_plan(options.SPENDING | options.LISTENING | options.BACKEND)
def select(
    plan: Plan,
    format: Annotated[PicksAs, typer.Option(help="Output format.")] = "table",
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also list the best windows that were not picked, and why."),
    ] = False,
    *,
    watch: options.Watch,
) -> None:
    """Print the windows of recordings that are worth a call.

    Only the sound is read; no video frame is decoded and no model is called.
    Picks go to stdout, progress and warnings to stderr. The exit code is 1 if a
    recording failed.

    For example:

      earmark select shift.mp4 --budget 25%

      earmark select archive/ --budget 500 --across --format json

      earmark select s3://bucket/cam1.mp4 --rule separated --explain
    """
    with watch() as progress:
        selection = select_windows(plan=plan, explain=10 if explain else 0, progress=progress)
    show(selection, format)
    if selection.failures:
        options.end_with(failed.error for failed in selection.failures)


def show(selection: Selection, format: PicksAs) -> None:
    """Print `selection` in `format`; warnings go to stderr in every format."""
    if format == "table":
        for chosen in selection.recordings:
            show_chosen(chosen)
        if len(selection.recordings) + len(selection.failures) > 1:
            recordings = counted(len(selection.recordings), "recording")
            out.print(
                f"{counted(selection.calls, 'call')} of {selection.windows} in {recordings}; "
                f"{len(selection.failures)} failed"
            )
    elif format == "json":
        emit_json(selection.to_json())
    elif format == "jsonl":
        emit("".join(f"{line}\n" for line in as_jsonl(selection)))
    elif format == "csv":
        emit_csv(COLUMNS, ([row[name] for name in COLUMNS] for row in selection.rows()))
    else:
        emit(selection_edl(selection))
    for line in format_notes(
        (one.path, note) for one in selection.recordings for note in one.notes
    ):
        warn(line)


def schema() -> None:
    """Print the JSON Schema of the output of `earmark select --format json`.

    For example:

      earmark schema > selection.schema.json
    """
    emit_json(selection_schema())


def summary(chosen: Chosen) -> str:
    """One line on a recording: picks, how it was listened to, bytes read, and expected coverage."""
    read = format_bytes_read(chosen.bytes_read, chosen.bytes_total)
    heard = "not listened to" if chosen.access == "none" else f"heard by {chosen.access}, {read}"
    held = as_count(chosen.actions, chosen.actions_range)
    return (
        f"{chosen.path}: {len(chosen.picks)} of {chosen.windows} windows "
        f"({format_clock(chosen.duration)}, {heard}); "
        f"rule {chosen.rule}, frontline {chosen.frontline}, "
        f"expected coverage {as_range(chosen.forecast, chosen.forecast_range)}"
        f"{held and f'; {held}'}"
    )


def show_chosen(chosen: Chosen) -> None:
    """Print the picks of one recording, and the best windows not chosen, in order of time."""
    rows = [_cells(pick, pick.start, pick.end, pick.instant) for pick in chosen.picks]
    out.print(summary(chosen), style="bold")
    if rows:
        print_table(("window", "start", "end", "look at", *NUMBERS, "why"), rows, words=["why"])
    if chosen.left_out:
        others, shown = chosen.windows - len(chosen.picks), len(chosen.left_out)
        title = "left out" if shown == others else f"left out: the best {shown} of {others}"
        in_order = sorted(chosen.left_out, key=lambda window: window.start)
        rows = [_cells(window, window.start, window.end) for window in in_order]
        columns = ("window", "start", "end", *NUMBERS, "why not")
        print_table(columns, rows, words=["why not"], title=title)
    if chosen.picks or chosen.left_out:
        out.print()


def _cells(window: Pick | LeftOut, *times: float) -> tuple[str, ...]:
    numbers = (f"{window.score:.3g}", f"{window.rate:.2f}", f"{window.expected:.2f}")
    place = "–" if window.window is None else str(window.window)
    return (place, *map(format_clock, times), *numbers, window.reason)


def as_jsonl(selection: Selection) -> Iterator[str]:
    """One line of JSON per pick, then one per failure."""
    yield from map(json.dumps, selection.rows())
    for failed in selection.failures:
        yield json.dumps(asdict(failed))
