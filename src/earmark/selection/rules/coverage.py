"""Expected coverage, maximised exactly: the default rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, explain
from earmark.selection.price_search import spend
from earmark.selection.solver import Line, Paths, solve
from earmark.timeline import FloatArray, IndexArray

Weights = Sequence[float] | None
"""What an action in each recording is worth beside those in others; None where alike."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The windows that together are expected to touch most distinct actions.

    An action that starts in window m is touched if m is picked, or if it is still going when the
    next pick begins:

        actions   |--|  |-------|   |---|      rate[m]: starts expected in window m
        windows   . . . . . . . . . . . . .    g(d):    chance to be still going d windows on
        picks       ^       ^         ^
                    F(picks) = sum over m of rate[m] * g(next pick at or after m, minus m)

    The optimum is exact (see `path` and `price`). With even rates it is even spacing, with very
    short actions it is ranking by rate, and it never leaves a call unspent. Windows that are paid
    already (`Windows.owned`) are taken first, and the rest is best beside them. Ties are settled
    the same way every time, and evenly where all rates are equal.
    """

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` windows of one recording."""
        return self.each([windows], budgets=[budget])[0]

    def each(self, many: Sequence[Windows], *, budgets: Sequence[int]) -> list[list[Pick]]:
        """The picks of many recordings, each with a budget of its own."""
        return _listed(many, self.paths_each(many, budgets=budgets))

    def across(self, many: Sequence[Windows], *, budget: int) -> list[list[Pick]]:
        """The picks of many recordings that share one budget, wherever calls are worth most.

        One price holds for all, so a busy recording gets more calls than a quiet one.
        """
        return _listed(many, self.paths_across(many, budget=budget))

    def at_price(self, many: Sequence[Windows], *, price: float) -> list[list[Pick]]:
        """The picks worth `price` expected new actions a call; as many as there are.

        No further call would add that many, and none of the picks could be spared for less.
        """
        return _listed(many, self.paths_at_price(many, price=price))

    def paths_each(self, many: Sequence[Windows], *, budgets: Sequence[int]) -> Paths:
        """The windows that `each` picks, to be told by `explained`."""
        if len(budgets) != len(many):
            raise ValueError(f"{len(many)} recordings need as many budgets, not {len(budgets)}")
        calls = [allowance(windows, budget) for windows, budget in zip(many, budgets, strict=True)]
        return spend(lines(many), np.arange(len(many)), np.array(calls, dtype=np.intp))

    def paths_across(
        self, many: Sequence[Windows], *, budget: int, weights: Weights = None
    ) -> Paths:
        """The windows that `across` picks, to be told by `explained`."""
        if budget < 0:
            raise ValueError(f"a budget is 0 calls or more, not {budget}")
        if not many:
            return []
        return spend(lines(many, weights), np.zeros(len(many), dtype=np.intp), np.array([budget]))

    def paths_at_price(
        self, many: Sequence[Windows], *, price: float, weights: Weights = None
    ) -> Paths:
        """The windows that `at_price` picks, to be told by `explained`."""
        if not price > 0:
            raise ValueError(f"a price is above 0 new actions a call, not {price}")
        return solve(lines(many, weights), np.full(len(many), price)).paths


def lines(many: Sequence[Windows], weights: Weights = None) -> list[Line]:
    """The recordings as the search sees them, their rates times what an action is worth."""
    worth = [1.0] * len(many) if weights is None else weights
    return [_line(windows, weight) for windows, weight in zip(many, worth, strict=True)]


def _line(windows: Windows, weight: float) -> Line:
    rates = windows.rates if weight == 1 else windows.rates * weight
    return Line(rates, windows.survival.reach(windows.length), _bonus(windows, rates))


def _bonus(windows: Windows, rates: FloatArray) -> FloatArray | None:
    """More than any set of picks is worth, for each window that is paid already.

    So these come first, and the rest of the budget is spent best beside them.
    """
    if not windows.owned:
        return None
    bonus = np.zeros(len(windows))
    bonus[list(windows.owned)] = 1.0 + float(rates.sum())
    return bonus


def even(count: int, calls: int) -> IndexArray:
    """The last window of each of `calls` equal slices of `count`: the best of even rates."""
    return np.arange(1, calls + 1, dtype=np.intp) * count // max(1, calls) - 1


def in_words(expected: float) -> str:
    """Expected new actions as a reason."""
    return f"{expected:.2g} new actions expected" if expected >= 0.01 else "no new action expected"


def explained(many: Iterable[Windows], paths: Paths) -> Iterator[tuple[Windows, list[Pick]]]:
    """Each recording's windows and its picks, made one recording at a time: they are many."""
    for windows, path in zip(many, paths, strict=True):
        yield (
            windows,
            explain(windows, _evened(windows, path), lambda _, expected: in_words(expected)),
        )


def _listed(many: Sequence[Windows], paths: Paths) -> list[list[Pick]]:
    return [picks for _, picks in explained(many, paths)]


def _evened(windows: Windows, path: NDArray[np.int32]) -> IndexArray:
    """As many windows as `path` has, evenly laid where the rates are all the same."""
    if len(path) and np.ptp(windows.rates) == 0 and not windows.owned:
        return even(len(windows), len(path))
    return path.astype(np.intp)
