"""`earmark occupancy`: how full recordings are."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.evaluate import (
    Chosen,
    Fresh,
    Lengths,
    Out,
    SoundEvents,
    SoundEventsFormat,
    TablesAs,
    names,
    recordings_bar,
    show,
    words,
)
from earmark.evaluation.paper.occupancy_survey import WINDOWS, OccupancyPlan, measure_occupancy

WINDOW_WORDS = ",".join(f"{seconds:g}" for seconds in WINDOWS)


def occupancy(
    sets: Annotated[
        list[str],
        typer.Argument(help="[NAME=]PATH[#FORMAT][@SET] of annotations, one a data set."),
    ],
    durations: Lengths = None,
    window: options.WindowLength = 4.0,
    windows: Annotated[
        str, typer.Option("--windows", help="Seconds of a window to try, with commas.")
    ] = WINDOW_WORDS,
    results: Annotated[
        Path | None,
        typer.Option("--results", help="per_recording.csv of the first set, for its gains."),
    ] = None,
    sound_events: SoundEvents = None,
    sound_events_format: SoundEventsFormat = None,
    recordings: Chosen = None,
    output: Out = None,
    fresh: Fresh = False,
    format: TablesAs = "markdown",
) -> None:
    """Say how full recordings are: the room a frontline has before one is chosen.

    With --sound-events the window sweep also says what rules gain at each length, on the first set.
    With --out a stopped run is resumed, and leaves CSV, Markdown, PNG and one HTML page.

    For example:

      earmark occupancy spans.csv labels/ --durations lengths.csv

      earmark occupancy EPIC=EPIC_100_validation.csv@paper goalstep_valid.json --out occupancy/
    """
    plan = OccupancyPlan(
        sets=tuple(sets),
        durations=durations,
        window=window,
        windows=tuple(_seconds(word) for word in words(windows)),
        results=results,
        sound_events=tuple(sound_events or ()),
        sound_events_format=sound_events_format,
        recordings=tuple(names(recordings)),
    )
    with recordings_bar("trying window lengths") as progress:
        report = measure_occupancy(plan, out=output, fresh=fresh, progress=progress)
    show(report, format, output)


def _seconds(word: str) -> float:
    """The length of a window."""
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{word!r} is no length of a window: write seconds, as 2,4,8") from None
