"""Operating points: how scores become episodes, chosen on development recordings.

In the discarded time, looks of two seconds at a fixed interval may still touch an action.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from earmark.gate.episodes import Episodes
from earmark.grid import Grid
from earmark.timeline import Span, merge
from earmark_lab.experiments.report import Cells, Table, interval, percent
from earmark_lab.experiments.score_sources import AnnotatedScores
from earmark_lab.metrics.counts import (
    CoverageCounts,
    EpisodeCounts,
    count_kept,
    count_overlaps,
    is_covered,
)
from earmark_lab.metrics.statistics import bootstrap_ratio

TARGETS = (0.99, 0.97, 0.95, 0.93, 0.90, 0.87)
OFF_SHARES = (1.0, 0.7, 0.4)
MEDIANS = (1, 5, 13)
SHAPE_TARGET = 0.93
"""Recall for the choice of closing threshold and median filter."""

THRESHOLDS = 40
"""Quantiles of the development scores."""

FINE_THRESHOLDS = 400
DRAWS = 20
LOOK = 2.0
LOOK_INTERVALS = (4.0, 8.0, 16.0, 32.0, 64.0)

Unit = Literal["time", "calls"]
"""What to save: seconds kept, or windows called."""

UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, slots=True)
class EpisodeShape:
    off_share: float = 1.0
    median: int = 1

    def rule(self, threshold: float) -> Episodes:
        return Episodes(threshold, min(threshold, threshold * self.off_share), self.median)


def find_episodes(scored: AnnotatedScores, rule: Episodes | None) -> list[Span]:
    episodes = (
        span for span in (rule(scored.track) if rule else ()) if span.start < scored.duration
    )
    return [Span(span.start, min(span.end, scored.duration)) for span in episodes]


def look_between(episodes: Sequence[Span], duration: float, *, every: float) -> list[Span]:
    """Looks of `LOOK` seconds, in the middle of each `every` seconds of a gap.

    kept   ====..................====      every = 6 half seconds
    looks        ^^    ^^    ^^
    """
    looks = []
    edges = [0.0, *(time for span in merge(episodes) for time in (span.start, span.end)), duration]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        for index in range(int((end - begin) / every)):
            middle = begin + (index + 0.5) * every
            looks.append(Span(max(begin, middle - LOOK / 2), min(end, middle + LOOK / 2)))
    return looks


def count_setting(
    recordings: Iterable[AnnotatedScores],
    rule: Episodes,
    every: Sequence[float | None] = (None,),
    *,
    window: float,
) -> list[EpisodeCounts]:
    totals = [EpisodeCounts() for _ in every]
    for scored in recordings:
        episodes = find_episodes(scored, rule)
        for index, gap in enumerate(every):
            looks = [] if gap is None else look_between(episodes, scored.duration, every=gap)
            totals[index] += count_kept(
                scored.actions, episodes + looks, scored.duration, window=window
            )
    return totals


def place_at_random(spans: Sequence[Span], duration: float, rng: np.random.Generator) -> list[Span]:
    """Spans of the same lengths, in another order and anywhere, never overlapping."""
    lengths = rng.permutation([span.duration for span in spans])
    free = max(0.0, duration - lengths.sum())
    begins = np.sort(rng.uniform(0, free, len(lengths))) + np.cumsum(lengths) - lengths
    return [
        Span(begin, begin + length)
        for begin, length in zip(begins.tolist(), lengths.tolist(), strict=True)
    ]


def count_called(scored: AnnotatedScores, rule: Episodes, *, window: float) -> CoverageCounts:
    """Of a call in every window that an episode touches."""
    size = Grid(window).count(scored.duration)
    touched = count_overlaps(find_episodes(scored, rule), size, window=window) > 0
    chosen, actions = np.flatnonzero(touched), scored.actions
    covered = is_covered(actions, chosen, windows=size, length=window).sum()
    return CoverageCounts(size, len(chosen), len(actions), float(covered))


def saving(counts: EpisodeCounts, unit: Unit) -> float:
    return counts.reduction if unit == "time" else 1 - counts.cost


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    target: float
    rule: Episodes | None = None
    """None if no setting reaches the target on the development recordings."""
    every: float | None = None
    """Seconds; None for no looks."""
    judged: tuple[EpisodeCounts, ...] = ()

    @property
    def counts(self) -> EpisodeCounts:
        return sum(self.judged, EpisodeCounts())

    @property
    def reduction_interval(self) -> tuple[float, float]:
        """95 % bootstrap over recordings; nan for fewer than two."""
        low, high = bootstrap_ratio(
            [counts.kept for counts in self.judged], [counts.seconds for counts in self.judged]
        )
        return 1 - high, 1 - low


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeTrial:
    development: Sequence[AnnotatedScores]
    judged: Sequence[AnnotatedScores]
    window: float = 4.0

    def candidates(self, count: int = THRESHOLDS) -> list[float]:
        pooled = np.concatenate([scored.track.values for scored in self.development])
        levels = np.quantile(pooled, np.linspace(0, 1, count), method="higher")
        thresholds: list[float] = np.unique(levels).tolist()
        return thresholds

    def choose_shape(self, unit: Unit = "time") -> EpisodeShape:
        tried = []
        for off_share, median in product(OFF_SHARES, MEDIANS):
            shape = EpisodeShape(off_share, median)
            counted = [
                count_setting(self.development, shape.rule(threshold), window=self.window)[0]
                for threshold in self.candidates(12)
            ]
            good = [saving(counts, unit) for counts in counted if counts.recall >= SHAPE_TARGET]
            tried.append((max(good, default=-math.inf), off_share, -median, shape))
        return max(tried, key=lambda trial: trial[:3])[3]

    def measure_points(
        self,
        targets: Sequence[float] = TARGETS,
        *,
        shape: EpisodeShape | None = None,
        every: Sequence[float | None] = (None,),
        unit: Unit = "time",
        highest: bool = True,
    ) -> list[OperatingPoint]:
        """None for `shape` chooses it too. Ties go to the highest threshold, or to the lowest."""
        shape = shape or self.choose_shape(unit)
        tried = []
        for rule in map(shape.rule, sorted(self.candidates(), reverse=highest)):
            counted = count_setting(self.development, rule, every, window=self.window)
            for total, gap in zip(counted, every, strict=True):
                tried.append((saving(total, unit), total.recall, rule, gap))
        points = []
        for target in targets:
            point = OperatingPoint(target)
            if good := [setting for setting in tried if setting[1] >= target]:
                _, _, rule, gap = max(good, key=lambda setting: setting[0])
                counts = (
                    count_setting([scored], rule, [gap], window=self.window)
                    for scored in self.judged
                )
                point = OperatingPoint(target, rule, gap, tuple(total for (total,) in counts))
            points.append(point)
        return points

    def spend_threshold(self, budget: float) -> list[CoverageCounts]:
        """One threshold for all recordings: the lowest that asks at most `budget` in development.

        Every window that an episode touches is a call.
        """
        thresholds = self.candidates(FINE_THRESHOLDS)

        def is_affordable(threshold: float) -> bool:
            rule = EpisodeShape().rule(threshold)
            (counts,) = count_setting(self.development, rule, window=self.window)
            return counts.cost <= budget

        first = bisect_left(thresholds, True, hi=len(thresholds) - 1, key=is_affordable)
        rule = EpisodeShape().rule(thresholds[first])
        return [count_called(scored, rule, window=self.window) for scored in self.judged]

    def recall_at_random(self, rule: Episodes) -> list[EpisodeCounts]:
        """Spans as long as the episodes, anywhere: one total a draw."""
        totals = []
        for draw in range(DRAWS):
            rng, total = np.random.default_rng(draw), EpisodeCounts()
            for scored in self.judged:
                spans = place_at_random(find_episodes(scored, rule), scored.duration, rng)
                total += count_kept(scored.actions, spans, scored.duration, window=self.window)
            totals.append(total)
        return totals

    def downsample_table(self, unit: Unit = "time", targets: Sequence[float] = TARGETS) -> Table:
        shape, rows = self.choose_shape(unit), []
        alone, looking = (
            self.measure_points(targets, shape=shape, every=gaps, unit=unit, highest=False)
            for gaps in ((None,), (None, *LOOK_INTERVALS))
        )
        for points in zip(alone, looking, strict=True):
            left, right = (
                (100 * counts.recall, 100 * counts.reduction, 100 * counts.cost)
                for counts in (point.counts for point in points)
            )
            gap = f"{points[1].every:g} s" if points[1].every else "none"
            gap = gap if points[1].rule else "—"
            rows.append((percent(points[0].target), *left, gap, *right))
        judged_by = ("recall", "reduction", "calls")
        with_looks = (f"{name}, looking" for name in judged_by)
        columns = ("dev recall", *judged_by, "looks every", *with_looks)
        note = (
            f"Per cent on {len(self.judged)} recordings; episodes and looks of {LOOK:g} s chosen "
            f"on {len(self.development)} others. Left, the gate alone; right, with looks where it "
            "kept none. Reduction is of the time, calls are of the windows that what is kept "
            "touches."
        )
        title = f"Downsampling the discarded stream, chosen to save {unit}"
        return Table(title, columns, rows, note)


def points_table(points: Mapping[str, Sequence[OperatingPoint]], *, note: str = "") -> Table:
    rows: list[Cells] = []
    for frontline, own_points in points.items():
        for point in own_points:
            counts, rule = point.counts, point.rule
            low, high = point.reduction_interval
            ends = interval(100 * low, 100 * high)
            shares = (100 * counts.recall, 100 * counts.reduction, ends, 100 * counts.cost)
            how = (rule.on, rule.off, rule.median) if rule else ("—",) * 3
            size = (counts.episodes, counts.calls) if rule else ("—",) * 2
            key = (frontline, percent(point.target))
            rows.append((*key, *shares, counts.undercount, *size, *how))
    columns = (
        *("frontline", "dev recall", "recall %", "reduction %", "95 %"),
        *("calls %", "undercount"),
        *("episodes", "calls", "opens at", "closes below", "median"),
    )
    return Table("Operating points of every frontline", columns, rows, note, decimals=2)
