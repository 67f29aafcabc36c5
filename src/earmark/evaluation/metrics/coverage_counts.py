"""Coverage of a choice of windows: counts that can be added over recordings, and their ratios.

Every function is pure and takes the reference (the annotated actions) first. Counts are added
before a ratio is taken. A ratio over nothing is `nan`; `or_dash` writes it as a dash, never as 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Self

import numpy as np

from earmark.evaluation.annotations.actions import Action, Annotations
from earmark.gate.episodes import bill
from earmark.grid import Grid
from earmark.selection.pick import Pick
from earmark.timeline import FloatArray, IndexArray, Span, merge


def share(part: float, whole: float) -> float:
    """`part / whole`; nan if `whole` is 0."""
    return part / whole if whole else math.nan


def or_dash(value: float, spec: str = ".1f") -> str:
    """`value` as text; a dash for nan.

    >>> or_dash(48.8), or_dash(float("nan"))
    ('48.8', '—')
    """
    return "—" if math.isnan(value) else format(value, spec)


@dataclass(frozen=True, slots=True)
class Addable:
    """Counts of one recording, which can be added field by field to those of another."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


class Ratio:
    """A property: one field divided by another; nan if that is 0."""

    def __init__(self, part: str, whole: str) -> None:
        self.part, self.whole = part, whole

    def __get__(self, counts: object, owner: type) -> float:
        return share(getattr(counts, self.part), getattr(counts, self.whole))


@dataclass(frozen=True, slots=True)
class CoverageCounts(Addable):
    """Coverage counts; add those of several recordings before taking ratios.

    >>> both = CoverageCounts(100, 25, 40, 20, 15) + CoverageCounts(50, 12, 0, 0, 0)
    >>> round(both.cost, 3), both.coverage
    (0.247, 0.5)
    """

    windows: int = 0
    """Windows of the grid: what a full scan would cost, in calls."""
    calls: int = 0
    """Windows picked."""
    actions: int = 0
    covered: float = 0
    """Actions that overlap a picked window; may be a fraction as a mean over several choices."""
    strict: float = 0
    """Actions that contain the instant of a picked window."""

    cost = Ratio("calls", "windows")
    """Share of the windows that were called."""
    coverage = Ratio("covered", "actions")
    """Share of the actions that overlap a picked window."""
    strict_coverage = Ratio("strict", "actions")
    """Share of the actions that contain the instant of a picked window."""


def window_range(
    reference: Sequence[Action], windows: int, length: float
) -> tuple[IndexArray, IndexArray]:
    """The index of the first window that each action overlaps, and of the one after its last.

    Overlap is half-open on both sides. With 4 s windows, and `windows` of them:

        action [4, 8.5)  ->  1, 3        action [3.9, 4)  ->  0, 1

    An action past the grid or of zero length overlaps nothing: both indices are the same.
    """
    edges = np.arange(windows + 1) * length
    starts = np.array([action.start for action in reference], dtype=float)
    ends = np.array([action.end for action in reference], dtype=float)
    first = np.searchsorted(edges, starts, side="right") - 1
    after = np.where(ends > starts, np.searchsorted(edges, ends, side="left"), first)
    return np.clip(first, 0, windows), np.clip(after, 0, windows)


