"""Episodes: spans of high scores, and the thresholds that open and close them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import HOP, FloatArray, Span, Track

SHORTEST = 0.15
"""Seconds; annotated actions are not shorter. The paper's value."""

CLOSED_GAP = 0.6
"""Seconds; closer episodes are joined. The paper's value."""


@dataclass(frozen=True, slots=True)
class Episodes:
    """Opens an episode at `on`, closes it below `off`, drops short episodes, joins close ones.

        score          on ─────╱╲──────╱╲───
                      off ────╱──╲╱╲──╱──╲──
        open                  ▁▁▁███████████▁   (the dip between stays above `off`)

    Scores are median-filtered first; beyond both ends the nearest score is repeated.
    """

    on: float
    off: float
    median: int = 1
    """Odd number of steps; 1 leaves the scores as they are."""
    shortest: float = SHORTEST
    gap: float = CLOSED_GAP

    def __post_init__(self) -> None:
        if not self.off <= self.on:
            raise ValueError(f"an episode closes at or below where it opens: {self.off}, {self.on}")
        if self.median < 1 or self.median % 2 == 0:
            raise ValueError(f"a median filter is an odd number of steps wide, not {self.median}")

    def __call__(self, scores: Track) -> list[Span]:
        begins, ends = self.edges(scores.values.astype(float), hop=scores.hop)
        return list(map(Span, *((scores.start + each).tolist() for each in (begins, ends))))

    def edges(self, scores: FloatArray, *, hop: float = HOP) -> tuple[FloatArray, FloatArray]:
        if self.median > 1 and len(scores):
            from scipy.ndimage import median_filter  # slow to import, not needed for listening

            scores = median_filter(scores, size=self.median, mode="nearest")
        states = np.where(scores >= self.on, 1, np.where(scores < self.off, 0, -1))
        last = np.maximum.accumulate(np.where(states >= 0, np.arange(len(states)), -1))
        is_open = (last >= 0) & (states[last] == 1)
        # Lengths are compared in whole steps: in seconds, rounding would decide at the limit.
        changes = np.flatnonzero(np.diff(np.concatenate([[False], is_open, [False]])))
        begins, ends = changes[::2], changes[1::2]
        is_long = ends - begins >= _whole_steps(self.shortest, hop)
        begins, ends = begins[is_long], ends[is_long]
        if len(begins):
            is_apart = begins[1:] - ends[:-1] >= _whole_steps(self.gap, hop)
            begins, ends = begins[np.append(True, is_apart)], ends[np.append(is_apart, True)]
        return begins * hop, ends * hop


def _whole_steps(seconds: float, hop: float) -> int:
    """The fewest steps that last `seconds`."""
    return math.ceil(seconds / hop - 1e-6)


@dataclass(frozen=True, slots=True)
class OperatingPoints:
    on: tuple[tuple[float, float], ...]
    """Pairs of development recall and the threshold that reaches it, highest recall first."""
    off_share: float
    """The closing threshold as a share of the opening one."""
    median: int

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> OperatingPoints:
        points = cls(**{**plain, "on": tuple(map(tuple, plain["on"]))})
        if not points.on or any(len(pair) != 2 for pair in points.on):
            raise ValueError("its operating points are not pairs of a recall and a threshold")
        if not np.isfinite(np.array(points.on, float)).all() or not 0 <= points.off_share <= 1:
            raise ValueError("its operating points are out of range")
        points.episodes(points.on[0][1])  # checks the rest
        return points

    def threshold(self, recall: float) -> float:
        """The highest threshold with this development recall; `ValueError` if there is none."""
        for target, threshold in reversed(self.on):
            if target >= recall - 1e-9:
                return threshold
        known = ", ".join(f"{target:.0%}" for target, _ in self.on)
        raise ValueError(f"no operating point reaches {recall:.0%} recall; there are {known}")

    def at_recall(self, recall: float) -> Episodes:
        return self.episodes(self.threshold(recall))

    def episodes(self, threshold: float) -> Episodes:
        return Episodes(on=threshold, off=threshold * self.off_share, median=self.median)


def count_windows(episodes: Iterable[Span], *, length: float, windows: int) -> int:
    """Windows of the grid that an episode touches: the calls to see all episodes."""
    changes = np.zeros(windows + 1, dtype=np.intp)
    for span in episodes:
        first = int(span.start // length)
        last = int(np.ceil(span.end / length - 1e-9))
        changes[min(first, windows)] += 1
        changes[min(last, windows)] -= 1
    return int((np.cumsum(changes)[:windows] > 0).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    thresholds: FloatArray
    """Increasing, `(thresholds,)`; a higher one misses more."""
    shares: FloatArray
    """Of actions missed, `(recordings, thresholds)`."""

    def __post_init__(self) -> None:
        if self.shares.shape != (len(self.shares), len(self.thresholds)):
            raise ValueError("misses need one column per threshold")
        if not np.all(np.diff(self.thresholds) > 0):
            raise ValueError("thresholds must increase")
        if not np.all((self.shares >= 0) & (self.shares <= 1)):
            raise ValueError("shares of missed actions lie between 0 and 1")
