"""The tables of an evaluation and its report, derived from its rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from earmark.errors import EarmarkError
from earmark.evaluation.annotations.actions import Annotations, list_few
from earmark.evaluation.benchmark import BenchmarkDesign, BenchmarkRun, ForecastRow
from earmark.evaluation.benchmark_results import BenchmarkResults, System
from earmark.evaluation.experiment_report import Drawing, ExperimentReport
from earmark.evaluation.metrics.coverage_counts import (
    CoverageCounts,
    ForecastCounts,
    count_each,
    or_dash,
)
from earmark.evaluation.metrics.significance import bootstrap_ratio, correlate
from earmark.evaluation.paper.published_numbers import PAIRED, PRIMARY, REPLICATION
from earmark.evaluation.tables import figures
from earmark.evaluation.tables.table import Cells, Table, interval, mean, p_value, percent
from earmark.gate.forecast_error import CONFIDENCE, ForecastError
from earmark.reporting.text_format import counted


def coverage_table(results: BenchmarkResults) -> Table:
    """Coverage by rule and budget in per cent, averaged over recordings."""
    note = f"Points of coverage (overlap), mean over {counted(results.with_actions, 'recording')}."
    means = {system: results.means(system) for system in results.systems}
    return _by_budget("Coverage by budget and rule", results, means, note)


def _by_budget(
    title: str, results: BenchmarkResults, found: Mapping[System, Mapping[float, float]], note: str
) -> Table:
    rows: list[Cells] = [
        (percent(budget), *(values[budget] for values in found.values()))
        for budget in results.budgets
    ]
    return Table(title, ("calls", *map(results.label, found)), rows, note)


def pooled_table(results: BenchmarkResults) -> Table:
    """Coverage and strict coverage of all actions together, with intervals over recordings."""
    rows = []
    for system in results.systems:
        for budget in results.budgets:
            found = list(results.by_recording(system, budget).values())
            total = sum(found, CoverageCounts())
            low, high = bootstrap_ratio([c.covered for c in found], [c.actions for c in found])
            counts = (total.windows, total.calls, total.actions)
            reached = (100 * total.coverage, interval(100 * low, 100 * high))
            strict = 100 * total.strict_coverage
            rows.append((results.label(system), percent(budget), *counts, *reached, strict))
    columns = ("rule", "budget", "windows", "calls", "actions", "coverage", "95 %", "strict")
    note = "All actions together; the interval draws recordings with replacement."
    return Table("Pooled coverage", columns, rows, note)


def paired_table(results: BenchmarkResults, subject: System) -> Table:
    """`subject` against every other system at each budget, paired by recording."""
    rows = []
    for budget in reversed(results.budgets):
        for system in results.systems:
            if system == subject:
                continue
            pair = results.pair(subject, system, budget)
            gains = (or_dash(pair.mean, "+.1f"), or_dash(pair.median, "+.1f"))
            found = (*gains, interval(pair.low, pair.high, "+.1f"), pair.record, p_value(pair.p))
            rows.append((percent(budget), results.label(system), *found))
    title = f"Paired over recordings: {results.label(subject)} against each rule"
    columns = ("calls", "against", "gain", "median", "95 %", "W/L/T", "p")
    note = (
        f"Points of coverage over {counted(results.with_actions, 'recording')}; "
        "Wilcoxon signed-rank test, exact up to 100; interval of the mean gain by drawing "
        "recordings with replacement."
    )
    return Table(title, columns, rows, note)


def recording_table(
    results: BenchmarkResults,
    annotations: Annotations,
    occupancy: Sequence[float],
    *,
    budget: float,
    systems: tuple[System, System],
) -> Table:
    """Every recording at one budget: its length, its occupancy, and two systems' coverage."""
    baseline, subject = systems
    theirs, ours = results.points(baseline, budget), results.points(subject, budget)
    rows: list[Cells] = []
    found = zip(results.recordings, occupancy, theirs, ours, strict=True)
    for name, occupied, less, more in found:
        actions, duration = annotations.recordings[name], annotations.durations[name]
        length = mean(action.duration for action in actions)
        shares = (occupied, less, more, more - less)
        rows.append((name, len(actions), round(duration), length, *shares))
    means = (mean(float(row[place]) for row in rows) for place in range(1, 8))
    rows.append(("mean", *means))
    columns = ("recording", "actions", "seconds", "mean length, s", "occupied %")
    names = (results.label(baseline), results.label(subject), "gain")
    return Table(f"Every recording at {percent(budget)} of calls", (*columns, *names), rows)


