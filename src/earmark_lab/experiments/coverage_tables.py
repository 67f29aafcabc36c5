from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.forecast_error import CONFIDENCE, ForecastError
from earmark.text_format import counted
from earmark_lab.annotations.actions import Annotations, list_few
from earmark_lab.experiments import figures
from earmark_lab.experiments.benchmark import (
    BenchmarkDesign,
    BenchmarkRow,
    BenchmarkRun,
    ignores_scores,
)
from earmark_lab.experiments.report import (
    Cells,
    Drawing,
    Report,
    Table,
    interval,
    mean,
    p_value,
    percent,
)
from earmark_lab.metrics.counts import (
    CoverageCounts,
    ForecastCounts,
    calls_saved,
    count_each,
    or_dash,
)
from earmark_lab.metrics.statistics import Paired, bootstrap_ratio, compare_paired, correlate

System = tuple[str, str]
"""Frontline and rule."""


@dataclass(frozen=True, slots=True)
class BenchmarkResults:
    recordings: list[str]
    systems: list[System]
    budgets: list[float]
    counts: dict[tuple[System, float], dict[str, CoverageCounts]]

    @classmethod
    def of_rows(cls, rows: Iterable[BenchmarkRow]) -> BenchmarkResults:
        recordings: dict[str, None] = {}
        counts: dict[tuple[System, float], dict[str, CoverageCounts]] = {}
        for row in rows:
            recordings[row.recording] = None
            key = (row.frontline, row.rule), row.budget
            counts.setdefault(key, {})[row.recording] = row.counts
        systems = list(dict.fromkeys(system for system, _ in counts))
        return cls(list(recordings), systems, sorted({budget for _, budget in counts}), counts)

    def only(self, names: Collection[str]) -> BenchmarkResults:
        counts = {
            key: {name: own for name, own in by_name.items() if name in names}
            for key, by_name in self.counts.items()
        }
        recordings = [name for name in self.recordings if name in names]
        return BenchmarkResults(recordings, self.systems, self.budgets, counts)

    @property
    def with_actions(self) -> int:
        first = next(iter(self.counts.values()), {})
        return sum(counts.actions > 0 for counts in first.values())

    @property
    def frontlines(self) -> list[str]:
        return list(dict.fromkeys(frontline for frontline, _ in self.systems))

    @property
    def rules(self) -> list[str]:
        return list(dict.fromkeys(rule for _, rule in self.systems))

    def system(self, rule: str) -> System:
        return self.frontlines[0], rule

    def by_recording(self, system: System, budget: float) -> dict[str, CoverageCounts]:
        return self.counts.get((system, budget), {})

    def points(self, system: System, budget: float) -> list[float]:
        """Per cent; nan without actions."""
        counts = self.by_recording(system, budget)
        return [100 * counts.get(name, CoverageCounts()).coverage for name in self.recordings]

    def means(self, system: System) -> dict[float, float]:
        return {budget: mean(self.points(system, budget)) for budget in self.budgets}

    def pooled(self, system: System, budget: float) -> CoverageCounts:
        return sum(self.by_recording(system, budget).values(), CoverageCounts())

    def curve(self, system: System) -> list[tuple[float, float]]:
        counts = [self.pooled(system, budget) for budget in self.budgets]
        return [(pooled.cost, pooled.coverage) for pooled in counts]

    def gains(self, system: System, budget: float, *, baseline: System) -> list[float]:
        pairs = zip(self.points(system, budget), self.points(baseline, budget), strict=True)
        return [ours - theirs for ours, theirs in pairs]

    def pair(self, ours: System, theirs: System, budget: float) -> Paired:
        return compare_paired(self.points(ours, budget), self.points(theirs, budget))

    def saved(self, system: System, budget: float, *, baseline: System) -> float:
        """Share; nan if undefined."""
        total = self.pooled(system, budget)
        return calls_saved(total.cost, total.coverage, self.curve(baseline))

    def saved_interval(
        self, system: System, budget: float, *, baseline: System, draws: int = 1000
    ) -> tuple[float, float]:
        """95 %, by bootstrap over recordings; nan for fewer than two."""
        ours = self.by_recording(system, budget)
        theirs = [self.by_recording(baseline, share) for share in self.budgets]
        names = [n for n in ours if ours[n].actions and all(n in counts for counts in theirs)]
        if len(names) < 2:
            return math.nan, math.nan
        rng, size = np.random.default_rng(0), len(names)
        drawn = rng.multinomial(size, np.full(size, 1 / size), size=draws)  # (draws, recordings)
        curves = (ours, *theirs)
        counted = np.array([[astuple(counts[name])[:4] for name in names] for counts in curves])
        sums = np.moveaxis(drawn @ counted, 0, 1)  # (draws, curves, windows calls actions covered)
        points = np.stack([sums[..., 1] / sums[..., 0], sums[..., 3] / sums[..., 2]], axis=-1)
        savings = [calls_saved(own[0], own[1], curve) for own, *curve in points.tolist()]
        defined = [value for value in savings if not math.isnan(value)]
        if len(defined) < draws / 2:
            return math.nan, math.nan
        low, high = np.quantile(defined, [0.025, 0.975])
        return float(low), float(high)

    def label(self, system: System) -> str:
        alone = len(self.frontlines) == 1 or ignores_scores(system[1])
        return system[1] if alone else f"{system[0]} / {system[1]}"


