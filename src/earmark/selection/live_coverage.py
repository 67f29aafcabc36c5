"""Spends a rate of calls on streams: the exact rule on a rolling horizon, at a price.

    decided            due    undecided       expected
    . ^ . . . . ^ . .   m    . . . . . . .   ~ ~ ~ ~ ~      the best picks at the price, from the
                ▲                                           last pick on: is m one of them?
                last pick

The price is that at which the calls the streams would buy equal the calls the rate brings (see
`Demand`). A full bucket lowers it and an empty one raises it, so that calls are neither saved in
vain nor missing when something happens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from earmark.selection.call_rate import CallLog, CallRate, SpentCall
from earmark.selection.demand import Demand, price_of
from earmark.selection.live_windows import LiveWindows
from earmark.selection.pick import Pick
from earmark.selection.rules.coverage import in_words
from earmark.selection.solver import Line, solve
from earmark.timeline import FloatArray

GAIN = 4.0
"""A full bucket divides the price by `exp(GAIN * (1 - RESERVE))`, an empty one multiplies it."""

RESERVE = 0.5
"""Share of the bucket that is left for what comes; a new watch starts with it."""

PHASES = 8
"""Lengths of the future that a decision is averaged over."""

CERTAIN = 1e4
"""Added to a window that must be picked, and taken from one that must not."""

PAUSED = 300.0
"""Seconds after which a source that sends nothing is no longer expected to buy."""


@dataclass(slots=True)
class _Source:
    demand: Demand
    recent: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Rates of the windows since the last pick, as far as an action can last."""
    next: int = 0
    """Window to be decided next."""
    last_heard: float = 0.0


class LiveCoverage:
    """Decides the windows of all sources of a watch, which share one rate."""

    def __init__(self, rate: CallRate, calls: Iterable[SpentCall] = ()) -> None:
        """`calls` are those made by earlier processes of the same watch."""
        self.rate = rate
        self.log = CallLog(rate, calls)
        self._sources: dict[str, _Source] = {}
        self._kept: dict[str, Any] = {}
        self._is_new = len(self.log) == 0

    def hear(self, source: str, windows: LiveWindows, *, now: float) -> list[Pick]:
        """The picks among the windows that are due; each counts as a call made at `now`."""
        if self._is_new:
            self.log.drain(now, (1 - RESERVE) * self.rate.capacity)
            self._is_new = False
        state = self._sources.get(source) or self._add(source, windows.length)
        state.last_heard = now
        if windows.first > state.next:  # a gap: what began before it is over
            state.recent = np.zeros(0)
        reach, picks = windows.lengths.reach(windows.length), list[Pick]()
        for place in range(max(0, state.next - windows.first), windows.due):
            rate = float(windows.rates[place])
            expected = worth_now(state.recent, windows.rates[place:], reach, self.price(now))
            if expected > 0 and self.log.wait(now) == 0:
                self.log.add(SpentCall(now))
                picks.append(_pick(windows, place, expected))
                state.recent = np.zeros(0)
            else:
                state.recent = np.append(state.recent, rate)[-len(reach) :]
            state.next = windows.first + place + 1
            state.demand.add((state.next - 1) * windows.length, rate, reach)
        return picks

    def price(self, now: float) -> float:
        """New actions that a call must be expected to bring."""
        live = [each for each in self._sources.values() if now - each.last_heard < PAUSED]
        demand = np.sum([each.demand.calls(now) for each in live], axis=0)
        level = self.log.bucket(now) / self.rate.capacity
        return price_of(demand, self.rate.lasting) * math.exp(GAIN * (RESERVE - level))

    def _add(self, source: str, length: float) -> _Source:
        state = self._sources[source] = _Source(Demand(length))
        if source in self._kept:
            state.demand.restore(self._kept[source])
        return state

    def to_json(self) -> dict[str, Any]:
        """What was learnt of each source; the calls are stored with the run."""
        return {name: state.demand.to_json() for name, state in self._sources.items()}

    def restore(self, kept: dict[str, Any]) -> None:
        self._kept = kept


def worth_now(recent: FloatArray, ahead: FloatArray, reach: FloatArray, price: float) -> float:
    """Expected new actions of the first window ahead; 0 if a later pick is better.

    What follows the windows heard is expected to be like them. Where that ends decides how well a
    path fits, so the value of a pick now is a mean over several ends.
    """
    expected = _worth_alone(recent, float(ahead[0]), reach)
    if expected <= price:  # later picks would only lessen it
        return 0.0
    here, lines = len(recent), list[Line]()
    for phase in range(PHASES):
        tail = np.full(len(reach) * (PHASES + phase) // PHASES, ahead.mean())
        rates = np.concatenate([recent, ahead, tail])
        for sign in (1.0, -1.0):
            bonus = np.zeros(len(rates))
            bonus[:here] = -CERTAIN  # decided
            bonus[here] = sign * CERTAIN
            lines.append(Line(rates, reach, bonus))
    _, values = solve(lines, np.full(len(lines), price))
    gain = values.reshape(-1, 2) @ np.array([1.0, -1.0]) - CERTAIN
    return 0.0 if gain.mean() < -1e-9 else expected


def _worth_alone(recent: FloatArray, rate: float, reach: FloatArray) -> float:
    """Expected actions that a pick touches if none follows."""
    back = np.append(recent, rate)[::-1][: len(reach)]
    return float(back @ reach[: len(back)])


def _pick(windows: LiveWindows, place: int, expected: float) -> Pick:
    window = windows.first + place
    return Pick(
        window=window,
        start=window * windows.length,
        end=(window + 1) * windows.length,
        instant=float(windows.instants[place]),
        score=float(windows.scores[place]),
        rate=float(windows.rates[place]),
        expected=expected,
        reason=in_words(expected),
    )