def saved_table(results: BenchmarkResults, baseline: System) -> Table:
    """Calls saved at equal coverage against `baseline`, in per cent; a dash where undefined."""
    saved = {
        system: {b: 100 * results.saved(system, b, baseline=baseline) for b in results.budgets}
        for system in results.systems
        if system != baseline
    }
    name = results.label(baseline)
    note = (
        f"How many of the calls {name} needs for the same pooled coverage are saved, read off its "
        f"curve between budgets; a dash where that curve ends below it or begins above."
    )
    return _by_budget(f"Calls saved against {name}, %", results, saved, note)


def occupancies(
    annotations: Annotations, results: BenchmarkResults, *, window: float
) -> list[float]:
    """Share of windows that touch an action, in per cent, one for each recording of `results`."""
    counts = count_each(annotations.only(results.recordings), window=window)
    return [100 * each.occupancy for each in counts]


def gain_table(results: BenchmarkResults, occupancy: Sequence[float], *, baseline: System) -> Table:
    """The correlation of the gain of score-driven rules with occupancy, by budget.

    `occupancy` has one value for each recording of `results`.
    """
    rows: list[Cells] = []
    for system in results.systems:
        if system[1] not in ("rank", "separated", "coverage"):
            continue
        for budget in results.budgets:
            found = correlate(results.gains(system, budget, baseline=baseline), occupancy)
            pearson = (found.pearson, p_value(found.pearson_p))
            spearman = (found.spearman, p_value(found.spearman_p))
            span = interval(found.low, found.high, "+.2f")
            rows.append((results.label(system), percent(budget), *pearson, span, *spearman))
    title = f"Gain over {results.label(baseline)} against occupancy"
    columns = ("rule", "calls", "Pearson", "p", "one left out", "Spearman", "p (Spearman)")
    return Table(title, columns, rows, decimals=2)


Errors = Mapping[str, ForecastError | None]
"""The forecast error of each frontline; None if it was not measured."""


def forecast_table(
    forecasts: Iterable[ForecastRow], durations: Mapping[str, float], errors: Errors
) -> Table | None:
    """The forecasts of `coverage` against its coverage in per cent; None if it was not run."""
    total: dict[tuple[str, float], ForecastCounts] = {}
    inside: dict[tuple[str, float], list[bool]] = {}
    for row in forecasts:
        key, error = (row.frontline, row.budget), errors.get(row.frontline)
        total[key] = total.get(key, ForecastCounts()) + row.counts
        if row.recordings and error:
            long, promised = durations[row.recording], row.expected / row.foreseen
            told = error.range(promised, actions=row.foreseen, duration=long)
            reached = row.covered / row.actions
            inside.setdefault(key, []).append(told.low - 1e-9 <= reached <= told.high + 1e-9)
    rows: list[Cells] = []
    for key, found in total.items():
        shares = (found.forecast, found.forecast - found.bias, found.bias, found.error)
        held = 100 * float(np.mean(inside[key])) if key in inside else math.nan
        rows.append((key[0], percent(key[1]), *(100 * share for share in shares), held))
    columns = ("frontline", "calls", "forecast", "coverage", "bias", "mean error", "in range")
    note = (
        "Pooled forecast and coverage of the rule coverage; the error is a mean over recordings. "
        f"In range: recordings whose coverage lies in the {CONFIDENCE:.0%} range they are told."
    )
    return Table("Forecast against outcome", columns, rows, note) if rows else None