def coverage_table(results: BenchmarkResults) -> Table:
    note = f"Points of coverage (overlap), mean over {counted(results.with_actions, 'recording')}."
    means = {system: results.means(system) for system in results.systems}
    return _by_budget("Coverage by budget and rule", results, means, note)


def _by_budget(
    title: str, results: BenchmarkResults, series: Mapping[System, Mapping[float, float]], note: str
) -> Table:
    rows: list[Cells] = [
        (percent(budget), *(values[budget] for values in series.values()))
        for budget in results.budgets
    ]
    return Table(title, ("calls", *map(results.label, series)), rows, note)


def pooled_table(results: BenchmarkResults) -> Table:
    rows = []
    for system in results.systems:
        for budget in results.budgets:
            per_recording = list(results.by_recording(system, budget).values())
            total = sum(per_recording, CoverageCounts())
            low, high = bootstrap_ratio(
                [c.covered for c in per_recording], [c.actions for c in per_recording]
            )
            counts = (total.windows, total.calls, total.actions)
            reached = (100 * total.coverage, interval(100 * low, 100 * high))
            strict = 100 * total.strict_coverage
            rows.append((results.label(system), percent(budget), *counts, *reached, strict))
    columns = ("rule", "budget", "windows", "calls", "actions", "coverage", "95 %", "strict")
    note = "All actions together; the interval draws recordings with replacement."
    return Table("Pooled coverage", columns, rows, note)


def paired_table(results: BenchmarkResults, subject: System) -> Table:
    rows = []
    for budget in reversed(results.budgets):
        for system in results.systems:
            if system == subject:
                continue
            pair = results.pair(subject, system, budget)
            gains = (or_dash(pair.mean, "+.1f"), or_dash(pair.median, "+.1f"))
            cells = (*gains, interval(pair.low, pair.high, "+.1f"), pair.record, p_value(pair.p))
            rows.append((percent(budget), results.label(system), *cells))
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
    baseline, subject = systems
    theirs, ours = results.points(baseline, budget), results.points(subject, budget)
    rows: list[Cells] = []
    lines = zip(results.recordings, occupancy, theirs, ours, strict=True)
    for name, occupied, less, more in lines:
        actions, duration = annotations.recordings[name], annotations.durations[name]
        length = mean(action.duration for action in actions)
        shares = (occupied, less, more, more - less)
        rows.append((name, len(actions), round(duration), length, *shares))
    means = (mean(float(row[column]) for row in rows) for column in range(1, 8))
    rows.append(("mean", *means))
    columns = ("recording", "actions", "seconds", "mean length, s", "occupied %")
    names = (results.label(baseline), results.label(subject), "gain")
    return Table(f"Every recording at {percent(budget)} of calls", (*columns, *names), rows)


def saved_table(results: BenchmarkResults, baseline: System) -> Table:
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
    counts = count_each(annotations.only(results.recordings), window=window)
    return [100 * recording.occupancy for recording in counts]


def gain_table(results: BenchmarkResults, occupancy: Sequence[float], *, baseline: System) -> Table:
    """`occupancy` has one value a recording."""
    rows: list[Cells] = []
    for system in results.systems:
        if system[1].partition(":")[0] not in ("rank", "separated", "coverage"):
            continue
        for budget in results.budgets:
            correlation = correlate(results.gains(system, budget, baseline=baseline), occupancy)
            pearson = (correlation.pearson, p_value(correlation.pearson_p))
            spearman = (correlation.spearman, p_value(correlation.spearman_p))
            span = interval(correlation.low, correlation.high, "+.2f")
            rows.append((results.label(system), percent(budget), *pearson, span, *spearman))
    title = f"Gain over {results.label(baseline)} against occupancy"
    columns = ("rule", "calls", "Pearson", "p", "one left out", "Spearman", "p (Spearman)")
    return Table(title, columns, rows, decimals=2)


Errors = Mapping[str, ForecastError | None]
"""By frontline; None if it was not measured."""


