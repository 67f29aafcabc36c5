"""Estimates the share of active windows among those not asked, from windows drawn at random.

Every k-th window is drawn from a random start (systematic sampling), sorted by how likely the sound
makes an action. So the share is unbiased however good the sound is:

    likely   ▇▇▆▆▅▅▄▃▃▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁
    drawn     ^     ^     ^     ^

The interval is that of Clopper and Pearson (1934) at the effective number of simple random draws,
following Korn and Graubard (1998), by the differences between neighbours in that order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray

MIN_VARIANCE_RATIO = 0.4
"""Relative to simple random draws: a few dozen draws prove no less."""

MIN_OF_EACH = 8
"""With fewer draws of either kind, active or idle, the interval is that of simple random draws."""


def chance_of_activity(windows: Windows) -> FloatArray:
    expected = np.convolve(windows.rates, windows.reach)[: len(windows)]
    chance: FloatArray = 1 - np.exp(-expected)
    return chance


def draw_evenly(chances: FloatArray, calls: int, rng: np.random.Generator) -> IndexArray:
    """`calls` equally likely windows spread over the sorted `chances`, in order of these."""
    count = len(chances)
    order = np.lexsort((rng.random(count), chances))
    if calls >= count:
        return order
    # One draw in each of `calls` equal slices of the order.
    edges = (np.arange(calls) + rng.random()) * count / calls
    places: IndexArray = order[np.floor(edges).astype(np.intp)]
    return places


@dataclass(frozen=True, slots=True)
class ShareInterval:
    share: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        return self.high - self.low


def estimate_share(
    active: Sequence[bool], *, population: int, confidence: float = 0.95
) -> ShareInterval:
    """`active` is in the order of `draw_evenly`; the share is nan if it is empty."""
    count, found = len(active), sum(active)
    if not count:
        return ShareInterval(math.nan, 0.0, 1.0, confidence)
    share = found / count
    if count >= population:
        return ShareInterval(share, share, share, confidence)
    effective = float(count)
    if MIN_OF_EACH <= found <= count - MIN_OF_EACH:
        effective = count / variance_ratio(active) / _population_correction(count, population)
    low, high = clopper_pearson(share * effective, effective, confidence)
    # The windows drawn are known: they bound the share from both sides.
    most = (population - (count - found)) / population
    return ShareInterval(share, max(low, found / population), min(high, most), confidence)


def estimate_combined_share(
    parts: Sequence[Sequence[bool]], *, population: Sequence[int], confidence: float = 0.95
) -> ShareInterval:
    """Parts are weighted by their windows; the interval is that of the lowest sampling rate."""
    if len(parts) == 1:
        return estimate_share(parts[0], population=population[0], confidence=confidence)
    whole, found = sum(population), sum(map(sum, parts))
    effective = min(
        len(part) * whole / windows for part, windows in zip(parts, population, strict=True)
    )
    if not effective:
        return ShareInterval(math.nan, 0.0, 1.0, confidence)
    pairs = zip(parts, population, strict=True)
    share = sum(sum(part) / len(part) * windows / whole for part, windows in pairs)
    low, high = clopper_pearson(share * effective, effective, confidence)
    most = (whole - (sum(map(len, parts)) - found)) / whole
    return ShareInterval(share, max(low, found / whole), min(high, most), confidence)


def _population_correction(count: int, population: int) -> float:
    """`(N - n) / (N - 1)`."""
    return 1 - (count - 1) / max(1, population - 1)


def variance_ratio(active: Sequence[bool]) -> float:
    """Variance relative to simple random draws, by the differences of neighbours; at most 1."""
    values = np.array(active, dtype=float)
    share = values.mean()
    own = np.mean(np.diff(values) ** 2) / 2
    return float(np.clip(own / (share * (1 - share)), MIN_VARIANCE_RATIO, 1.0))


@lru_cache(maxsize=4096)
def clopper_pearson(found: float, count: float, confidence: float) -> tuple[float, float]:
    """Neither number need be whole."""
    from scipy.special import betaincinv  # slow to import, and only audits need it

    tail = (1 - confidence) / 2
    low = betaincinv(found, count - found + 1, tail) if found > 0 else 0.0
    high = betaincinv(found + 1, count - found, 1 - tail) if found < count else 1.0
    return float(low), float(high)


def forecast_width(chances: FloatArray, calls: int, *, confidence: float = 0.95) -> float:
    if not len(chances) or calls >= len(chances):
        return 0.0
    share = float(chances.mean())
    variance = share * (1 - share)
    own = float(np.mean(chances * (1 - chances)))
    count = float(calls)
    if MIN_OF_EACH <= share * calls <= calls - MIN_OF_EACH:
        count /= max(own / variance, MIN_VARIANCE_RATIO) * _population_correction(
            calls, len(chances)
        )
    low, high = clopper_pearson(share * count, count, confidence)
    return high - low
