"""Episodes: spans of high scores, the thresholds that open and close them, and their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import HOP, FloatArray, Span, Track, merge

SHORTEST = 0.15
"""Least length of an episode in seconds: annotated actions are not shorter. The paper's value."""

CLOSED_GAP = 0.6
"""Episodes less than this many seconds apart are joined. The paper's value."""


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
    """Steps of the median filter, odd; 1 leaves the scores as they are."""
    shortest: float = SHORTEST
    gap: float = CLOSED_GAP

    def __post_init__(self) -> None:
        if not self.off <= self.on:
            raise ValueError(f"an episode closes at or below where it opens: {self.off}, {self.on}")
        if self.median < 1 or self.median % 2 == 0:
            raise ValueError(f"a median filter is an odd number of steps wide, not {self.median}")

    def __call__(self, scores: Track) -> list[Span]:
        """The episodes of `scores`, in order."""
        begins, ends = self.edges(scores.values.astype(float), hop=scores.hop)
        return list(map(Span, *((scores.start + each).tolist() for each in (begins, ends))))

    def edges(self, scores: FloatArray, *, hop: float = HOP) -> tuple[FloatArray, FloatArray]:
        """Begins and ends of the episodes, in seconds from the first score; empty for none."""
        if self.median > 1 and len(scores):
            from scipy.ndimage import median_filter  # slow to import, not needed for listening

            scores = median_filter(scores, size=self.median, mode="nearest")
        states = np.where(scores >= self.on, 1, np.where(scores < self.off, 0, -1))
        last = np.maximum.accumulate(np.where(states >= 0, np.arange(len(states)), -1))
        is_open = (last >= 0) & (states[last] == 1)
        changes = np.flatnonzero(np.diff(np.concatenate([[False], is_open, [False]]))) * hop
        begins, ends = changes[::2], changes[1::2]
        is_long = ends - begins > self.shortest - 1e-9  # allows for rounding
        begins, ends = begins[is_long], ends[is_long]
        if not len(begins):
            return begins, ends
        is_apart = begins[1:] - ends[:-1] >= self.gap
        return begins[np.append(True, is_apart)], ends[np.append(is_apart, True)]


@dataclass(frozen=True, slots=True)
class OperatingPoints:
    """Thresholds and filter that turn scores into episodes, chosen on development recordings."""

    on: tuple[tuple[float, float], ...]
    """Pairs of development recall and the threshold that reaches it, highest recall first."""
    off_share: float
    """The closing threshold as a share of the opening one."""
    median: int
    """Steps of the median filter."""

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> OperatingPoints:
        """The operating points from the plain values in a gate file."""
        return cls(**{**kept, "on": tuple(map(tuple, kept["on"]))})

    def threshold(self, recall: float) -> float:
        """The highest threshold whose development recall is at least `recall`, from 0 to 1.

        Raises:
            ValueError: no operating point reaches it.
        """
        for target, threshold in reversed(self.on):
            if target >= recall - 1e-9:
                return threshold
        known = ", ".join(f"{target:.0%}" for target, _ in self.on)
        raise ValueError(f"no operating point reaches {recall:.0%} recall; there are {known}")

    def at_recall(self, recall: float) -> Episodes:
        """The rule for episodes that reached `recall` on the development recordings."""
        return self.episodes(self.threshold(recall))

    def episodes(self, threshold: float) -> Episodes:
        """The rule that opens at `threshold`."""
        return Episodes(on=threshold, off=threshold * self.off_share, median=self.median)


@dataclass(frozen=True, slots=True)
class Bill:
    """Cost of episodes: actual calls, and the calls counted from their duration alone."""

    episodes: int
    duration: float
    """Total seconds of the episodes."""
    calls: int
    """Windows that at least one episode touches: one call each."""
    windows: int
    """Windows of the whole recording."""
    charged: float
    """Calls counted from duration alone: `duration / length`."""

    @property
    def undercount(self) -> float:
        """Actual calls relative to those counted from duration; nan without episodes."""
        return self.calls / self.charged if self.charged else float("nan")


def bill(episodes: Iterable[Span], *, length: float, windows: int) -> Bill:
    """Cost of `episodes` on a grid of `windows` windows of `length` seconds."""
    spans = merge(episodes)
    touched = np.zeros(windows + 1, dtype=np.intp)
    for span in spans:
        first = int(span.start // length)
        last = int(np.ceil(span.end / length - 1e-9))
        touched[min(first, windows)] += 1
        touched[min(last, windows)] -= 1
    duration = sum(span.duration for span in spans)
    calls = int((np.cumsum(touched)[:windows] > 0).sum())
    return Bill(len(spans), duration, calls, windows, duration / length)
