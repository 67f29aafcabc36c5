"""How many calls each recording gets, for a rule that handles one recording at a time.

The rule is run with several budgets, and the actions its picks are expected to touch are plotted
over the calls. The upper convex hull of that curve gives the gain of each further call, and calls
are bought where it is steepest:

    expected │        ╭──●      The hull of each recording is a chain of steps, ever flatter. A
     actions │   ●───╯ ·        price buys the steps that bring more than it a call; a budget buys
             │  ╱  ·            the steepest of all recordings until it is spent.
             │ ╱ ·
             ●──────────── calls

Around the calls a recording gets, more budgets are tried until they are adjacent: at most
`ROUNDS * PROBES` per recording. A recording of up to 16 windows is then known entirely, one of up
to 8,192 exactly wherever its curve is concave, and a longer one to within a few calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import gains, places_of
from earmark.selection.rule import Rule, Weights
from earmark.timeline import FloatArray, IndexArray

PROBES = 16
"""Budgets tried in a recording in each round."""
ROUNDS = 4
"""Rounds over all recordings; each narrows the calls of a recording eightfold."""


@dataclass(slots=True, eq=False)
class Curve:
    """Expected actions over calls for one recording and rule, at the budgets tried so far."""

    windows: int
    weight: float = 1.0
    """Value of an action."""
    budgets: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    """Budgets tried, increasing from 0."""
    calls: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    """Picks made with each; fewer than the budget where the rule leaves calls unspent."""
    worth: FloatArray = field(default_factory=lambda: np.zeros(1))

    def probe(self, rule: Rule, windows: Windows, *, near: int) -> None:
        """Try budgets on both sides of `near`, up to the next ones that were tried before."""
        low = self.budgets[max(0, int(np.searchsorted(self.budgets, near)) - 1)]
        high = min(self.budgets[self.budgets > near], default=self.windows)
        candidates = np.linspace(low, high, PROBES + 1).round().astype(np.intp)
        untried = np.setdiff1d(candidates, self.budgets)
        chosen = [places_of(windows, rule(windows, budget=each)) for each in untried.tolist()]
        worth = [self.weight * float(gains(windows, one).sum()) for one in chosen]
        order = np.argsort(budgets := np.concatenate([self.budgets, untried]))
        self.budgets = budgets[order]
        self.calls = np.append(self.calls, np.array([*map(len, chosen)], dtype=np.intp))[order]
        self.worth = np.append(self.worth, worth)[order]

    def steps(self) -> tuple[IndexArray, FloatArray]:
        """Calls of each step of the upper hull, and the gain per call in it, decreasing."""
        best = dict(sorted(zip(self.calls.tolist(), self.worth.tolist(), strict=True)))
        edge: list[tuple[int, float]] = []
        for point in best.items():  # the most that each number of calls brings
            while len(edge) > 1 and _slope(edge[-2], edge[-1]) <= _slope(edge[-1], point):
                edge.pop()
            edge.append(point)
        corners = np.array(edge)
        width = np.diff(corners[:, 0])
        return width.astype(np.intp), np.diff(corners[:, 1]) / width


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def share_calls(
    rule: Rule, many: Collection[Windows], budget: Budget, weights: Weights = None
) -> list[int]:
    """The calls of each recording: all that bring more than the price, or the best of a budget.

    `many` is iterated a few times, one recording at a time. `weights` is the value of an action in
    each recording.
    """
    values = [1.0] * len(many) if weights is None else weights
    curves = [Curve(windows.calls, value) for windows, value in zip(many, values, strict=True)]
    calls = [0] * len(curves)
    for _ in range(ROUNDS):
        for windows, curve, near in zip(many, curves, calls, strict=True):
            curve.probe(rule, windows, near=near)
        steps = [curve.steps() for curve in curves]
        if budget.price is not None:
            calls = [int(width[slope > budget.price].sum()) for width, slope in steps]
        else:
            calls = _buy_steepest(steps, budget.calls(sum(curve.windows for curve in curves)))
    return calls


def _buy_steepest(steps: Sequence[tuple[IndexArray, FloatArray]], budget: int) -> list[int]:
    """The `budget` calls that bring most; steps with equal gain are bought in proportion."""
    owner = np.repeat(np.arange(len(steps)), [len(width) for width, _ in steps])
    width = np.concatenate([np.zeros(0, np.intp), *(width for width, _ in steps)])
    slope = np.concatenate([np.zeros(0), *(slope for _, slope in steps)])
    steepest = np.argsort(-slope, kind="stable")
    total = np.cumsum(width[steepest])
    if len(total) and budget < total[-1]:
        last = slope[steepest[np.searchsorted(total, budget)]]
        tied = slope == last
        left = budget - int(width[slope > last].sum())
        filled = np.cumsum(width[tied]) * left // width[tied].sum()
        width = np.where(slope > last, width, 0)
        width[tied] = np.diff(filled, prepend=0)
    bought: list[int] = np.bincount(owner, width, minlength=len(steps)).astype(np.intp).tolist()
    return bought
