"""What coverage budgets reach, and how many calls a coverage takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.price_search import PRECISION, Bracket, Flags, Side, is_settled
from earmark.selection.rules.coverage import lines
from earmark.selection.solver import Line
from earmark.timeline import FloatArray


def coverage_of_budgets(
    many: Sequence[Windows], budgets: Sequence[int], *, tolerance: float = 1e-4
) -> list[float]:
    """The coverage expected of each budget, spent over all recordings at one price.

    At most `within` below the best there is, and never above it; nan where no action is expected.
    """
    if any(budget < 0 for budget in budgets):
        raise ValueError(f"a budget is 0 calls or more, not {min(budgets)}")
    unpaid = _lines_without_owned(many)
    reached: dict[int, float] = {}
    above: Side | None = None
    for budget in sorted(set(budgets), reverse=True):
        bracket = _bracket_budget(unpaid, budget, tolerance, above)
        actions = float(bracket.actions.sum())
        reached[budget] = float(_chord_value(bracket).sum()) / actions if actions else math.nan
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
    bracket = _WorthBracket(_lines_without_owned(many), alike, goal, slack=PRECISION * actions)
    while not bracket.settled.all():
        bracket.narrow()
    return math.ceil(float(bracket.wanted()[0]) - 1e-9)


def check_coverage(coverage: float) -> None:
    """Raise `ValueError` where `coverage` is no share that could be reached."""
    if not 0 < coverage <= 1:
        raise ValueError(f"a coverage lies above 0 and up to 1 (100 %), not {coverage}")


def _lines_without_owned(many: Sequence[Windows]) -> list[Line]:
    """The recordings as if no call had been made yet."""
    unpaid = [replace(windows, owned=()) if windows.owned else windows for windows in many]
    return lines(unpaid, has_margins=False)


@dataclass(slots=True, eq=False)
class _WorthBracket(Bracket):
    """Closes in on a number of expected actions, to be reached with the fewest calls."""

    slack: float = 0.0
    """Actions that count as none."""

    def wanted(self) -> FloatArray:
        """Where the line between the two ends reaches the goal."""
        (fewer, more), (less, most) = self.calls(), self.worth()
        share = (self.goal - less) / np.maximum(most - less, self.slack)
        return fewer + np.clip(share, 0, 1) * (more - fewer)

    def is_short(self, calls: FloatArray, worth: FloatArray) -> Flags:  # noqa: ARG002
        """Whether the goal is not reached."""
        return worth < self.goal


def _bracket_budget(
    unpaid: list[Line], budget: int, tolerance: float, above: Side | None
) -> Bracket:
    """A bracket around a budget over all recordings, as tight as asked for.

    `above` is an end of the bracket of a larger budget; with it the search does not start afresh.
    """
    bracket = Bracket(unpaid, np.zeros(len(unpaid), dtype=np.intp), np.array([float(budget)]))
    if above is not None and above.calls.sum() >= budget:
        bracket.high = above
    while not is_settled(bracket) and _chord_error(bracket) > tolerance * bracket.actions.sum():
        bracket.narrow()
    return bracket


def _chord_value(bracket: Bracket) -> FloatArray:
    """What the line between the two ends says the goal is worth: never more than it is."""
    return bracket.worth()[0] + bracket.chord() * (bracket.wanted() - bracket.calls()[0])


def _chord_error(bracket: Bracket) -> float:
    """How much more the goal may be worth than the line says: up to where the prices meet.

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
