"""Coverage of a choice of windows: counts that can be added over recordings, and their ratios.

The reference (the annotated actions) comes first. A ratio over nothing is `nan`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Self

import numpy as np

from earmark.gate.episodes import count_windows
from earmark.grid import Grid
from earmark.selection.pick import Pick
from earmark.timeline import FloatArray, IndexArray, Span, merge
from earmark_lab.annotations.actions import Action, Annotations


def share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def or_dash(value: float, spec: str = ".1f") -> str:
    return "—" if math.isnan(value) else format(value, spec)


@dataclass(frozen=True, slots=True)
class Addable:
    def __add__(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


class Ratio:
    def __init__(self, part: str, whole: str) -> None:
        self.part, self.whole = part, whole

    def __get__(self, counts: object, owner: type) -> float:
        return share(getattr(counts, self.part), getattr(counts, self.whole))


@dataclass(frozen=True, slots=True)
class CoverageCounts(Addable):
    """Add counts of several recordings before taking ratios.

    >>> both = CoverageCounts(100, 25, 40, 20, 15) + CoverageCounts(50, 12, 0, 0, 0)
    >>> round(both.cost, 3), both.coverage
    (0.247, 0.5)
    """

    windows: int = 0
    """Calls of a full scan."""
    calls: int = 0
    actions: int = 0
    covered: float = 0
    """Actions that overlap a picked window; a fraction as a mean over several choices."""
    strict: float = 0
    """Actions that contain the instant of a picked window."""

    cost = Ratio("calls", "windows")
    coverage = Ratio("covered", "actions")
    strict_coverage = Ratio("strict", "actions")


def window_range(
    reference: Sequence[Span], windows: int, length: float
) -> tuple[IndexArray, IndexArray]:
    """The first window that each action overlaps, and the one after its last.

    Overlap is half-open on both sides. With 4 s windows:

        action [4, 8.5)  ->  1, 3        action [3.9, 4)  ->  0, 1

    If an action overlaps nothing, both indices are the same.
    """
    edges = np.arange(windows + 1) * length
    starts = np.array([action.start for action in reference], dtype=float)
    ends = np.array([action.end for action in reference], dtype=float)
    first = np.searchsorted(edges, starts, side="right") - 1
    after = np.where(ends > starts, np.searchsorted(edges, ends, side="left"), first)
    return np.clip(first, 0, windows), np.clip(after, 0, windows)


def count_overlaps(spans: Sequence[Span], count: int, *, window: float) -> FloatArray:
    first, after = window_range(spans, count, window)
    change = np.bincount(first, minlength=count + 1) - np.bincount(after, minlength=count + 1)
    return np.cumsum(change)[:count].astype(float)


def count_starts(spans: Sequence[Action], count: int, *, window: float) -> FloatArray:
    edges = np.arange(count + 1) * window
    starts = np.array([span.start for span in spans], dtype=float)
    owner = np.searchsorted(edges, starts, side="right") - 1
    return np.bincount(np.clip(owner, 0, max(count - 1, 0)), minlength=count)[:count].astype(float)


def longest_overlaps(
    spans: Sequence[Action], count: int, *, window: float, duration: float
) -> IndexArray:
    """The index of the span that fills most of each window; -1 if none overlaps it."""
    edges = np.minimum(np.arange(count + 1) * window, duration)
    longest, owner = np.zeros(count), np.full(count, -1, dtype=np.intp)
    ranges = zip(*window_range(spans, count, window), strict=True)
    for number, (span, (begin, stop)) in enumerate(zip(spans, ranges, strict=True)):
        ends = np.minimum(edges[begin + 1 : stop + 1], span.end)
        shared = ends - np.maximum(edges[begin:stop], span.start)
        owner[begin:stop][shared > longest[begin:stop]] = number
        longest[begin:stop] = np.maximum(longest[begin:stop], shared)
    return owner


def is_covered(
    reference: Sequence[Action], chosen: IndexArray, *, windows: int, length: float
) -> FloatArray:
    """1.0 for each action that one of the `chosen` windows overlaps, else 0.0."""
    is_chosen = np.zeros(windows + 1)
    is_chosen[1:][np.asarray(chosen, dtype=np.intp)] = 1
    before = np.cumsum(is_chosen)
    first, after = window_range(reference, windows, length)
    return (before[after] > before[first]).astype(float)


def count_touched(reference: Sequence[Action], spans: Sequence[Span | Pick]) -> int:
    starts = np.array([*(span.start for span in spans), np.inf])
    ends = np.array([span.end for span in spans])
    first = np.searchsorted(ends, [action.start for action in reference], side="right")
    return int((starts[first] < np.array([action.end for action in reference])).sum())


def holds_instant(reference: Sequence[Action], instants: FloatArray) -> FloatArray:
    ordered = np.sort(np.asarray(instants, dtype=float))
    starts = np.array([action.start for action in reference], dtype=float)
    ends = np.array([action.end for action in reference], dtype=float)
    return (np.searchsorted(ordered, ends) > np.searchsorted(ordered, starts)).astype(float)


def count_covered(
    reference: Sequence[Action], picks: Sequence[Pick], *, windows: int, length: float
) -> CoverageCounts:
    chosen = np.array([pick.window for pick in picks], dtype=np.intp)
    instants = np.array([pick.instant for pick in picks], dtype=float)
    reached = is_covered(reference, chosen, windows=windows, length=length).sum()
    strict = holds_instant(reference, instants).sum()
    return CoverageCounts(windows, len(picks), len(reference), int(reached), int(strict))


@dataclass(frozen=True, slots=True)
class OccupancyCounts(Addable):
    windows: int = 0
    occupied: int = 0
    overlaps: int = 0

    occupancy = Ratio("occupied", "windows")
    actions_per_window = Ratio("overlaps", "windows")


def count_occupied(
    reference: Sequence[Action], duration: float, *, window: float
) -> OccupancyCounts:
    windows = Grid(window).count(duration)
    overlaps = count_overlaps(reference, windows, window=window)
    return OccupancyCounts(windows, int((overlaps > 0).sum()), int(overlaps.sum()))


def count_each(marked: Annotations, *, window: float) -> list[OccupancyCounts]:
    return [
        count_occupied(actions, marked.durations[name], window=window)
        for name, actions in marked.recordings.items()
    ]


@dataclass(frozen=True, slots=True)
class EpisodeCounts(Addable):
    seconds: float = 0.0
    kept: float = 0.0
    episodes: int = 0
    """After merging those that touch."""
    windows: int = 0
    calls: int = 0
    """Windows of the grid that an episode overlaps."""
    charged: float = 0.0
    """Calls by duration: seconds kept divided by seconds of a window."""
    actions: int = 0
    reached: int = 0

    retained = Ratio("kept", "seconds")

    @property
    def reduction(self) -> float:
        return 1 - self.retained

    recall = Ratio("reached", "actions")
    cost = Ratio("calls", "windows")
    undercount = Ratio("calls", "charged")


def count_kept(
    reference: Sequence[Action], episodes: Sequence[Span], duration: float, *, window: float
) -> EpisodeCounts:
    """Episodes are cut at the end of the recording; those that touch count as one."""
    cut = [Span(span.start, min(span.end, duration)) for span in episodes if span.start < duration]
    joined = merge(span for span in cut if span.duration > 0)
    windows = Grid(window).count(duration)
    calls = count_windows(joined, length=window, windows=windows)
    kept = sum(span.duration for span in joined)
    cost = (kept, len(joined), windows, calls, kept / window)
    return EpisodeCounts(duration, *cost, len(reference), count_touched(reference, joined))


def calls_saved(cost: float, coverage: float, baseline: Sequence[tuple[float, float]]) -> float:
    """Share of calls saved against a baseline with the same coverage; nan if it never has it.

    `baseline` is a curve of (cost, coverage) points, interpolated linearly; the lowest cost counts.
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
    recordings: int = 0
    expected: float = 0.0
    covered: float = 0.0
    actions: int = 0
    foreseen: float = 0.0
    absolute: float = 0.0
    """Sum over recordings of |forecast coverage - coverage|."""

    forecast = Ratio("expected", "foreseen")

    @property
    def bias(self) -> float:
        """Positive if too optimistic."""
        return self.forecast - share(self.covered, self.actions)

    error = Ratio("absolute", "recordings")


