"""`earmark cost`: what a full scan, triage and a visual frontline cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.evaluate import BUDGET_WORDS, Budgets, Fresh, Out, TablesAs, share, show, words
from earmark.evaluation.paper.cost_model import CostModel, estimate_cost


def cost(
    hours: Annotated[float, typer.Option(help="Hours of recordings.")] = 1000.0,
    window: options.WindowLength = 4.0,
    call: Annotated[float, typer.Option(help="GPU-seconds of one call.")] = 0.74,
    tokens: Annotated[int, typer.Option(help="Visual tokens of that call.")] = 1024,
    overhead: Annotated[float, typer.Option(help="GPU-seconds of it that stay.")] = 0.0,
    audio_speed: Annotated[float, typer.Option(help="Times real time, listening.")] = 178.0,
    visual_speed: Annotated[float, typer.Option(help="Times real time, looking.")] = 8.6,
    visual_share: Annotated[float, typer.Option(help="Calls after looking, %.")] = 50.0,
    gpu_hour: Annotated[float, typer.Option(help="Price of a GPU-hour, in any currency.")] = 2.0,
    budgets: Budgets = BUDGET_WORDS,
    results: Annotated[
        Path | None, typer.Option("--results", help="per_recording.csv, for coverage.")
    ] = None,
    naming: Annotated[
        Path | None, typer.Option("--naming", help="CSV: tokens, and accuracy in %.")
    ] = None,
    output: Out = None,
    fresh: Fresh = False,
    format: TablesAs = "markdown",
) -> None:
    """Say what a full scan, triage and a visual frontline cost: GPU-hours, and what they come to.

    The defaults are the paper's, measured on a V100; put in your own. Everything is reckoned in a
    moment from a few numbers, so there is nothing to take up again.

    For example:

      earmark cost --hours 5000 --call 0.4 --gpu-hour 1.8 --results results/per_recording.csv
    """
    prices = CostModel(
        hours=hours,
        window=window,
        call=call,
        tokens=tokens,
        overhead=overhead,
        audio_speed=audio_speed,
        visual_speed=visual_speed,
        visual_share=visual_share / 100,
        gpu_hour=gpu_hour,
    )
    report = estimate_cost(
        prices,
        shares=[share(word) for word in words(budgets)],
        results=results,
        naming=naming,
        out=output,
        fresh=fresh,
    )
    show(report, format, output)
