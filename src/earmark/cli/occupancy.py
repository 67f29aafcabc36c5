"""`earmark occupancy` and `earmark cost`: how much triage can save, and what calls cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from earmark.cli.evaluate import (
    BUDGET_WORDS,
    LENGTHS,
    SOUND_EVENTS,
    Budgets,
    Fresh,
    Out,
    TablesAs,
    names,
    numbers,
    shares,
    show,
)
from earmark.cli.options import WindowLength, argument, option, takes
from earmark.evaluation.paper.cost_model import CostModel, estimate_cost
from earmark.evaluation.paper.occupancy_survey import WINDOWS, OccupancyPlan, measure_occupancy
from earmark.reporting.console import progress_bar

WINDOW_WORDS = ",".join(f"{seconds:g}" for seconds in WINDOWS)


SURVEY = {
    "sets": argument(list[str], "Annotations of one data set each: [NAME=]PATH[#FORMAT][@SET]."),
    "window": (WindowLength, 4.0),
    "windows": option(
        str, "Window lengths to compare in seconds, with commas.", default=WINDOW_WORDS
    ),
    "results": option(Path | None, "per_recording.csv of the first set, to add its gains."),
}


def survey_plan(said: dict[str, Any]) -> OccupancyPlan:
    """The plan from the values `said` of the options."""
    read = {
        "sets": tuple(said["sets"]),
        "windows": tuple(
            numbers(said["windows"], what="length of a window: write seconds, as 2,4,8")
        ),
        "sound_events": tuple(said["sound_events"] or ()),
        "recordings": tuple(names(said["recordings"])),
    }
    return OccupancyPlan(**said | read)


@takes("plan", SURVEY | LENGTHS | SOUND_EVENTS, survey_plan)
def occupancy(
    plan: OccupancyPlan,
    output: Out = None,
    fresh: Fresh = False,
    format: TablesAs = "markdown",
) -> None:
    """Measure how many windows touch an action: the room that any frontline has.

    With --sound-events, the comparison of window lengths also measures what the
    rules gain at each length, on the first data set. With --out a stopped run
    continues, and the folder gets CSV, Markdown, PNG and one HTML page.

    For example:

      earmark occupancy spans.csv labels/ --durations lengths.csv

      earmark occupancy EPIC=EPIC_100_validation.csv@paper goalstep_valid.json --out occupancy/
    """
    with progress_bar("recordings", "trying window lengths") as progress:
        report = measure_occupancy(plan, out=output, fresh=fresh, progress=progress)
    show(report, format, output)


PRICES = {
    "hours": option(float, "Hours of recordings.", default=1000.0),
    "window": (WindowLength, 4.0),
    "call": option(float, "GPU-seconds per call.", default=0.74),
    "tokens": option(int, "Visual tokens per call.", default=1024),
    "overhead": option(
        float, "GPU-seconds of a call that do not depend on the tokens.", default=0.0
    ),
    "audio_speed": option(float, "Speed of listening, times real time.", default=178.0),
    "visual_speed": option(float, "Speed of the visual frontline, times real time.", default=8.6),
    "visual_share": option(float, "Calls after the visual frontline, in per cent.", default=50.0),
    "gpu_hour": option(float, "Price of a GPU-hour, in any currency.", default=2.0),
}


@takes("said", PRICES, dict)
def cost(
    said: dict[str, Any],
    budgets: Budgets = BUDGET_WORDS,
    results: Annotated[
        Path | None,
        typer.Option("--results", help="per_recording.csv of `evaluate`, to add coverage."),
    ] = None,
    naming: Annotated[
        Path | None,
        typer.Option("--naming", help="CSV with the columns tokens, and accuracy in per cent."),
    ] = None,
    output: Out = None,
    fresh: Fresh = False,
    format: TablesAs = "markdown",
) -> None:
    """Compute the GPU-hours and money of a full scan, of triage and of a visual frontline.

    The defaults are the paper's, measured on a V100; give your own. Nothing is
    measured here: the result is a formula of the options.

    For example:

      earmark cost --hours 5000 --call 0.4 --gpu-hour 1.8 --results results/per_recording.csv
    """
    report = estimate_cost(
        CostModel(**said | {"visual_share": said["visual_share"] / 100}),
        shares=shares(budgets),
        results=results,
        naming=naming,
        out=output,
        fresh=fresh,
    )
    show(report, format, output)