def count_overlaps(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    """How many of `spans` overlap each of `count` windows."""
    first, after = window_range(spans, count, window)
    change = np.bincount(first, minlength=count + 1) - np.bincount(after, minlength=count + 1)
    return np.cumsum(change)[:count].astype(float)


def count_starts(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    """How many of `spans` start in each of `count` windows."""
    edges = np.arange(count + 1) * window
    starts = np.array([span.start for span in spans], dtype=float)
    owner = np.searchsorted(edges, starts, side="right") - 1
    return np.bincount(np.clip(owner, 0, max(count - 1, 0)), minlength=count)[:count].astype(float)


def is_covered(
    reference: Sequence[Action], chosen: IndexArray, *, windows: int, length: float
) -> FloatArray:
    """1.0 for each action that one of the `chosen` windows overlaps, else 0.0."""
    taken = np.zeros(windows + 1)
    taken[1:][np.asarray(chosen, dtype=np.intp)] = 1
    before = np.cumsum(taken)
    first, after = window_range(reference, windows, length)
    return (before[after] > before[first]).astype(float)


def count_touched(reference: Sequence[Action], spans: Sequence[Span | Pick]) -> int:
    """The number of actions that overlap one of `spans`, which are disjoint and in order.

    It is enough to test the first span that ends after the start of an action.
    """
    starts = np.array([*(span.start for span in spans), np.inf])
    ends = np.array([span.end for span in spans])
    first = np.searchsorted(ends, [action.start for action in reference], side="right")
    return int((starts[first] < np.array([action.end for action in reference])).sum())


def holds_instant(reference: Sequence[Action], instants: FloatArray) -> FloatArray:
    """1.0 for each action that contains one of `instants`, else 0.0."""
    ordered = np.sort(np.asarray(instants, dtype=float))
    starts = np.array([action.start for action in reference], dtype=float)
    ends = np.array([action.end for action in reference], dtype=float)
    return (np.searchsorted(ordered, ends) > np.searchsorted(ordered, starts)).astype(float)


def count_covered(
    reference: Sequence[Action], picks: Sequence[Pick], *, windows: int, length: float
) -> CoverageCounts:
    """The coverage counts of `picks` on a grid of `windows` windows of `length` seconds."""
    chosen = np.array([pick.window for pick in picks], dtype=np.intp)
    instants = np.array([pick.instant for pick in picks], dtype=float)
    reached = is_covered(reference, chosen, windows=windows, length=length).sum()
    held = holds_instant(reference, instants).sum()
    return CoverageCounts(windows, len(picks), len(reference), int(reached), int(held))


@dataclass(frozen=True, slots=True)
class OccupancyCounts(Addable):
    """Occupancy of a recording's windows; can be added over recordings."""

    windows: int = 0
    """Windows of the grid, the last one padded."""
    occupied: int = 0
    """Windows that overlap at least one action."""
    overlaps: int = 0
    """Pairs of an action and a window that overlap."""

    occupancy = Ratio("occupied", "windows")
    """Share of windows that touch an action."""
    actions_per_window = Ratio("overlaps", "windows")
    """Mean number of actions that overlap a window."""


def count_occupied(
    reference: Sequence[Action], duration: float, *, window: float
) -> OccupancyCounts:
    """Occupancy counts of a recording of `duration` seconds in windows of `window` seconds."""
    windows = Grid(window).count(duration)
    overlaps = count_overlaps(reference, windows, window=window)
    return OccupancyCounts(windows, int((overlaps > 0).sum()), int(overlaps.sum()))


def count_each(marked: Annotations, *, window: float) -> list[OccupancyCounts]:
    """Occupancy counts of every recording of `marked`, in its order."""
    return [
        count_occupied(actions, marked.durations[name], window=window)
        for name, actions in marked.recordings.items()
    ]


@dataclass(frozen=True, slots=True)
class EpisodeCounts(Addable):
    """Time and calls of a gate's episodes; can be added over recordings."""

    seconds: float = 0.0
    """Length of the recordings."""
    kept: float = 0.0
    """Seconds inside an episode."""
    episodes: int = 0
    """Number of episodes after merging those that touch."""
    windows: int = 0
    """Windows of the grid: what a full scan would cost, in calls."""
    calls: int = 0
    """Windows of the grid that an episode overlaps: the real number of calls."""
    charged: float = 0.0
    """Calls by duration: seconds kept divided by seconds of a window."""
    actions: int = 0
    reached: int = 0
    """Actions that overlap an episode."""

    retained = Ratio("kept", "seconds")
    """Share of the time inside an episode."""

    @property
    def reduction(self) -> float:
        """Share of the time that is discarded; nan for no time."""
        return 1 - self.retained

    recall = Ratio("reached", "actions")
    """Share of the actions that overlap an episode."""
    cost = Ratio("calls", "windows")
    """Share of the windows that must be called."""
    undercount = Ratio("calls", "charged")
    """Real calls per call by duration."""


def count_kept(
    reference: Sequence[Action], episodes: Sequence[Span], duration: float, *, window: float
) -> EpisodeCounts:
    """Time, recall and calls of the `episodes` of a recording of `duration` seconds.

    Episodes are cut at the end of the recording; those that touch count as one.
    """
    cut = [Span(span.start, min(span.end, duration)) for span in episodes if span.start < duration]
    joined = merge(span for span in cut if span.duration > 0)
    cost = bill(joined, length=window, windows=Grid(window).count(duration))
    kept = (cost.duration, cost.episodes, cost.windows, cost.calls, cost.charged)
    return EpisodeCounts(duration, *kept, len(reference), count_touched(reference, joined))


def calls_saved(cost: float, coverage: float, baseline: Sequence[tuple[float, float]]) -> float:
    """Share of calls saved against a baseline with the same coverage.

    `baseline` is a curve of (cost, coverage) points, interpolated linearly. If several costs reach
    the coverage, the lowest counts. nan if the baseline has no such point: coverage below its
    cheapest point or above its best, or a cost of 0.
    """
    points = sorted(point for point in baseline if not any(map(math.isnan, point)))
    needed = [low for low, reached in points[:1] if reached == coverage]
    if points and coverage > points[0][1]:
        needed = [
            low + (high - low) * (coverage - reached) / (further - reached)
            for (low, reached), (high, further) in pairwise(points)
            if reached < coverage <= further
        ]
    return 1 - cost / needed[0] if needed and needed[0] > 0 else math.nan


@dataclass(frozen=True, slots=True)
class ForecastCounts(Addable):
    """Forecast against outcome; can be added over recordings."""

    recordings: int = 0
    """Recordings with actions and with expected actions."""
    expected: float = 0.0
    """Actions expected to be covered."""
    covered: float = 0.0
    actions: int = 0
    foreseen: float = 0.0
    """Actions expected in all."""
    absolute: float = 0.0
    """Sum over recordings of |forecast coverage - coverage|."""

    forecast = Ratio("expected", "foreseen")
    """Coverage that was forecast for all recordings together."""

    @property
    def bias(self) -> float:
        """Forecast minus coverage over all recordings together; positive if too optimistic."""
        return self.forecast - share(self.covered, self.actions)

    error = Ratio("absolute", "recordings")
    """Mean absolute error of the forecast over recordings."""


def forecast_error(counts: CoverageCounts, *, expected: float, foreseen: float) -> ForecastCounts:
    """The error of the forecast `expected / foreseen` against the coverage of one recording.

    All counts are 0 for a recording without actions or without expected actions.
    """
    if not counts.actions or not foreseen > 0:
        return ForecastCounts()
    miss = abs(expected / foreseen - counts.coverage)
    return ForecastCounts(1, expected, counts.covered, counts.actions, foreseen, miss)