def forecast_error(counts: CoverageCounts, *, expected: float, foreseen: float) -> ForecastCounts:
    """Of `expected / foreseen`; 0 without actions or expected actions."""
    if not counts.actions or not foreseen > 0:
        return ForecastCounts()
    miss = abs(expected / foreseen - counts.coverage)
    return ForecastCounts(1, expected, counts.covered, counts.actions, foreseen, miss)


TOLERANCES = (0.5, 1.0, 2.0)
"""Seconds; the paper's."""

ONSET_COLLAR = 0.5
"""Seconds; the paper's, wider than DCASE's 0.2 s."""

ROUNDING = 1e-9
"""Seconds, so that exactly one tolerance apart is a match."""


@dataclass(frozen=True, slots=True)
class MatchCounts(Addable):
    """Can be added over recordings.

    >>> (MatchCounts(3, 4, 6) + MatchCounts(1, 2, 0)).recall
    0.6666666666666666
    """

    hits: int = 0
    reference: int = 0
    found: int = 0

    precision = Ratio("hits", "found")
    recall = Ratio("hits", "reference")

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; nan if both sides are empty."""
        return share(2 * self.hits, self.reference + self.found)


def boundaries(spans: Sequence[Span]) -> list[float]:
    return sorted({time for span in spans for time in (span.start, span.end)})


GAPPED = "uniform windows with gaps"
CONTIGUOUS = "uniform windows side by side"


def uniform_windows(count: int, duration: float) -> dict[str, list[Span]]:
    """Two readings of the paper's "uniform windows": 2 N boundaries with gaps, N + 1 without.

    >>> uniform_windows(2, 60.0)[GAPPED]
    [Span(start=0.0, end=15.0), Span(start=30.0, end=45.0)]
    >>> uniform_windows(2, 60.0)[CONTIGUOUS]
    [Span(start=0.0, end=30.0), Span(start=30.0, end=60.0)]
    """
    edges = np.linspace(0.0, duration, 2 * count + 1).tolist()
    gapped = list(map(Span, edges[:-1:2], edges[1::2]))
    return {GAPPED: gapped, CONTIGUOUS: list(map(Span, edges[:-1:2], edges[2::2]))}


def match_boundaries(
    reference: Sequence[float], found: Sequence[float], *, tolerance: float
) -> MatchCounts:
    """Nearest pair first, each used once. F1 rises with the number of boundaries."""
    truth, guesses = np.sort(reference), np.sort(found)
    low = np.searchsorted(guesses, truth - tolerance - ROUNDING, side="left").tolist()
    high = np.searchsorted(guesses, truth + tolerance + ROUNDING, side="right").tolist()
    pairs = [
        (abs(float(truth[marked] - guesses[guess])), marked, guess)
        for marked in range(len(truth))
        for guess in range(low[marked], high[marked])
    ]
    matched: set[int] = set()
    used: set[int] = set()
    for _, marked, guess in sorted(pairs):
        if marked not in matched and guess not in used:
            matched.add(marked)
            used.add(guess)
    return MatchCounts(len(matched), len(reference), len(found))


def compare_boundaries(
    reference: Sequence[Span], systems: Mapping[str, Sequence[Span]]
) -> dict[str, dict[float, MatchCounts]]:
    """At each of `TOLERANCES`. Systems must have the same number of segments: more raise F1."""
    segments = {name: len(spans) for name, spans in systems.items()}
    if len(set(segments.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in segments.items())
        raise ValueError(f"boundary F1 compares equal segment counts only, not {counts}")
    truth = boundaries(reference)
    return {
        name: {t: match_boundaries(truth, boundaries(spans), tolerance=t) for t in TOLERANCES}
        for name, spans in systems.items()
    }


def match_events(
    reference: Sequence[Action], found: Sequence[Action], *, collar: float = ONSET_COLLAR
) -> MatchCounts:
    """The largest matching of equal labels with onsets at most `collar` seconds apart."""
    return sum(match_by_class(reference, found, collar=collar).values(), MatchCounts())


def match_by_class(
    reference: Sequence[Action], found: Sequence[Action], *, collar: float = ONSET_COLLAR
) -> dict[str, MatchCounts]:
    counts = {}
    for label in sorted({event.label for event in (*reference, *found)}):
        marked, guesses = (
            sorted(event.start for event in events if event.label == label)
            for events in (reference, found)
        )
        hits = left = right = 0
        while left < len(marked) and right < len(guesses):
            gap = guesses[right] - marked[left]
            matched = abs(gap) <= collar + ROUNDING
            hits += matched
            left += matched or gap > 0
            right += matched or gap <= 0
        counts[label] = MatchCounts(hits, len(marked), len(guesses))
    return counts