def forecast_table(
    judged: Iterable[BenchmarkRow], durations: Mapping[str, float], errors: Errors
) -> Table | None:
    groups: dict[tuple[str, float], list[BenchmarkRow]] = {}
    for row in judged:
        if row.rule == "coverage":
            groups.setdefault((row.frontline, row.budget), []).append(row)
    rows: list[Cells] = []
    for (line, budget), group in groups.items():
        pooled, error, inside = ForecastCounts(), errors.get(line), []
        for row in group:
            forecast = row.forecast
            pooled += forecast
            if forecast.recordings and error:
                size = {"actions": row.foreseen, "duration": durations[row.recording]}
                promise = error.range(forecast.forecast, **size)
                inside.append(promise.low - 1e-9 <= row.counts.coverage <= promise.high + 1e-9)
        shares = (pooled.forecast, pooled.forecast - pooled.bias, pooled.bias, pooled.error)
        rows.append((line, percent(budget), *(100 * share for share in (*shares, mean(inside)))))
    columns = ("frontline", "calls", "forecast", "coverage", "bias", "mean error", "in range")
    note = (
        "Pooled forecast and coverage of the rule coverage; the error is a mean over recordings. "
        f"In range: recordings whose coverage lies in the {CONFIDENCE:.0%} range they are told."
    )
    return Table("Forecast against outcome", columns, rows, note) if rows else None


def count_table(
    judged: Iterable[BenchmarkRow], durations: Mapping[str, float], errors: Errors
) -> Table | None:
    lines: dict[str, dict[str, BenchmarkRow]] = {}
    for row in judged:  # what is foreseen is the same at every budget
        if row.rule == "coverage" and row.forecast.recordings:
            lines.setdefault(row.frontline, {})[row.recording] = row
    rows: list[Cells] = []
    for line, by_recording in lines.items():
        group, error, inside = by_recording.values(), errors.get(line), []
        for name, row in by_recording.items():
            promise = error.count(row.foreseen, durations[name]) if error else None
            inside += [promise.low <= row.actions <= promise.high] if promise else []
        ratio = np.array([row.foreseen / row.actions for row in group])
        near = float(np.mean(np.abs(np.log(ratio)) <= math.log(1.5)))
        sums = (sum(row.foreseen for row in group), sum(row.actions for row in group))
        shares = (100 * near, 100 * mean(inside))
        rows.append((line, len(group), *sums, float(np.median(ratio)), *shares))
    sizes = ("frontline", "recordings", "expected", "marked", "median ratio")
    columns = (*sizes, "within 1.5x", "in range")
    note = (
        "Recordings with marked actions, in per cent of them: those within a factor of 1.5, and "
        f"those whose number lies in the {CONFIDENCE:.0%} range they are told."
    )
    return Table("Actions expected against marked", columns, rows, note) if rows else None


def report_coverage(
    run: BenchmarkRun,
    annotations: Annotations,
    design: BenchmarkDesign,
    *,
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
    errors: Errors = MappingProxyType({}),
) -> Report:
    if not run.rows:
        reasons = list_few(f"{name}: {why}" for (_, name), why in run.failures.items())
        raise EarmarkError(f"nothing could be evaluated: {reasons or 'there are no recordings'}")
    results = BenchmarkResults.of_rows(run.rows)
    subject = _system(results, design.subject, instead=-1)
    baseline = _system(results, design.baseline, instead=0)
    absent = tuple(
        f"the rule {rule} was not run, so {results.label(system)} stands in its place"
        for rule, system in ((design.subject, subject), (design.baseline, baseline))
        if rule != system[1]
    )
    failed = tuple(f"left out: {name} ({f}): {why}" for (f, name), why in run.failures.items())
    occupancy = occupancies(annotations, results, window=design.window)
    tables = [
        coverage_table(results),
        paired_table(results, subject),
        saved_table(results, baseline),
        recording_table(
            results, annotations, occupancy, budget=design.shown, systems=(baseline, subject)
        ),
        gain_table(results, occupancy, baseline=baseline),
        forecast_table(run.rows, annotations.durations, errors),
        count_table(run.rows, annotations.durations, errors),
        pooled_table(results),
    ]
    caption = (
        f"Coverage against calls, all actions of {counted(results.with_actions, 'recording')} "
        "together, and the same curves read sideways as calls saved."
    )
    return Report(
        "Does listening pay?",
        settings,
        tuple(table for table in tables if table is not None),
        (Drawing("plane", caption, partial(figures.plane, results, subject, baseline)),),
        (*notes, *absent, *annotations.only(results.recordings).notes(), *failed),
    )


def _system(results: BenchmarkResults, rule: str, *, instead: int) -> System:
    system = results.system(rule)
    return system if system in results.systems else results.systems[instead]
