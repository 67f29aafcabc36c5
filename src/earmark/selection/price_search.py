"""The price at which a budget is spent to the last call, and the picks it buys.

The best value of K picks is concave in K, so the slope of the edge above K is the price of K calls:

    value │         high ●──────        `low` and `high` are best at some price, each its own.
          │      ╱ ·                    Solving at the slope of the line between them either finds
          │   ·╱ ?                      a better point in between, which replaces one of the two,
          │  ● low                      or proves that the line is the curve's own edge.
          └────────┴──────── calls
                budget

A group of recordings shares one budget and one price.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.solver import Line, Paths, solve
from earmark.timeline import FloatArray, IndexArray

Flags = NDArray[np.bool_]

OVERSHOOT = 0.05
"""How far past the goal a guess aims, as a share of the distance, so that both ends close in."""
PRECISION = 1e-11
"""Share of all expected actions that counts as equal; rounding errors reach a tenth of it."""


@dataclass(slots=True, eq=False)
class Side:
    paths: Paths
    calls: IndexArray
    worth: FloatArray
    """Of each line, without subtracting the price."""
    prices: FloatArray
    """Of each group; nan until a price has been solved."""

    def take(self, where: IndexArray, other: Side, places: IndexArray) -> None:
        self.calls[where] = other.calls[places]
        self.worth[where] = other.worth[places]
        for own, place in zip(where.tolist(), places.tolist(), strict=True):
            self.paths[own] = other.paths[place]


class Bracket:
    """Two sets of picks for each group, with fewer and with more calls than its goal."""

    def __init__(self, lines: Sequence[Line], group: IndexArray, goal: FloatArray) -> None:
        """`group` is that of each line, from 0, adjacent lines together; `goal` counts calls."""
        self.lines, self.group, self.goal = lines, group, goal
        count, groups = len(lines), int(group.max(initial=-1)) + 1
        none: Paths = [np.empty(0, np.int32)] * count
        every: Paths = [np.arange(len(line), dtype=np.int32) for line in lines]
        lengths = np.array([len(line) for line in lines], dtype=np.intp)
        actions = np.array([line.rates.sum() for line in lines], dtype=float)
        extra = [0.0 if line.bonus is None else line.bonus.sum() for line in lines]
        low, high = np.full((2, groups), np.nan)
        self.low = Side(none, np.zeros(count, np.intp), np.zeros(count), low)
        self.high = Side(every, lengths, actions + np.array(extra), high)
        self.settled = np.zeros(groups, bool)
        self.stalled = np.zeros(groups, np.intp)
        self.streak = np.zeros(groups, np.intp)
        """Consecutive moves of the same end; negative for the high end."""
        self.windows, self.actions = self.total(lengths), self.total(actions)
        self.passes = 0

    def wanted(self) -> FloatArray:
        return np.minimum(self.goal, self.windows)

    def is_short(self, calls: FloatArray, worth: FloatArray) -> Flags:  # noqa: ARG002
        return calls <= self.goal

    def total(self, values: FloatArray | IndexArray) -> FloatArray:
        sums = np.bincount(self.group, weights=values, minlength=len(self.settled))
        return sums.astype(float)

    def calls(self) -> tuple[FloatArray, FloatArray]:
        return self.total(self.low.calls), self.total(self.high.calls)

    def worth(self) -> tuple[FloatArray, FloatArray]:
        return self.total(self.low.worth), self.total(self.high.worth)

    def chord(self) -> FloatArray:
        (fewer, more), (less, most) = self.calls(), self.worth()
        return (most - less) / np.maximum(more - fewer, 1)

    def narrow(self) -> None:
        guess = self._guess(self.wanted())
        by_chord = self._is_useless(guess)
        prices = np.where(by_chord, self.chord(), guess)
        where = np.flatnonzero(~self.settled[self.group] & (self.low.calls < self.high.calls))
        found = self._solve(where, prices)
        self.passes += 1
        self._replace(where, found, by_chord)

    def _is_useless(self, guess: FloatArray) -> Flags:
        upper = np.where(np.isnan(self.low.prices), np.inf, self.low.prices)
        lower = np.where(np.isnan(self.high.prices), 0.0, self.high.prices)
        is_between = (lower < guess) & (guess < upper)
        fewer, more = self.calls()
        patience = np.where(np.isnan(self.low.prices + self.high.prices), 2, 1)
        return ~is_between | (more - fewer <= 4) | (self.stalled >= patience)

    def _guess(self, wanted: FloatArray) -> FloatArray:
        """A price that should buy about `wanted` calls; a poor guess costs one pass.

        With both ends solved: linear interpolation between their prices over the logarithm of the
        calls. With one: its price scaled. With none: the price for uniform rates.
        """
        fewer, more = self.calls()
        both = ~np.isnan(self.low.prices + self.high.prices)
        from_low = wanted - fewer <= more - wanted
        from_low = np.where(both, from_low, ~np.isnan(self.low.prices))
        near = np.where(from_low, fewer, more)
        price = np.where(from_low, self.low.prices, self.high.prices)
        # Aim past the goal, seen from the nearer end, so that the other end moves too.
        past = OVERSHOOT * 4.0 ** np.clip(np.abs(self.streak) - 1, 0, 9)
        aim = wanted + np.where(both, past, 1.0) * (wanted - near)
        aim = np.maximum(np.clip(aim, (fewer + wanted) / 2, (more + wanted) / 2), 1)
        fewer, more, near = np.maximum(fewer, 1), np.maximum(more, 2), np.maximum(near, 1)
        along = np.log(aim / fewer) / np.log(more / fewer)
        line = self.low.prices + (self.high.prices - self.low.prices) * along
        # A price falls with a power of the calls, overstated more with each pass: about 0.3 at 2 %
        # of the windows and 1.4 at half, measured on gamma-distributed rates with actions of 2 s.
        measured = 0.25 + 2.2 * wanted / np.maximum(self.windows, 1)
        elasticity = np.minimum(measured * max(1.0, (1 + self.passes) / 2), 8.0)
        scaled = price * (near / aim) ** elasticity
        start = self.actions / np.maximum(self.windows, 1) * self._even_price(wanted)
        return np.where(both, line, np.where(np.isnan(price), start, scaled))

    def _even_price(self, calls: FloatArray) -> FloatArray:
        """Gain of one more call beside `calls` evenly spaced ones, if all rates are 1.

        With gaps of q windows it is c(q) - q g(q), where c(q) = g(0) + ... + g(q-1).
        """
        reach = self.lines[0].reach
        gaps = np.arange(1, len(reach) + 1)
        price = np.cumsum(reach) - gaps * np.append(reach[1:], 0.0)
        even: FloatArray = np.interp(
            self.windows / np.maximum(calls, 1), gaps, np.maximum(price, 1e-9)
        )
        return even

    def _solve(self, where: IndexArray, prices: FloatArray) -> Side:
        paid = prices[self.group[where]]
        paths, values = solve([self.lines[place] for place in where.tolist()], paid)
        calls = np.array([len(path) for path in paths], dtype=np.intp)
        found = Side(paths, calls, values + paid * calls, prices)
        for end, outside in (
            (self.low, calls < self.low.calls[where]),
            (self.high, calls > self.high.calls[where]),
        ):
            found.take(np.flatnonzero(outside), end, where[outside])
        return found

    def _replace(self, where: IndexArray, found: Side, by_chord: Flags) -> None:
        (fewer, more), (less, _) = self.calls(), self.worth()
        group = self.group[where]
        groups = len(self.settled)
        calls = fewer + np.bincount(group, found.calls - self.low.calls[where], groups)
        worth = less + np.bincount(group, found.worth - self.low.worth[where], groups)
        better = (worth - less) - found.prices * (calls - fewer)
        inside = (fewer < calls) & (calls < more)
        unsettled = ~self.settled
        proven = by_chord & (~inside | (better <= PRECISION * self.actions))
        self.settled |= proven
        self.stalled = np.where(inside, 0, self.stalled + 1)
        moves = unsettled & ~proven
        is_short = self.is_short(calls, worth)
        along = np.where(is_short, 1, -1)
        self.streak = np.where(along * self.streak > 0, self.streak + along, along)
        for end, chosen in ((self.low, moves & is_short), (self.high, moves & ~is_short)):
            end.prices[chosen] = found.prices[chosen]
            some = np.flatnonzero((chosen & inside)[group])
            end.take(where[some], found, some)


def splice(few: NDArray[np.int32], many: NDArray[np.int32], calls: int) -> NDArray[np.int32]:
    """Exactly `calls` picks from two paths that are best at the same price; best as well.

    Somewhere a step of `few` holds a whole step of `many` just where changing over gives `calls`:

        few    ──a─────────────────A──        many up to b, then few from A:  the wanted number
        many   ─────b──────B──────────        few up to a, then many from B:  the rest

    An action between a and b is touched at B rather than A by the second, so the two together are
    worth no less than before; and since neither can beat the best, both are best.
    """
    ahead = calls - len(few)
    if ahead == 0:
        return few
    if calls == len(many):
        return many
    ends = np.append(few, np.iinfo(np.int32).max)
    place = int(np.argmax(ends >= many[ahead : ahead + len(ends)]))
    return np.concatenate([many[: ahead + place], few[place:]])


def split_calls(bracket: Bracket, budgets: IndexArray) -> IndexArray:
    fewer, more = (side.astype(np.int64) for side in bracket.calls())
    width = bracket.high.calls - bracket.low.calls
    running = np.cumsum(width)
    first = np.searchsorted(bracket.group, np.arange(len(budgets)))
    running = running - (running[first] - width[first])[bracket.group] if len(width) else running
    extra, room = (budgets - fewer)[bracket.group], np.maximum(more - fewer, 1)[bracket.group]
    filled = running * extra // room - (running - width) * extra // room
    counts: IndexArray = bracket.low.calls + filled
    return counts


def is_settled(bracket: Bracket) -> bool:
    fewer, more = bracket.calls()
    wanted = bracket.wanted()
    bracket.settled |= (fewer == wanted) | (more == wanted)
    return bool(bracket.settled.all())


def spend(lines: Sequence[Line], group: IndexArray, budgets: IndexArray) -> Paths:
    bracket = Bracket(lines, group, budgets.astype(float))
    while not is_settled(bracket):
        bracket.narrow()
    counts = split_calls(bracket, bracket.wanted().astype(np.int64)).tolist()
    pairs = zip(bracket.low.paths, bracket.high.paths, counts, strict=True)
    return [splice(few, many, count) for few, many, count in pairs]


def coverage_of_budgets(
    many: Sequence[Windows], budgets: Sequence[int], *, tolerance: float = 1e-4
) -> list[float]:
    """At most `tolerance` below the optimum and never above it; nan if no action is expected."""
    if any(budget < 0 for budget in budgets):
        raise ValueError(f"a budget is 0 calls or more, not {min(budgets)}")
    lines = [Line(windows.rates, windows.reach) for windows in many]
    group = np.zeros(len(lines), dtype=np.intp)
    reached: dict[int, float] = {}
    above: Side | None = None  # the low end of the bracket of a larger budget, to start from
    for budget in sorted(set(budgets), reverse=True):
        bracket = Bracket(lines, group, np.array([float(budget)]))
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
    check_coverage(coverage)
    actions = sum(float(windows.rates.sum()) for windows in many)
    if actions == 0:
        raise ValueError("no action is expected in these recordings, so no coverage can be reached")
    goal = np.array([coverage - PRECISION]) * actions
    lines = [Line(windows.rates, windows.reach) for windows in many]
    bracket = _WorthBracket(lines, np.zeros(len(lines), dtype=np.intp), goal)
    while not bracket.settled.all():
        bracket.narrow()
    return math.ceil(float(bracket.wanted()[0]) - 1e-9)


def check_coverage(coverage: float) -> None:
    if not isinstance(coverage, int | float) or not 0 < coverage <= 1:
        raise ValueError(f"a coverage lies above 0 and up to 1 (100 %), not {coverage!r}")


class _WorthBracket(Bracket):
    def wanted(self) -> FloatArray:
        # Where the chord between the two ends reaches the goal.
        (fewer, more), (less, most) = self.calls(), self.worth()
        share: FloatArray = (self.goal - less) / np.maximum(most - less, PRECISION * self.actions)
        return fewer + np.clip(share, 0, 1) * (more - fewer)

    def is_short(self, calls: FloatArray, worth: FloatArray) -> Flags:  # noqa: ARG002
        return worth < self.goal


def _chord_value(bracket: Bracket) -> FloatArray:
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
