"""The rows of an evaluation, indexed by system and budget."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import astuple, dataclass

import numpy as np

from earmark.evaluation.benchmark import BenchmarkRow, ignores_scores
from earmark.evaluation.metrics.coverage_counts import CoverageCounts, calls_saved
from earmark.evaluation.metrics.significance import Paired, compare_paired
from earmark.evaluation.tables.table import mean

System = tuple[str, str]
"""A frontline, which scores windows, and a rule, which spends the budget."""


@dataclass(frozen=True, slots=True)
class BenchmarkResults:
    """The counts of one evaluation by system, budget and recording."""

    recordings: list[str]
    """In order of appearance, like the systems."""
    systems: list[System]
    budgets: list[float]
    """Increasing."""
    counts: dict[tuple[System, float], dict[str, CoverageCounts]]
    """By system and budget, then by recording."""

    @classmethod
    def of_rows(cls, rows: Iterable[BenchmarkRow]) -> BenchmarkResults:
        """The results in `rows`."""
        recordings: dict[str, None] = {}
        counts: dict[tuple[System, float], dict[str, CoverageCounts]] = {}
        for row in rows:
            recordings[row.recording] = None
            key = (row.frontline, row.rule), row.budget
            counts.setdefault(key, {})[row.recording] = row.counts
        systems = list(dict.fromkeys(system for system, _ in counts))
        return cls(list(recordings), systems, sorted({budget for _, budget in counts}), counts)

    @property
    def with_actions(self) -> int:
        """The number of recordings that have actions, and therefore a coverage."""
        first = next(iter(self.counts.values()), {})
        return sum(counts.actions > 0 for counts in first.values())

    @property
    def frontlines(self) -> list[str]:
        """Frontlines in order of appearance."""
        return list(dict.fromkeys(frontline for frontline, _ in self.systems))

    @property
    def rules(self) -> list[str]:
        """Rules in order of appearance."""
        return list(dict.fromkeys(rule for _, rule in self.systems))

    def system(self, rule: str) -> System:
        """The first frontline with `rule`, whether or not it was run."""
        return self.frontlines[0], rule

    def by_recording(self, system: System, budget: float) -> dict[str, CoverageCounts]:
        """The counts of one system at one budget, by recording; empty if it was not run."""
        return self.counts.get((system, budget), {})

    def points(self, system: System, budget: float) -> list[float]:
        """Coverage in per cent, one for each of `recordings`; nan without actions."""
        found = self.by_recording(system, budget)
        return [100 * found.get(name, CoverageCounts()).coverage for name in self.recordings]

    def means(self, system: System) -> dict[float, float]:
        """Coverage in per cent by budget, averaged over recordings."""
        return {budget: mean(self.points(system, budget)) for budget in self.budgets}

    def pooled(self, system: System, budget: float) -> CoverageCounts:
        """The counts of all recordings together."""
        return sum(self.by_recording(system, budget).values(), CoverageCounts())

    def curve(self, system: System) -> list[tuple[float, float]]:
        """Cost and coverage of all recordings together, one point per budget."""
        counts = [self.pooled(system, budget) for budget in self.budgets]
        return [(each.cost, each.coverage) for each in counts]

    def gains(self, system: System, budget: float, *, baseline: System) -> list[float]:
        """Points of coverage over `baseline`, one for each of `recordings`."""
        pairs = zip(self.points(system, budget), self.points(baseline, budget), strict=True)
        return [ours - theirs for ours, theirs in pairs]

    def pair(self, ours: System, theirs: System, budget: float) -> Paired:
        """Coverage of one system against another in points, paired by recording."""
        return compare_paired(self.points(ours, budget), self.points(theirs, budget))

    def saved(self, system: System, budget: float, *, baseline: System) -> float:
        """Share of calls saved against `baseline` at equal coverage; nan where undefined."""
        total = self.pooled(system, budget)
        return calls_saved(total.cost, total.coverage, self.curve(baseline))

    def saved_interval(
        self, system: System, budget: float, *, baseline: System, draws: int = 1000
    ) -> tuple[float, float]:
        """The 95 % bootstrap interval of `saved` over recordings; nan for fewer than two."""
        ours = self.by_recording(system, budget)
        theirs = [self.by_recording(baseline, each) for each in self.budgets]
        names = [n for n in ours if ours[n].actions and all(n in each for each in theirs)]
        if len(names) < 2:
            return math.nan, math.nan
        rng, size = np.random.default_rng(0), len(names)
        drawn = rng.multinomial(size, np.full(size, 1 / size), size=draws)  # (draws, recordings)
        kept = np.array([[astuple(each[name])[:4] for name in names] for each in (ours, *theirs)])
        sums = np.moveaxis(drawn @ kept, 0, 1)  # (draws, curves, windows calls actions covered)
        points = np.stack([sums[..., 1] / sums[..., 0], sums[..., 3] / sums[..., 2]], axis=-1)
        found = [calls_saved(own[0], own[1], curve) for own, *curve in points.tolist()]
        known = [value for value in found if not math.isnan(value)]
        if len(known) < draws / 2:
            return math.nan, math.nan
        low, high = np.quantile(known, [0.025, 0.975])
        return float(low), float(high)

    def label(self, system: System) -> str:
        """The name of a system: its rule, with its frontline where there are several."""
        alone = len(self.frontlines) == 1 or ignores_scores(system[1])
        return system[1] if alone else f"{system[0]} / {system[1]}"
