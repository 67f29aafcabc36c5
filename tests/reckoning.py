"""Expected coverage reckoned the slow and obvious way, to hold the fast way to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from earmark import Budget, Pick
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import Coverage
from earmark.selection.pick import gains

CURVES = {
    "brief": Survival((0.0, 0.5), (1.0, 0.0)),
    "usual": Survival.lognormal(median=2.0, sigma=1.0),
    "steps": Survival.from_lengths([4.0, 4.0, 12.0]),
    "lasting": Survival.lognormal(median=15.0, sigma=0.5),
}
"""From actions that end where they start, to ones that outlast a small recording."""


def rated(rates: Iterable[float], survival: Survival = CURVES["usual"]) -> Windows:
    """Windows of 4 s with these rates, which are the scores too."""
    values = np.array(list(rates), dtype=float)
    middles = (np.arange(len(values)) + 0.5) * 4.0
    return Windows(4.0, len(values) * 4.0, values, middles, values, survival)


def worth(windows: Windows, chosen: Iterable[int]) -> float:
    """F(P): each window's rate times the chance to last until the next pick."""
    picks = sorted(chosen)
    reach = windows.lengths.reach(windows.length)
    total = 0.0
    for window, rate in enumerate(windows.rates.tolist()):
        ahead = [pick - window for pick in picks if pick >= window]
        if ahead and ahead[0] < len(reach):
            total += rate * float(reach[ahead[0]])
    return total


def forecast(windows: Windows, chosen: ArrayLike) -> float:
    """The share of actions that picks of the `chosen` windows are expected to touch.

    nan where no action is expected at all.
    """
    actions = float(windows.rates.sum())
    ordered = np.sort(np.asarray(chosen, dtype=np.intp))
    return float(gains(windows, ordered).sum()) / actions if actions else math.nan


def best_of_all(windows: Windows) -> list[float]:
    """The worth of the best 0, 1, 2, ... picks, by trying every set."""
    places = range(len(windows))
    return [
        max(worth(windows, chosen) for chosen in itertools.combinations(places, calls))
        for calls in range(len(windows) + 1)
    ]


def best_together(many: Iterable[Windows]) -> list[float]:
    """The worth of the best 0, 1, 2, ... picks over several recordings, by trying every share."""
    curves = [best_of_all(windows) for windows in many]
    best = [0.0] * (1 + sum(len(curve) - 1 for curve in curves))
    for counts in itertools.product(*(range(len(curve)) for curve in curves)):
        value = sum(curve[count] for curve, count in zip(curves, counts, strict=True))
        best[sum(counts)] = max(best[sum(counts)], value)
    return best


def solved(many: list[Windows], budget: Budget, *, across: bool = True) -> list[list[Pick]]:
    """The picks of `coverage` in recordings that share a budget, flat ones included."""
    paths = Coverage().solve_many(many, budget, across=across)
    return [Coverage().explain(one, path) for one, path in zip(many, paths, strict=True)]


def recordings(longest: int) -> st.SearchStrategy[Windows]:
    """Any recording of at most so many windows; whole rates make ties, fractions break them."""
    rate = st.one_of(st.sampled_from([0.0, 1.0, 3.0]), st.floats(0.0, 5.0, allow_subnormal=False))
    curve = st.sampled_from(list(CURVES.values()))
    return st.builds(rated, st.lists(rate, max_size=longest), curve)
