"""The report of an evaluation: its tables and figures, all derived from the rows of the run."""

from __future__ import annotations

from typing import Any

from earmark.errors import EarmarkError
from earmark.evaluation.annotations.actions import Annotations, few
from earmark.evaluation.benchmark_results import BenchmarkResults, System
from earmark.evaluation.benchmark_run import BenchmarkDesign, BenchmarkRun
from earmark.evaluation.experiment_report import Drawing, ExperimentReport
from earmark.evaluation.metrics.coverage_counts import ForecastCounts
from earmark.evaluation.tables import coverage_tables, figures
from earmark.evaluation.tables.table import Table
from earmark.reporting.text_format import counted


def report_coverage(
    run: BenchmarkRun,
    annotations: Annotations,
    design: BenchmarkDesign,
    *,
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ExperimentReport:
    """The tables and figures of a run.

    Raises:
        EarmarkError: no case could be judged.
    """
    if not run.results:
        reasons = few(f"{name}: {why}" for (_, name), why in run.failures.items())
        raise EarmarkError(f"nothing could be evaluated: {reasons or 'there are no recordings'}")
    results = BenchmarkResults.of_rows(run.rows)
    subject = _system(results, design.subject, instead=-1)
    baseline = _system(results, design.baseline, instead=0)
    absent = tuple(
        f"the rule {wanted} was not run, so {results.label(taken)} stands in its place"
        for wanted, taken in ((design.subject, subject), (design.baseline, baseline))
        if wanted != taken[1]
    )
    failed = tuple(f"left out: {name} ({f}): {why}" for (f, name), why in run.failures.items())
    occupancy = coverage_tables.occupancies(annotations, results, window=design.window)
    tables = [
        coverage_tables.coverage_table(results),
        *(coverage_tables.paper_table(results, line) for line in results.frontlines),
        coverage_tables.paired_table(results, subject),
        coverage_tables.saved_table(results, baseline),
        coverage_tables.recording_table(
            results, annotations, occupancy, budget=design.shown, systems=(baseline, subject)
        ),
        coverage_tables.gain_table(results, occupancy, baseline=baseline),
        _forecast_table(run),
        coverage_tables.pooled_table(results),
    ]
    return ExperimentReport(
        "Does listening pay?",
        settings,
        tuple(table for table in tables if table is not None),
        _figures(results, occupancy, subject, baseline),
        (*notes, *absent, *annotations.only(results.recordings).notes(), *failed),
    )


def _system(results: BenchmarkResults, rule: str, *, instead: int) -> System:
    """The first frontline with that rule if it was run; else the system at the place `instead`."""
    wanted = (results.frontlines[0], rule)
    return wanted if wanted in results.systems else results.systems[instead]


def _forecast_table(run: BenchmarkRun) -> Table | None:
    """Forecasts added up over recordings; None where the rule `coverage` was not run."""
    total: dict[tuple[str, float], ForecastCounts] = {}
    for row in run.forecasts:
        key = (row.frontline, row.budget)
        total[key] = total.get(key, ForecastCounts()) + row.counts
    return coverage_tables.forecast_table(total) if total else None


def _figures(
    results: BenchmarkResults, occupancy: list[float], subject: System, baseline: System
) -> dict[str, Drawing]:
    """The paper's four panels, and gain against occupancy."""
    return {
        "plane": (
            f"Coverage against calls, all actions of {counted(results.counted, 'recording')} "
            f"together, and the same curves read sideways as calls saved.",
            lambda: figures.plane(results, subject, baseline),
        ),
        "gain_against_occupancy": (
            f"Gain of {results.label(subject)} over {results.label(baseline)} against occupancy.",
            lambda: figures.gain_scatter(results, occupancy, subject, baseline),
        ),
    }
