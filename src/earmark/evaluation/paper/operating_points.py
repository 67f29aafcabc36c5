"""Operating points: how scores become episodes, chosen on development recordings.

For each recall target the rule of the gate's episodes (opening and closing threshold, median
filter) that throws most away on the development recordings and still reaches it; applied unchanged
to the recordings that are judged. It works on the scores of any frontline.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import EpisodeCounts, count_kept
from earmark.evaluation.metrics.significance import bootstrap_ratio
from earmark.evaluation.tables.table import Cells, Table, interval
from earmark.gate.episodes import Episodes
from earmark.timeline import Span, Track

TARGETS = (0.99, 0.97, 0.95, 0.93, 0.90, 0.87)
"""Recalls on the development recordings; the paper's."""

OFF_SHARES = (1.0, 0.7, 0.4)
"""Closing thresholds that are tried, as shares of the opening one."""

MEDIANS = (1, 5, 13)
"""Steps of the median filter that are tried."""

SHAPED_AT = 0.93
"""The target at which closing threshold and median filter are chosen."""

THRESHOLDS = 40
"""Opening thresholds that are tried: quantiles of the development scores."""

Unit = Literal["time", "calls"]
"""What a setting is chosen to save: seconds that are kept, or windows that must be called."""


@dataclass(frozen=True, slots=True, eq=False)
class AnnotatedScores:
    """One recording's scores with its actions."""

    recording: str
    track: Track
    duration: float
    actions: Sequence[Action]


@dataclass(frozen=True, slots=True)
class EpisodeShape:
    """What a rule for episodes is besides its opening threshold."""

    off_share: float = 1.0
    """The closing threshold as a share of the opening one."""
    median: int = 1
    """Steps of the median filter."""

    def rule(self, threshold: float) -> Episodes:
        """The rule that opens at `threshold`."""
        return Episodes(threshold, min(threshold, threshold * self.off_share), self.median)


def find_episodes(one: AnnotatedScores, rule: Episodes) -> list[Span]:
    """The episodes of a recording, cut at its end."""
    cut = (Span(span.start, min(span.end, one.duration)) for span in rule([one.track]))
    return [span for span in cut if span.duration > 0]


def count_episodes(
    many: Iterable[AnnotatedScores], rule: Episodes, *, window: float
) -> EpisodeCounts:
    """What the episodes of many recordings keep, reach and cost."""
    counted = (
        count_kept(one.actions, find_episodes(one, rule), one.duration, window=window)
        for one in many
    )
    return sum(counted, EpisodeCounts())


def saved(counts: EpisodeCounts, unit: Unit) -> float:
    """The share that is not kept, in time or in calls."""
    return counts.reduction if unit == "time" else 1 - counts.cost


def candidates(development: Sequence[AnnotatedScores], count: int = THRESHOLDS) -> list[float]:
    """Opening thresholds from the lowest score up, each keeping about as much less."""
    pooled = np.concatenate([one.track.values for one in development])
    levels = np.quantile(pooled, np.linspace(0, 1, count), method="higher")
    found: list[float] = np.unique(levels).tolist()
    return found


def choose_shape(
    development: Sequence[AnnotatedScores], *, window: float, unit: Unit = "time"
) -> EpisodeShape:
    """The closing threshold and the filter that save most at `SHAPED_AT`; the plain one of equals.

    Twelve opening thresholds are tried for each pair of them.
    """
    tried = []
    for off_share, median in product(OFF_SHARES, MEDIANS):
        shape = EpisodeShape(off_share, median)
        counted = [
            count_episodes(development, shape.rule(threshold), window=window)
            for threshold in candidates(development, 12)
        ]
        good = [saved(counts, unit) for counts in counted if counts.recall >= SHAPED_AT]
        tried.append((max(good, default=-math.inf), off_share, -median, shape))
    return max(tried, key=lambda each: each[:3])[3]


def choose_rules(
    development: Sequence[AnnotatedScores],
    targets: Sequence[float] = TARGETS,
    *,
    window: float,
    unit: Unit = "time",
    shape: EpisodeShape | None = None,
) -> dict[float, Episodes | None]:
    """For each target, the rule that saves most and still reaches it; None where none does.

    The shape is chosen too unless it is given.
    """
    shape = shape or choose_shape(development, window=window, unit=unit)
    rules = [shape.rule(threshold) for threshold in candidates(development)]
    counted = [count_episodes(development, rule, window=window) for rule in rules]
    chosen: dict[float, Episodes | None] = {}
    for target in targets:
        good = [
            (saved(counts, unit), place)
            for place, counts in enumerate(counted)
            if counts.recall >= target
        ]
        chosen[target] = rules[max(good)[1]] if good else None
    return chosen


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One frontline at one target: the rule, and what it came to on the judged recordings."""

    frontline: str
    target: float
    rule: Episodes | None
    """None where no threshold reaches the target on the development recordings."""
    judged: tuple[EpisodeCounts, ...] = ()
    """One a recording."""

    @property
    def counts(self) -> EpisodeCounts:
        """What it came to on all of them."""
        return sum(self.judged, EpisodeCounts())

    @property
    def reduction_interval(self) -> tuple[float, float]:
        """95 % of the reduction of time over recordings, by bootstrap; nan for fewer than two."""
        low, high = bootstrap_ratio(
            [each.kept for each in self.judged], [each.seconds for each in self.judged]
        )
        return 1 - high, 1 - low


def measure_points(
    frontline: str,
    development: Sequence[AnnotatedScores],
    judged: Sequence[AnnotatedScores],
    *,
    window: float,
    targets: Sequence[float] = TARGETS,
    shape: EpisodeShape | None = None,
) -> list[OperatingPoint]:
    """The operating points of one frontline, chosen on `development` to save time."""
    rules = choose_rules(development, targets, window=window, shape=shape)
    return [
        OperatingPoint(
            frontline,
            target,
            rule,
            tuple(count_episodes([one], rule, window=window) for one in judged) if rule else (),
        )
        for target, rule in rules.items()
    ]


def points_table(points: Mapping[str, Sequence[OperatingPoint]], *, note: str = "") -> Table:
    """Recall, reduction of time, calls and undercount of every frontline at every target."""
    rows: list[Cells] = []
    for frontline, found in points.items():
        for point in found:
            counts, rule = point.counts, point.rule
            low, high = point.reduction_interval
            shares = (counts.recall, counts.reduction, counts.cost)
            how = (rule.on, rule.off, rule.median) if rule else ("—",) * 3
            size = (counts.episodes, counts.calls) if rule else ("—",) * 2
            rows.append(
                (
                    frontline,
                    f"{100 * point.target:g} %",
                    *(100 * share for share in shares[:2]),
                    interval(100 * low, 100 * high),
                    100 * shares[2],
                    counts.undercount,
                    *size,
                    *how,
                )
            )
    columns = (
        *("frontline", "dev recall", "recall %", "reduction %", "95 %"),
        *("calls %", "undercount"),
        *("episodes", "calls", "opens at", "closes below", "median"),
    )
    return Table("Operating points of every frontline", columns, rows, note, decimals=2)
