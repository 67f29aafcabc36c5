"""Operating points: how scores become episodes, chosen on development recordings.

For each recall target, the episode rule that discards most on the development recordings and still
reaches it is applied unchanged to the evaluated recordings. In the discarded time, looks of two
seconds at a fixed interval may still touch an action; they are chosen and evaluated likewise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from earmark.evaluation.metrics.coverage_counts import EpisodeCounts, count_kept
from earmark.evaluation.metrics.significance import bootstrap_ratio
from earmark.evaluation.score_sources import AnnotatedScores
from earmark.evaluation.tables.table import Cells, Table, interval, percent
from earmark.gate.episodes import Episodes
from earmark.timeline import Span, merge

TARGETS = (0.99, 0.97, 0.95, 0.93, 0.90, 0.87)
"""Recalls on the development recordings; the paper's."""

OFF_SHARES = (1.0, 0.7, 0.4)
"""Closing thresholds to test, as shares of the opening one."""

MEDIANS = (1, 5, 13)
"""Lengths of the median filter to test, in steps."""

SHAPE_TARGET = 0.93
"""The recall target for the choice of closing threshold and median filter."""

THRESHOLDS = 40
"""Number of opening thresholds to test: quantiles of the development scores."""

LOOK = 2.0
"""Seconds of one look; the paper's."""

LOOK_INTERVALS = (4.0, 8.0, 16.0, 32.0, 64.0)
"""Seconds between two looks to test."""

Unit = Literal["time", "calls"]
"""What a setting is chosen to save: seconds kept, or windows called."""

UNITS: tuple[Unit, ...] = get_args(Unit)


@dataclass(frozen=True, slots=True)
class EpisodeShape:
    """The parameters of an episode rule except its opening threshold."""

    off_share: float = 1.0
    """The closing threshold as a share of the opening one."""
    median: int = 1
    """Steps of the median filter."""

    def rule(self, threshold: float) -> Episodes:
        """The rule that opens at `threshold`."""
        return Episodes(threshold, min(threshold, threshold * self.off_share), self.median)


def find_episodes(one: AnnotatedScores, rule: Episodes | None) -> list[Span]:
    """The episodes of a recording, cut at its end; none without a rule."""
    found = (span for span in (rule(one.track) if rule else ()) if span.start < one.duration)
    return [Span(span.start, min(span.end, one.duration)) for span in found]


def look_between(kept: Sequence[Span], duration: float, *, every: float) -> list[Span]:
    """Looks of `LOOK` seconds, one in the middle of each `every` seconds of a gap between `kept`.

    kept   ====..................====      every = 6 half seconds
    looks        ^^    ^^    ^^
    """
    looks = []
    edges = [0.0, *(time for span in merge(kept) for time in (span.start, span.end)), duration]
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        for place in range(int((end - begin) / every)):
            middle = begin + (place + 0.5) * every
            looks.append(Span(max(begin, middle - LOOK / 2), min(end, middle + LOOK / 2)))
    return looks


def count_setting(
    many: Iterable[AnnotatedScores],
    rule: Episodes,
    every: Sequence[float | None] = (None,),
    *,
    window: float,
) -> list[EpisodeCounts]:
    """Time, recall and calls of a rule over all recordings, for each interval in `every`."""
    totals = [EpisodeCounts() for _ in every]
    for one in many:
        kept = find_episodes(one, rule)
        for place, gap in enumerate(every):
            looks = [] if gap is None else look_between(kept, one.duration, every=gap)
            totals[place] += count_kept(one.actions, kept + looks, one.duration, window=window)
    return totals


