"""Episodes: spans of high scores, the thresholds that open and close them, and their cost.

Recall is promised by learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei). It assumes only
that development and future recordings are exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import HOP, FloatArray, Span, Track, merge

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


@dataclass(frozen=True, slots=True)
class Bill:
    episodes: int
    duration: float
    calls: int
    windows: int
    charged: float
    """Calls counted from duration alone: `duration / length`."""

    @property
    def undercount(self) -> float:
        return self.calls / self.charged if self.charged else float("nan")


def bill(episodes: Iterable[Span], *, length: float, windows: int) -> Bill:
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


@dataclass(frozen=True, slots=True)
class Promise:
    threshold: float
    recall: float
    confidence: float
    """The promise fails for at most `1 - confidence` of all possible development sets."""
    recordings: int
    observed: float


def promise(misses: Misses, *, recall: float, confidence: float = 0.95) -> Promise:
    """The highest threshold for which a mean `recall` can be promised; `ValueError` if none."""
    for name, share in (("recall", recall), ("confidence", confidence)):
        if not 0 < share < 1:
            raise ValueError(f"a promised {name} lies between 0 % and 100 %, not {share:.0%}")
    count, risk, doubt = len(misses.shares), 1 - recall, 1 - confidence
    if count < fewest(recall=recall, confidence=confidence):
        raise ValueError(
            f"{count} development recordings cannot promise {recall:.0%} recall with "
            f"{confidence:.0%} confidence, however good the gate: that takes "
            f"{fewest(recall=recall, confidence=confidence)}; ask for less, or calibrate on more"
        )
    lost = misses.shares.mean(axis=0)
    safe = 0
    while safe < len(lost) and p_value(float(lost[safe]), count=count, risk=risk) <= doubt:
        safe += 1
    if safe == 0:
        raise ValueError(
            f"no threshold of this gate can be promised to keep {recall:.0%} with "
            f"{confidence:.0%} confidence: the lowest keeps {1 - lost[0]:.1%} of {count} "
            f"development recordings; ask for less"
        )
    return Promise(
        threshold=float(misses.thresholds[safe - 1]),
        recall=recall,
        confidence=confidence,
        recordings=count,
        observed=float(1 - lost[safe - 1]),
    )


def fewest(*, recall: float, confidence: float) -> int:
    """For a gate that misses nothing the p-value is `recall ** count`."""
    return math.ceil(math.log(1 - confidence) / math.log(recall) - 1e-9)


def p_value(mean: float, *, count: int, risk: float) -> float:
    """Bound on the chance of a `mean` loss this low in `count` recordings if truly above `risk`.

    The smaller of Hoeffding's bound in its relative-entropy form and Bentkus's, both valid for
    independent losses between 0 and 1 of any distribution.
    """
    if mean >= risk:
        return 1.0
    from scipy import special, stats  # slow to import, needed for promises only

    entropy = special.rel_entr(mean, risk) + special.rel_entr(1 - mean, 1 - risk)
    hoeffding = math.exp(-count * float(entropy))
    bentkus = math.e * float(stats.binom.cdf(math.ceil(count * mean - 1e-9), count, risk))
    return min(1.0, hoeffding, bentkus)
