"""`earmark episodes`: lists the spans that the gate keeps open, and the calls they cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from earmark.cli import options
from earmark.cli.plan import parse_share
from earmark.errors import EarmarkError
from earmark.gate.episodes import Episodes, OperatingPoints
from earmark.gate.gate import Gate, default_gate
from earmark.pipeline.listen import listen
from earmark.pipeline.run_plan import Plan, make_plan
from earmark.reporting.console import emit_csv, emit_json, err, out, print_table, warn
from earmark.reporting.progress_display import show_progress
from earmark.reporting.text_format import counted
from earmark.selection.episode_cost import RecordingEpisodes, find_episodes
from earmark.timeline import format_clock

EpisodesAs = Literal["table", "json", "csv"]
"""Output formats of `episodes`."""


@options.takes_plan(options.HEARING | {"window": (options.WindowLength, 4.0)})
def episodes(
    plan: Plan,
    recall: Annotated[
        str, typer.Option(help="Share of actions that episodes reached on development recordings.")
    ] = "95%",
    guarantee: Annotated[
        str | None,
        typer.Option(help="Recall to guarantee on recordings like the development ones."),
    ] = None,
    confidence: Annotated[str, typer.Option(help="Confidence of the guarantee.")] = "95%",
    gate: Annotated[Path | None, typer.Option(help="Gate file.", show_default="built in")] = None,
    format: Annotated[EpisodesAs, typer.Option(help="Output format.")] = "table",
) -> None:
    """List the stretches that the gate keeps open, with the calls they cost.

    An episode costs one call for every window it touches, which is more than
    its duration suggests. Both counts are printed. No video frame is decoded.

    For example:

      earmark episodes shift.mp4 --recall 95%

      earmark episodes archive/ --guarantee 90% --confidence 95% --format json
    """
    chosen = default_gate() if gate is None else Gate.load(gate)
    rule = operating_point(chosen, recall, guarantee, confidence)
    plan = make_plan((), plan, frontline=chosen.frontline())
    found, failed = [], False
    with show_progress() as progress:
        for source in plan.sources():
            try:
                heard = listen(source, plan.listening, on_seconds=progress.at(source.name)).heard
                found.append(find_episodes(heard, rule, window=plan.listening.grid.length))
            except EarmarkError as error:
                err.print(f"earmark: {error}", style="red")
                failed = True
                continue
            for note in heard.notes():
                warn(f"{source.name}: {note}")
    show(found, format)
    if failed:
        raise typer.Exit(1)


def operating_point(gate: Gate, recall: str, guarantee: str | None, confidence: str) -> Episodes:
    """The rule for the recall or the guarantee asked for; notes on it go to stderr."""
    points = OperatingPoints.of(gate.points)
    if guarantee is None:
        wanted, least = parse_share(recall), points.on[-1][0]
        if wanted < least:
            warn(f"the gate's lowest operating point is {least:.0%} recall, so that is used")
        return points.at_recall(wanted)
    promise = gate.promise(recall=parse_share(guarantee), confidence=parse_share(confidence))
    err.print(
        f"promise: {promise.recall:.0%} recall on average over recordings like the "
        f"{promise.recordings} development ones, with {promise.confidence:.0%} confidence "
        f"(observed there: {promise.observed:.1%}); threshold {promise.threshold:.3g}"
    )
    return points.episodes(promise.threshold)


def show(found: Sequence[RecordingEpisodes], format: EpisodesAs) -> None:
    """Print the episodes of all recordings in `format`."""
    if format == "json":
        emit_json([each.to_json() for each in found])
        return
    if format == "csv":
        rows = (
            [each.recording, f"{span.start:.2f}", f"{span.end:.2f}"]
            for each in found
            for span in each.episodes
        )
        emit_csv(["recording", "start", "end"], rows)
        return
    for each in found:
        show_table(each)


def show_table(each: RecordingEpisodes) -> None:
    """Print the episodes of one recording, then their cost by duration and by windows."""
    account = each.bill
    out.print(f"{each.recording}: {counted(account.episodes, 'episode')}", style="bold")
    rows = [
        (format_clock(span.start), format_clock(span.end), f"{span.duration:.2f}")
        for span in each.episodes
    ]
    if rows:
        print_table(("start", "end", "seconds"), rows)
    undercount = f", {account.undercount:.1f} times as many" if account.episodes else ""
    out.print(
        f"{account.duration:.1f} of {each.duration:.1f} s kept. By duration that is "
        f"{account.charged:.1f} calls of {each.window:g} s; really it is {account.calls} of "
        f"{account.windows}{undercount}."
    )
    if account.calls > account.windows / 2 > 1:
        out.print(
            "More than half of a full scan: ask for a lower `--recall`, or spend a budget with "
            "`earmark select`, which needs no episodes."
        )