def saving(counts: EpisodeCounts, unit: Unit) -> float:
    """The share saved, of the time or of the calls."""
    return counts.reduction if unit == "time" else 1 - counts.cost


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One recall target: its setting, and the counts on the evaluated recordings."""

    target: float
    rule: Episodes | None = None
    """None if no setting reaches the target on the development recordings."""
    every: float | None = None
    """Seconds between looks; None for no looks."""
    judged: tuple[EpisodeCounts, ...] = ()
    """One per recording."""

    @property
    def counts(self) -> EpisodeCounts:
        """The counts of all evaluated recordings together."""
        return sum(self.judged, EpisodeCounts())

    @property
    def reduction_interval(self) -> tuple[float, float]:
        """The 95 % bootstrap interval of the reduction over recordings; nan for fewer than two."""
        low, high = bootstrap_ratio(
            [each.kept for each in self.judged], [each.seconds for each in self.judged]
        )
        return 1 - high, 1 - low


@dataclass(frozen=True, slots=True, eq=False)
class EpisodeTrial:
    """Scored recordings to choose episode rules on, and others to evaluate them on."""

    development: Sequence[AnnotatedScores]
    judged: Sequence[AnnotatedScores]
    window: float = 4.0
    """Seconds of one call."""

    def candidates(self, count: int = THRESHOLDS) -> list[float]:
        """Opening thresholds from the lowest score up, evenly spaced in quantiles."""
        pooled = np.concatenate([one.track.values for one in self.development])
        levels = np.quantile(pooled, np.linspace(0, 1, count), method="higher")
        found: list[float] = np.unique(levels).tolist()
        return found

    def choose_shape(self, unit: Unit = "time") -> EpisodeShape:
        """The closing threshold and filter that save most at `SHAPE_TARGET`, else the defaults.

        Each pair is tested with twelve opening thresholds.
        """
        tried = []
        for off_share, median in product(OFF_SHARES, MEDIANS):
            shape = EpisodeShape(off_share, median)
            counted = [
                count_setting(self.development, shape.rule(threshold), window=self.window)[0]
                for threshold in self.candidates(12)
            ]
            good = [saving(counts, unit) for counts in counted if counts.recall >= SHAPE_TARGET]
            tried.append((max(good, default=-math.inf), off_share, -median, shape))
        return max(tried, key=lambda each: each[:3])[3]

    def measure_points(
        self,
        targets: Sequence[float] = TARGETS,
        *,
        shape: EpisodeShape | None = None,
        every: Sequence[float | None] = (None,),
        unit: Unit = "time",
        highest: bool = True,
    ) -> list[OperatingPoint]:
        """For each target, the setting that saves most and still reaches it.

        None for `shape` chooses it too. Ties go to the highest threshold, or to the lowest.
        """
        shape = shape or self.choose_shape(unit)
        tried = []
        for rule in map(shape.rule, sorted(self.candidates(), reverse=highest)):
            counted = count_setting(self.development, rule, every, window=self.window)
            for kept, gap in zip(counted, every, strict=True):
                tried.append((saving(kept, unit), kept.recall, rule, gap))
        points = []
        for target in targets:
            point = OperatingPoint(target)
            if good := [each for each in tried if each[1] >= target]:
                _, _, rule, gap = max(good, key=lambda each: each[0])
                counts = (
                    count_setting([one], rule, [gap], window=self.window) for one in self.judged
                )
                point = OperatingPoint(target, rule, gap, tuple(kept for (kept,) in counts))
            points.append(point)
        return points

    def downsample_table(self, unit: Unit = "time", targets: Sequence[float] = TARGETS) -> Table:
        """The gate alone and with looks, both chosen on the development recordings."""
        shape, rows = self.choose_shape(unit), []
        alone, looking = (
            self.measure_points(targets, shape=shape, every=gaps, unit=unit, highest=False)
            for gaps in ((None,), (None, *LOOK_INTERVALS))
        )
        for points in zip(alone, looking, strict=True):
            left, right = (
                (100 * kept.recall, 100 * kept.reduction, 100 * kept.cost)
                for kept in (point.counts for point in points)
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
    """Recall, reduction of time, calls and undercount of every frontline at every target."""
    rows: list[Cells] = []
    for frontline, found in points.items():
        for point in found:
            counts, rule = point.counts, point.rule
            low, high = point.reduction_interval
            ends = interval(100 * low, 100 * high)
            kept = (100 * counts.recall, 100 * counts.reduction, ends, 100 * counts.cost)
            how = (rule.on, rule.off, rule.median) if rule else ("—",) * 3
            size = (counts.episodes, counts.calls) if rule else ("—",) * 2
            key = (frontline, percent(point.target))
            rows.append((*key, *kept, counts.undercount, *size, *how))
    columns = (
        *("frontline", "dev recall", "recall %", "reduction %", "95 %"),
        *("calls %", "undercount"),
        *("episodes", "calls", "opens at", "closes below", "median"),
    )
    return Table("Operating points of every frontline", columns, rows, note, decimals=2)
