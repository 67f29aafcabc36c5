"""The coverage that budgets reach, and the calls that a coverage takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.price_search import PRECISION, Bracket, Flags, Side, is_settled
from earmark.selection.rules.coverage import lines
from earmark.selection.solver import Line
from earmark.timeline import FloatArray


def coverage_of_budgets(
    many: Sequence[Windows], budgets: Sequence[int], *, tolerance: float = 1e-4
) -> list[float]:
    """The expected coverage of each budget, spent over all recordings at one price.

    At most `tolerance` below the optimum, and never above it; nan where no action is expected.
    """
    if any(budget < 0 for budget in budgets):
        raise ValueError(f"a budget is 0 calls or more, not {min(budgets)}")
    unpaid, alike = _lines_without_owned(many), np.zeros(len(many), dtype=np.intp)
    reached: dict[int, float] = {}
    above: Side | None = None  # the low end of the bracket of a larger budget, to start from
    for budget in sorted(set(budgets), reverse=True):
        bracket = Bracket(unpaid, alike, np.array([float(budget)]))
        if above is not None and above.calls.sum() >= budget:
            bracket.high = above
        actions = float(bracket.actions.sum())
        while not is_settled(bracket) and _chord_error(bracket) > tolerance * actions:
            bracket.narrow()
        touched = min(float(_chord_value(bracket).sum()), actions)  # sums round differently
        reached[budget] = touched / actions if actions else math.nan
        above = bracket.low
    return [reached[budget] for budget in budgets]


def calls_for(many: Sequence[Windows], coverage: float) -> int:
    """The fewest calls, spent over all recordings at one price, expected to reach `coverage`."""
    check_coverage(coverage)
    actions = sum(float(windows.rates.sum()) for windows in many)
    if actions == 0:
        raise ValueError("no action is expected in these recordings, so no coverage can be reached")
    goal = np.array([coverage - PRECISION]) * actions
    alike = np.zeros(len(many), dtype=np.intp)
    bracket = _WorthBracket(_lines_without_owned(many), alike, goal)
    while not bracket.settled.all():
        bracket.narrow()
    return math.ceil(float(bracket.wanted()[0]) - 1e-9)


def check_coverage(coverage: float) -> None:
    """Raise `ValueError` unless `coverage` is above 0 and at most 1."""
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage lies above 0 and up to 1 (100 %), not {coverage}")


def _lines_without_owned(many: Sequence[Windows]) -> list[Line]:
    """The recordings as if no call had been paid yet."""
    unpaid = [replace(windows, owned=()) if windows.owned else windows for windows in many]
    return lines(unpaid, has_margins=False)


class _WorthBracket(Bracket):
    """Narrows to the fewest calls that reach a number of expected actions."""

    def wanted(self) -> FloatArray:
        """Calls at which the chord between the two ends reaches the goal."""
        (fewer, more), (less, most) = self.calls(), self.worth()
        share: FloatArray = (self.goal - less) / np.maximum(most - less, PRECISION * self.actions)
        return fewer + np.clip(share, 0, 1) * (more - fewer)

    def is_short(self, calls: FloatArray, worth: FloatArray) -> Flags:  # noqa: ARG002
        """Whether the goal is not reached."""
        return worth < self.goal


def _chord_value(bracket: Bracket) -> FloatArray:
    """Worth of the goal on the chord between the two ends: a lower bound."""
    return bracket.worth()[0] + bracket.chord() * (bracket.wanted() - bracket.calls()[0])


def _chord_error(bracket: Bracket) -> float:
    """How far the chord may lie below the true worth: up to where the tangents of both ends meet.

        ╱ ┄●     each end's price is the slope of a straight line that is nowhere below
      ╱ ╱        the curve
    ●┄
    """
    (fewer, more), (less, most) = bracket.calls(), bracket.worth()
    wanted = bracket.wanted()
    from_low = less + bracket.low.prices * (wanted - fewer)
    from_high = most - bracket.high.prices * (more - wanted)
    highest = np.fmin(np.fmin(from_low, from_high), bracket.actions)
    return float(np.max(highest - _chord_value(bracket), initial=0.0))
