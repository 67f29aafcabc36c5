"""What a choice of windows is worth: counts that add up over recordings, and their ratios.

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

from earmark.evaluation.annotations.actions import Action
from earmark.gate.episodes import bill
from earmark.grid import Grid
from earmark.selection.pick import Pick
from earmark.timeline import FloatArray, IndexArray, Span, merge


def share(part: float, whole: float) -> float:
    """`part / whole`; nan when there is no whole."""
    return part / whole if whole else math.nan


def or_dash(value: float, spec: str = ".1f") -> str:
    """`value` as text; a dash where it is nan.

    >>> or_dash(48.8), or_dash(float("nan"))
    ('48.8', '—')
    """
    return "—" if math.isnan(value) else format(value, spec)


@dataclass(frozen=True, slots=True)
class Addable:
    """What was counted on one recording, to be added to another's field by field."""

    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


class Ratio:
    """One count of a recording, or of several added up, over another; nan where that is 0."""

    def __init__(self, part: str, whole: str) -> None:
        self.part, self.whole = part, whole

    def __get__(self, counts: object, owner: type) -> float:
        return share(getattr(counts, self.part), getattr(counts, self.whole))


@dataclass(frozen=True, slots=True)
class CoverageCounts(Addable):
    """What some calls came to; add recordings up, then ask for shares.

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
    """Actions that some picked window overlaps; a fraction where it is a mean over choices."""
    strict: float = 0
    """Actions that hold the representative instant of some picked window."""

    cost = Ratio("calls", "windows")
    """Share of the windows that were called."""
    coverage = Ratio("covered", "actions")
    """Share of the actions that were touched."""
    strict_coverage = Ratio("strict", "actions")
    """Share of the actions whose inside a representative instant fell on."""


def window_range(
    reference: Sequence[Action], windows: int, length: float
) -> tuple[IndexArray, IndexArray]:
    """The first window each action touches, and the one after its last, as positions.

    Overlap is half-open on both sides. With 4 s windows, and `windows` of them:

        action [4, 8.5)  ->  1, 3        action [3.9, 4)  ->  0, 1

    What lies past the grid, or lasts no time at all, touches nothing: both positions are the same.
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
    """Actions that one of `spans` overlaps; these are apart, and in order.

    So only the first to end after an action's start can be the one; past the last there is none.
    """
    starts = np.array([*(span.start for span in spans), np.inf])
    ends = np.array([span.end for span in spans])
    first = np.searchsorted(ends, [action.start for action in reference], side="right")
    return int((starts[first] < np.array([action.end for action in reference])).sum())


def holds_instant(reference: Sequence[Action], instants: FloatArray) -> FloatArray:
    """1.0 for each action that one of `instants` falls inside, else 0.0."""
    ordered = np.sort(np.asarray(instants, dtype=float))
    starts = np.array([action.start for action in reference], dtype=float)
    ends = np.array([action.end for action in reference], dtype=float)
    return (np.searchsorted(ordered, ends) > np.searchsorted(ordered, starts)).astype(float)


def count_covered(
    reference: Sequence[Action], picks: Sequence[Pick], *, windows: int, length: float
) -> CoverageCounts:
    """What `picks` on a grid of `windows` windows of `length` seconds come to."""
    chosen = np.array([pick.window for pick in picks], dtype=np.intp)
    instants = np.array([pick.instant for pick in picks], dtype=float)
    reached = is_covered(reference, chosen, windows=windows, length=length).sum()
    held = holds_instant(reference, instants).sum()
    return CoverageCounts(windows, len(picks), len(reference), int(reached), int(held))


@dataclass(frozen=True, slots=True)
class OccupancyCounts(Addable):
    """How full a recording's windows are; adds up over recordings."""

    windows: int = 0
    """Windows of the grid, the last one padded."""
    occupied: int = 0
    """Windows that overlap at least one action."""
    overlaps: int = 0
    """Pairs of an action and a window that overlap."""

    occupancy = Ratio("occupied", "windows")
    """Share of windows that touch an action."""
    actions_per_window = Ratio("overlaps", "windows")
    """Actions that touch a window, on average over all windows."""


def count_occupied(
    reference: Sequence[Action], duration: float, *, window: float
) -> OccupancyCounts:
    """How full `duration` seconds are, in windows of `window` seconds."""
    windows = Grid(window).count(duration)
    overlaps = count_overlaps(reference, windows, window=window)
    return OccupancyCounts(windows, int((overlaps > 0).sum()), int(overlaps.sum()))


@dataclass(frozen=True, slots=True)
class EpisodeCounts(Addable):
    """What the episodes of a gate come to, in seconds and in calls; adds up over recordings."""

    seconds: float = 0.0
    """Length of the recordings."""
    kept: float = 0.0
    """Seconds inside an episode."""
    episodes: int = 0
    """Episodes, those that touch joined into one."""
    windows: int = 0
    """Windows of the grid: what a full scan would cost, in calls."""
    calls: int = 0
    """Windows of the grid an episode touches: the calls it really costs."""
    charged: float = 0.0
    """Calls a duration account would charge: seconds kept over seconds of a window."""
    actions: int = 0
    reached: int = 0
    """Actions that overlap an episode."""

    retained = Ratio("kept", "seconds")
    """Share of the time that is kept."""

    @property
    def reduction(self) -> float:
        """Share of the time that is thrown away; nan for no time."""
        return 1 - self.retained

    recall = Ratio("reached", "actions")
    """Share of the actions an episode touches."""
    cost = Ratio("calls", "windows")
    """Share of the windows that must be called."""
    undercount = Ratio("calls", "charged")
    """Calls really needed for one call a duration account would charge."""


def count_kept(
    reference: Sequence[Action], episodes: Sequence[Span], duration: float, *, window: float
) -> EpisodeCounts:
    """What `episodes` of a recording of `duration` seconds keep, reach and cost.

    Episodes are cut at the end of the recording; those that touch one another count as one.
    """
    cut = [Span(span.start, min(span.end, duration)) for span in episodes if span.start < duration]
    joined = merge(span for span in cut if span.duration > 0)
    cost = bill(joined, length=window, windows=Grid(window).count(duration))
    kept = (cost.duration, cost.episodes, cost.windows, cost.calls, cost.charged)
    return EpisodeCounts(duration, *kept, len(reference), count_touched(reference, joined))


def calls_saved(cost: float, coverage: float, baseline: Sequence[tuple[float, float]]) -> float:
    """Share of calls saved against a baseline that reaches the same coverage.

    `baseline` is its curve as (cost, coverage) points, read as straight lines between them. Where
    several costs reach the coverage the cheapest counts. nan where the baseline cannot be read:
    coverage below its cheapest point or above its best, or no cost at all.
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
    """Forecast against outcome; adds up over recordings."""

    recordings: int = 0
    """Recordings with actions, and some foreseen."""
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
        """Forecast minus coverage over all recordings together; positive promises too much."""
        return self.forecast - share(self.covered, self.actions)

    error = Ratio("absolute", "recordings")
    """Mean over recordings of the absolute error of the forecast."""


def forecast_error(counts: CoverageCounts, *, expected: float, foreseen: float) -> ForecastCounts:
    """How far `expected / foreseen` actions were from the coverage of one recording.

    A recording without actions, or in which none was foreseen, counts for nothing.
    """
    if not counts.actions or not foreseen > 0:
        return ForecastCounts()
    miss = abs(expected / foreseen - counts.coverage)
    return ForecastCounts(1, expected, counts.covered, counts.actions, foreseen, miss)
