"""Windows drawn at random, and what they say of all those nobody looked at.

The windows are laid in order of how likely the sound makes it that something is done in them, and
every k-th is drawn from a random place on: each is as likely to be drawn as any other, so the share
found active is unbiased whatever the sound is worth; and where it is worth something, every draw
has its like among the windows of every degree, and the share scatters less than by plain chance.

    likely   ▇▇▆▆▅▅▄▃▃▂▂▂▁▁▁▁▁▁▁▁▁▁▁▁
    drawn     ^     ^     ^     ^

How much less is seen in the draws themselves: neighbours in that order are paired, and what two of
a pair differ by is all that chance had to say. The bounds are those of Clopper and Pearson (1934)
at the number of plain draws that would scatter as little, as Korn and Graubard (1998) do it.
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
"""Of the scatter of plain draws, the least that is believed: a few dozen draws say no better."""

MIN_OF_EACH = 8
"""Draws of either kind below which the bounds are those of plain draws."""


def chance_of_activity(windows: Windows) -> FloatArray:
    """How likely each window is to touch an action, by the rates of its sound."""
    expected = np.convolve(windows.rates, windows.reach)[: len(windows)]
    chance: FloatArray = 1 - np.exp(-expected)
    return chance


def draw_evenly(chances: FloatArray, calls: int, rng: np.random.Generator) -> IndexArray:
    """So many places, each as likely as any other, spread over `chances` in order of size.

    In that order, so that neighbours among them are alike. Equal chances come in random order.
    """
    count = len(chances)
    order = np.lexsort((rng.random(count), chances))
    if calls >= count:
        return order
    # A place of its own in every one of `calls` equal slices of the order, ends included.
    edges = (np.arange(calls) + rng.random()) * count / calls
    places: IndexArray = order[np.floor(edges).astype(np.intp)]
    return places


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """A share, and between what it lies."""

    share: float
    low: float
    high: float
    confidence: float

    @property
    def width(self) -> float:
        """From `low` to `high`."""
        return self.high - self.low


def estimate_share(
    active: Sequence[bool], *, population: int, confidence: float = 0.95
) -> ShareInterval:
    """The share of active windows among as many as there are, from those drawn.

    Args:
        active: What was found in the windows drawn, in the order of `draw_evenly`.
        population: Windows that were drawn from.
        confidence: How often the interval is to hold.
    """
    count, found = len(active), sum(active)
    if not count:
        return ShareInterval(math.nan, 0.0, 1.0, confidence)
    share = found / count
    if count >= population:
        return ShareInterval(share, share, share, confidence)
    effective = (
        count / variance_ratio(active) / _population_correction(count, population)
        if has_enough_of_each(active)
        else count
    )
    low, high = clopper_pearson(share * effective, effective, confidence)
    # What was seen is there, and what was seen idle is idle, whatever chance may say.
    most = (population - (count - found)) / population
    return ShareInterval(share, max(low, found / population), min(high, most), confidence)


def estimate_combined_share(
    parts: Sequence[Sequence[bool]], *, population: Sequence[int], confidence: float = 0.95
) -> ShareInterval:
    """The share of active windows of all `parts` together, each drawn from by itself.

    Each counts as many times as it has windows, so the share is unbiased however many were drawn of
    each. The bounds are those of plain draws from all, as thin as those of the thinnest part: the
    share of draws so laid out never scatters more than that.

    Args:
        parts: What was found in the windows drawn of each.
        population: Windows of each part that were drawn from.
        confidence: How often the interval is to hold.
    """
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


def has_enough_of_each(active: Sequence[bool]) -> bool:
    """Whether enough of either kind were drawn to judge by these how little the draws scatter."""
    return MIN_OF_EACH <= sum(active) <= len(active) - MIN_OF_EACH


def _population_correction(count: int, population: int) -> float:
    """The share of plain scatter that is left where so many of so few are drawn."""
    return 1 - (count - 1) / max(1, population - 1)


def variance_ratio(active: Sequence[bool]) -> float:
    """How much draws scatter beside plain ones, 1 at most, by the difference of neighbours."""
    found = np.array(active, dtype=float)
    share = found.mean()
    own = np.mean(np.diff(found) ** 2) / 2
    return float(np.clip(own / (share * (1 - share)), MIN_VARIANCE_RATIO, 1.0))


@lru_cache(maxsize=4096)
def clopper_pearson(found: float, count: float, confidence: float) -> tuple[float, float]:
    """The exact bounds of a share of which `found` of `count` draws were; counts may be broken."""
    from scipy.special import betaincinv  # slow to import, and only audits need it

    tail = (1 - confidence) / 2
    low = betaincinv(found, count - found + 1, tail) if found > 0 else 0.0
    high = betaincinv(found + 1, count - found, 1 - tail) if found < count else 1.0
    return float(low), float(high)


def forecast_width(chances: FloatArray, calls: int, *, confidence: float = 0.95) -> float:
    """About how wide the interval will be after so many calls, if the sound is right."""
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
