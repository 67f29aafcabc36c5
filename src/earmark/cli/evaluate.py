"""`earmark evaluate`: compares rules and frontlines; with options that other commands share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from earmark.cli.options import CacheFolder, NoCache, WindowLength, argument, option, takes
from earmark.evaluation import coverage_evaluation
from earmark.evaluation.annotations.readers import READERS
from earmark.evaluation.benchmark import BUDGETS, COMPARED
from earmark.evaluation.coverage_evaluation import EvaluationPlan
from earmark.evaluation.experiment_report import ExperimentReport
from earmark.evaluation.paper.published_numbers import RECORDINGS
from earmark.evaluation.tables.figures import can_draw
from earmark.gate.frontline_registry import FRONTLINES, with_checkpoints
from earmark.gate.score_cache import cache_at
from earmark.grid import Placement
from earmark.reporting.console import emit, emit_json, err, out, progress_bar, warn

BUDGET_WORDS = ",".join(f"{100 * share:g}" for share in BUDGETS)


Out = Annotated[Path | None, typer.Option("--out", "-o", help="Folder for tables and figures.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Replace the results of another run in --out.")
]
TableFormat = Literal["markdown", "json"]
TablesAs = Annotated[TableFormat, typer.Option("--format", help="Output format.")]
Budgets = Annotated[
    str, typer.Option("--budgets", "-b", help="Budgets in per cent of the windows, with commas.")
]
SOUND_EVENTS = {
    "sound_events": option(
        list[Path] | None,
        "Annotated sound events to use in place of audio scores.",
        "--sound-events",
        "--evidence",
    ),
    "sound_events_format": option(
        str | None,
        "Format of --sound-events, as for --spans-format.",
        "--sound-events-format",
        "--evidence-format",
    ),
    "recordings": option(
        str | None,
        f"Only these recordings: names, a file of names, or {', '.join(RECORDINGS)}.",
    ),
}
LENGTHS = {
    "durations": option(Path | None, "CSV of lengths, with the columns recording and duration.")
}
SCORES = {
    "spans": argument(list[Path], "Annotation files or folders."),
    "spans_format": option(
        str | None,
        f"Format of the annotations: {', '.join(READERS)}, elan:TIER.",
        show_default="detected",
    ),
    "media": option(list[str] | None, "Recordings: files or folders.", "--media", "-m"),
    "frontlines": option(
        str,
        f"Frontlines, with commas: {', '.join(FRONTLINES)}.",
        "--frontlines",
        "-f",
        default="auto",
        callback=with_checkpoints,
    ),
    "cache": (CacheFolder, None),
    "no_cache": (NoCache, False),
}
COMPARING = {
    "rules": option(
        str,
        f"Rules, with commas: {', '.join(COMPARED)}.",
        "--rules",
        "-r",
        default=",".join(COMPARED),
    ),
    "budgets": (Budgets, BUDGET_WORDS),
    "answers": option(
        str | None,
        "Simulate the model from the annotations and ask in rounds: perfect, noisy, or "
        "noisy:missed=0.2,invented=0.05,renamed=0.3,seed=0.",
    ),
    "window": (WindowLength, 4.0),
    "placement": option(
        Placement,
        "free: also evaluate rule coverage with windows at any half second.",
        default="grid",
    ),
    "subject": option(str, "Rule to compare with all others.", default="coverage"),
    "baseline": option(str, "Rule that calls saved are measured against.", default="uniform"),
    "rounding": option(
        str, "How a share becomes calls: `round`, or `floor` as in Eq. 3.", default="round"
    ),
    "floor": option(bool, "Same as --rounding floor.", "--floor", default=False),
    "downsample": option(
        bool, "Also try sparse looks where the gate keeps nothing.", "--downsample", default=False
    ),
    "operating_points": option(
        bool, "Also evaluate episodes at six recalls.", "--operating-points", default=False
    ),
    "dev": option(str | None, "Recordings to choose episodes on: names or a file."),
    "strip": option(str | None, "Recording to draw: NAME or NAME@SECONDS."),
    "allow_missing": option(
        bool, "Skip recordings without media or annotations.", "--allow-missing", default=False
    ),
}


def evaluation_plan(said: dict[str, Any]) -> EvaluationPlan:
    """The plan from the values `said` of the options, which are modified in place."""
    heard = cache_at(said.pop("cache"), said.pop("no_cache"))
    said["rounding"] = "floor" if said.pop("floor") else said["rounding"]
    read = {
        "cache": heard.folder if heard else None,
        "development": names(said.pop("dev")),
        "recordings": names(said["recordings"]),
        "media": said["media"] or (),
        "sound_events": said["sound_events"] or (),
        "frontlines": words(said["frontlines"]),
        "rules": words(said["rules"]),
        "budgets": shares(said["budgets"]),
    }
    return EvaluationPlan(**said | read)


@takes("plan", SCORES | LENGTHS | SOUND_EVENTS | COMPARING, evaluation_plan)
def evaluate(
    plan: EvaluationPlan,
    output: Out = None,
    fresh: Fresh = False,
    format: Annotated[
        Literal["markdown", "json", "csv"], typer.Option(help="Output format.")
    ] = "markdown",
) -> None:
    """Compare rules and frontlines on annotated recordings: coverage against calls.

    Give --media to score the sound. Or give --sound-events to score by
    annotated sound events, with a small regression fitted on recordings that
    are not evaluated. With --answers the model is simulated from the
    annotations and rounds are measured; no sound is needed then. With
    --placement free the rule coverage is also evaluated as `free`: as many
    calls, off the grid. With --out a stopped run continues, and the folder gets
    CSV, Markdown, PNG and one HTML page.

    For example:

      earmark evaluate spans.csv --media videos/ --budgets 10,25,50 --out results/

      earmark evaluate spans.csv --media videos/ -f my.gate,energy --operating-points --dev dev.txt

      earmark evaluate spans.csv --media videos/ --placement free --rules coverage --subject free

      earmark evaluate goalstep_valid.json --spans-format goalstep-substeps --answers noisy

      earmark evaluate EPIC_100_validation.csv --sound-events EPIC_Sounds_validation.csv
    """
    with progress_bar("recordings", "evaluating") as progress:
        result = coverage_evaluation.evaluate(plan, out=output, fresh=fresh, progress=progress)
    if format == "csv":
        emit(result.to_csv())
    else:
        show(result.report, format, output)


def show(report: ExperimentReport, format: TableFormat, folder: Path | None) -> None:
    """Print a report, and the folder it was written to if there is one."""
    if format == "json":
        emit_json(report.to_json())
    else:
        out.print(report.to_markdown())
    if not can_draw():
        warn("figures are left out, they need Matplotlib: pip install 'earmark[evaluate]'")
    if folder:
        err.print(f"written to {folder}: open {folder / 'index.html'}")


def words(text: str) -> list[str]:
    """The words of `text`, which are separated by commas; empty ones are left out."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(text: str, *, what: str, unit: str = "") -> list[float]:
    """The numbers of `text`, with or without their `unit`; `ValueError` for what is no `what`."""
    found = []
    for word in words(text):
        try:
            found.append(float(word.removesuffix(unit)))
        except ValueError:
            raise ValueError(f"{word!r} is no {what}") from None
    return found


def shares(text: str) -> list[float]:
    """Percentages such as `10,25%` as shares, 0.1 and 0.25."""
    what = "budget: write per cent of the windows, as 5,10,25"
    return [round(number / 100, 9) for number in numbers(text, what=what, unit="%")]


def names(text: str | None) -> Sequence[str]:
    """Names of recordings: of a named set, from a file, or separated by commas; empty for None."""
    if text is None:
        return []
    if text in RECORDINGS:
        return RECORDINGS[text]
    path = Path(text)
    return path.read_text(encoding="utf-8-sig").split() if path.is_file() else words(text)
