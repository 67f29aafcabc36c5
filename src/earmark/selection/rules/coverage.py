"""Expected coverage, maximised exactly: the default rule."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, allowance, explain
from earmark.selection.price_search import spend
from earmark.selection.rule import Weights
from earmark.selection.solver import Line, Paths, solve
from earmark.timeline import IndexArray

NARROW = 3
"""Steps in a window up to which the search counts on all of them; in a wider one not on the first
and the last, its margins."""


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
    settled the same way every time, and evenly where all rates are equal. Where windows may begin
    at any step the same search finds the best of all places: a step within a window is touched.
    """

    places_freely: ClassVar[bool] = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` windows of one recording."""
        return self.each([windows], budgets=[budget])[0]

    def each(self, many: Collection[Windows], *, budgets: Sequence[int]) -> list[list[Pick]]:
        """The picks of many recordings, each with a budget of its own."""
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
        """The windows picked in each recording: the exact optimum of all together.

        Of windows that are placed freely these are what is aimed at: `explain` says where they lie.
        With a price no further call would add that many actions, and none of the picks could be
        spared for less. Across recordings one price holds for all, so a busy one gets more calls
        than a quiet one.
        """
        lined = lines(many, weights)
        if budget.price is not None:
            return solve(lined, np.full(len(lined), budget.price))[0]
        if across:
            group, windows = np.zeros(len(lined), np.intp), [sum(line.calls for line in lined)]
        else:
            group, windows = np.arange(len(lined)), [line.calls for line in lined]
        return spend(lined, group, np.array([budget.calls(each) for each in windows], np.intp))

    def explain(self, windows: Windows, chosen: NDArray[np.integer]) -> list[Pick]:
        """The picks of one recording, evenly laid where its rates are all the same."""
        if windows.per_call > NARROW:
            chosen = _with_margins(windows, chosen)
        if len(chosen) and np.ptp(windows.rates) == 0 and not windows.owned:
            chosen = even(len(windows), len(chosen))
        return explain(windows, chosen, lambda _, expected: in_words(expected))


def lines(
    many: Collection[Windows], weights: Weights = None, *, has_margins: bool = True
) -> list[Line]:
    """The recordings as the search sees them, their rates times what an action is worth.

    A window that is placed freely is aimed with its middle, without the margins: what it touches
    with its very edge is seldom seen in its frames. A forecast counts all that is touched.
    """
    lined = []
    pairs = zip(many, repeat(1.0)) if weights is None else zip(many, weights, strict=True)
    for windows, weight in pairs:
        rates = windows.rates if weight == 1 else windows.rates * weight
        margin = int(has_margins and windows.per_call > NARROW)
        bonus = None
        if windows.owned:  # paid: worth more than any picks, so that the rest is placed beside it
            bonus = np.zeros(len(windows))
            bonus[np.maximum(np.array(windows.owned) - margin, 0)] = 1.0 + float(rates.sum())
        lined.append(Line(rates, windows.reach[2 * margin :], bonus, windows.calls))
    return lined


def _with_margins(windows: Windows, path: NDArray[np.integer]) -> NDArray[np.int32]:
    """The windows about what `path` aims at: as many, within the recording.

    Those of a full scan lie side by side. Two that come to lie in one place at an end of the
    recording make room for one elsewhere.
    """
    per_call, last = windows.per_call, len(windows) - 1
    beside = np.minimum(np.arange(1, windows.calls + 1) * per_call - 1, last)
    if len(path) == windows.calls and not windows.owned:
        return beside.astype(np.int32)
    placed = np.unique(np.clip(path + 1, min(per_call - 1, last), last))
    spare = np.setdiff1d(beside, placed)[: len(path) - len(placed)]
    return np.union1d(placed, spare).astype(np.int32)


def even(count: int, calls: int) -> IndexArray:
    """The last window of each of `calls` equal slices of `count`: the best of even rates."""
    return np.arange(1, calls + 1, dtype=np.intp) * count // max(1, calls) - 1


def in_words(expected: float) -> str:
    """Expected new actions as a reason.

    >>> in_words(0.001), in_words(0.5), in_words(1.02)
    ('no new action expected', '0.5 new actions expected', '1 new action expected')
    """
    told = f"{expected:.2g}" if expected >= 0.01 else "no"
    return f"{told} new action{'s' * (told not in ('no', '1'))} expected"
