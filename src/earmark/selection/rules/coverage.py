from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, allowance, explain
from earmark.selection.price_search import spend
from earmark.selection.rule import Weights
from earmark.selection.solver import Line, Paths, solve
from earmark.timeline import IndexArray


@dataclass(frozen=True, slots=True)
class Coverage:
    """The windows that together are expected to touch most distinct actions.

    An action that starts in window m is touched if m is picked, or if it is still going when the
    next pick begins:

        actions   |--|  |-------|   |---|      rate[m]: starts expected in window m
        windows   . . . . . . . . . . . . .    g(d):    chance to be still going d windows on
        picks       ^       ^         ^
                    F(picks) = sum over m of rate[m] * g(next pick at or after m, minus m)

    The optimum is exact (see `solver` and `price_search`). With even rates it is even spacing,
    with very short actions it is ranking by rate, and it never leaves a call unspent. Windows that
    are paid already (`Windows.owned`) are taken first, and the rest is best beside them. Ties are
    settled the same way every time, and evenly where all rates are equal.
    """

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        return self.each([windows], budgets=[budget])[0]

    def each(self, many: Collection[Windows], *, budgets: Sequence[int]) -> list[list[Pick]]:
        if len(budgets) != len(many):
            raise ValueError(f"{len(many)} recordings need as many budgets, not {len(budgets)}")
        calls = [allowance(*pair) for pair in zip(many, budgets, strict=True)]
        paths = spend(lines(many), np.arange(len(calls)), np.array(calls, dtype=np.intp))
        return [self.explain(*pair) for pair in zip(many, paths, strict=True)]

    def solve_many(
        self,
        many: Collection[Windows],
        budget: Budget,
        *,
        across: bool = False,
        weights: Weights = None,
    ) -> Paths:
        """The exact optimum of all recordings; with `across`, one price holds for all."""
        lined = lines(many, weights)
        if budget.price is not None:
            return solve(lined, np.full(len(lined), budget.price))[0]
        if across:
            group, windows = np.zeros(len(lined), np.intp), [sum(map(len, lined))]
        else:
            group, windows = np.arange(len(lined)), [len(line) for line in lined]
        return spend(lined, group, np.array([budget.calls(count) for count in windows], np.intp))

    def explain(self, windows: Windows, chosen: NDArray[np.integer]) -> list[Pick]:
        if len(chosen) and np.ptp(windows.rates) == 0 and not windows.owned:
            chosen = even(len(windows), len(chosen))
        return explain(windows, chosen, lambda _, expected: in_words(expected))


def lines(many: Collection[Windows], weights: Weights = None) -> list[Line]:
    """Rates are multiplied by the value of an action."""
    lined = []
    pairs = zip(many, repeat(1.0)) if weights is None else zip(many, weights, strict=True)
    for windows, weight in pairs:
        rates = windows.rates if weight == 1 else windows.rates * weight
        bonus = None
        if windows.owned:  # paid: worth more than any picks, so that the rest is placed beside it
            bonus = np.zeros(len(windows))
            bonus[np.array(windows.owned)] = 1.0 + float(rates.sum())
        lined.append(Line(rates, windows.reach, bonus))
    return lined


def even(count: int, calls: int) -> IndexArray:
    """The last window of each of `calls` equal slices: the best of even rates."""
    return np.arange(1, calls + 1, dtype=np.intp) * count // max(1, calls) - 1


def in_words(expected: float) -> str:
    """Expected new actions as a reason.

    >>> in_words(0.001), in_words(0.5), in_words(1.02)
    ('no new action expected', '0.5 new actions expected', '1 new action expected')
    """
    count = f"{expected:.2g}" if expected >= 0.01 else "no"
    return f"{count} new action{'s' * (count not in ('no', '1'))} expected"
