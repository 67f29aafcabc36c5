"""`earmark cost`: what a full scan, triage and a visual frontline cost."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from earmark.cli import options
from earmark.cli.evaluate import Fresh, Out, Shown, share, show, words
from earmark.errors import AnnotationError
from earmark.evaluation.annotations.table_readers import reading
from earmark.evaluation.benchmark import read_rows, rows_fingerprint
from earmark.evaluation.benchmark_results import BenchmarkResults
from earmark.evaluation.experiment_report import claim_folder
from earmark.evaluation.paper.cost_model import SHARES, CostModel, report

SHARE_WORDS = ",".join(f"{100 * each:g}" for each in SHARES)


def cost(
    hours: Annotated[float, typer.Option(help="Hours of recordings.")] = 1000.0,
    window: options.WindowLength = 4.0,
    call: Annotated[float, typer.Option(help="GPU-seconds of one call.")] = 0.74,
    tokens: Annotated[int, typer.Option(help="Visual tokens of that call.")] = 1024,
    overhead: Annotated[float, typer.Option(help="GPU-seconds of it that stay.")] = 0.0,
    audio_speed: Annotated[float, typer.Option(help="Times real time, listening.")] = 178.0,
    visual_speed: Annotated[float, typer.Option(help="Times real time, looking.")] = 8.6,
    visual_share: Annotated[float, typer.Option(help="Calls after looking, %.")] = 50.0,
    gpu_hour: Annotated[float, typer.Option(help="Money for a GPU-hour.")] = 2.0,
    budgets: Annotated[
        str, typer.Option("--budgets", "-b", help="Per cent of the windows, with commas.")
    ] = SHARE_WORDS,
    results: Annotated[
        Path | None, typer.Option("--results", help="per_recording.csv, for coverage.")
    ] = None,
    naming: Annotated[
        Path | None, typer.Option("--naming", help="CSV: tokens, and accuracy in %.")
    ] = None,
    output: Out = None,
    fresh: Fresh = False,
    format: Annotated[Shown, typer.Option(help="How to print the tables.")] = Shown.markdown,
) -> None:
    """Say what a full scan, triage and a visual frontline cost, in GPU-hours and money.

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
    rows = read_rows(results) if results else []
    reached = BenchmarkResults.of_rows(rows) if rows else None
    named = _naming(naming) if naming else None
    settings = {
        "experiment": "cost",
        **asdict(prices),
        "budgets": [share(word) for word in words(budgets)],
        "results": rows_fingerprint(rows) if rows else None,
        "naming": named,
    }
    if output:
        claim_folder(output, settings, fresh=fresh)
    outcome = report(prices, reached, named, shares=settings["budgets"], settings=settings)
    if output:
        outcome.write(output)
    show(outcome, format, output)


def _naming(path: Path) -> dict[int, float]:
    """Naming accuracy in per cent by visual tokens."""
    with reading(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        return {int(row["tokens"]): float(row["accuracy"]) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise AnnotationError(
            f"{path} needs the columns tokens and accuracy, with numbers under them: {error}"
        ) from error