def count_table(
    forecasts: Iterable[ForecastRow], durations: Mapping[str, float], errors: Errors
) -> Table | None:
    """The expected number of actions against the annotated number; None without forecasts."""
    lines: dict[str, dict[str, ForecastRow]] = {}
    for row in forecasts:
        if row.recordings:  # has actions, and some were foreseen: at every budget the same
            lines.setdefault(row.frontline, {})[row.recording] = row
    rows: list[Cells] = []
    for line, found in lines.items():
        those = found.values()
        ratio = np.array([row.foreseen / row.actions for row in those])
        near, error, inside = np.mean(np.abs(np.log(ratio)) <= math.log(1.5)), errors.get(line), []
        for name, row in found.items():
            told = error.count(row.foreseen, durations[name]) if error else None
            inside += [told.low <= row.actions <= told.high] if told else []
        held = 100 * float(np.mean(inside)) if inside else math.nan
        sums = (sum(row.foreseen for row in those), sum(row.actions for row in those))
        rows.append((line, len(those), *sums, float(np.median(ratio)), 100 * float(near), held))
    sizes = ("frontline", "recordings", "expected", "marked", "median ratio")
    columns = (*sizes, "within 1.5x", "in range")
    note = (
        "Recordings with marked actions, in per cent of them: those within a factor of 1.5, and "
        f"those whose number lies in the {CONFIDENCE:.0%} range they are told."
    )
    return Table("Actions expected against marked", columns, rows, note) if rows else None


def paper_table(results: BenchmarkResults, frontline: str) -> Table | None:
    """The paper's paired table beside ours; None for other recordings or rules."""
    subject = (frontline, "separated")
    named = {row.recording for row in PRIMARY + REPLICATION}
    if set(results.recordings) != named or subject not in results.systems:
        return None
    rows: list[Cells] = []
    for budget, printed in PAIRED.items():
        for rule, theirs in printed.items():
            if budget not in results.budgets or (frontline, rule) not in results.systems:
                continue
            pair = results.pair(subject, (frontline, rule), budget)
            gains = (f"{theirs.gain:+.1f}", f"{pair.mean:+.1f}")
            records = (theirs.record, pair.record)
            rows.append((percent(budget), rule, *gains, *records, p_value(pair.p)))
    columns = ("calls", "separated against", "paper", "here", "paper W/L/T", "here W/L/T", "here p")
    note = f"The paper's gate hears audio; here the scores come from {frontline}."
    return Table(f"The paper's table beside ours, by {frontline}", columns, rows, note)


def report_coverage(
    run: BenchmarkRun,
    annotations: Annotations,
    design: BenchmarkDesign,
    *,
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
    errors: Errors = MappingProxyType({}),
) -> ExperimentReport:
    """The tables and figures of a run; `EarmarkError` if no case could be evaluated."""
    if not run.rows:
        reasons = list_few(f"{name}: {why}" for (_, name), why in run.failures.items())
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
    occupancy = occupancies(annotations, results, window=design.window)
    tables = [
        coverage_table(results),
        *(paper_table(results, line) for line in results.frontlines),
        paired_table(results, subject),
        saved_table(results, baseline),
        recording_table(
            results, annotations, occupancy, budget=design.shown, systems=(baseline, subject)
        ),
        gain_table(results, occupancy, baseline=baseline),
        forecast_table(run.forecasts, annotations.durations, errors),
        count_table(run.forecasts, annotations.durations, errors),
        pooled_table(results),
    ]
    return ExperimentReport(
        "Does listening pay?",
        settings,
        tuple(table for table in tables if table is not None),
        _figures(results, occupancy, subject, baseline),
        (*notes, *absent, *annotations.only(results.recordings).notes(), *failed),
    )


def _system(results: BenchmarkResults, rule: str, *, instead: int) -> System:
    """The first frontline with `rule` if it was run; else the system at index `instead`."""
    wanted = results.system(rule)
    return wanted if wanted in results.systems else results.systems[instead]


def _figures(
    results: BenchmarkResults, occupancy: list[float], subject: System, baseline: System
) -> tuple[Drawing, Drawing]:
    """The paper's four panels, and gain against occupancy."""
    every = (
        f"Coverage against calls, all actions of {counted(results.with_actions, 'recording')} "
        f"together, and the same curves read sideways as calls saved."
    )
    gain = f"Gain of {results.label(subject)} over {results.label(baseline)} against occupancy."
    scatter = partial(figures.gain_scatter, results, occupancy, subject, baseline)
    return (
        Drawing("plane", every, partial(figures.plane, results, subject, baseline)),
        Drawing("gain_against_occupancy", gain, scatter),
    )
