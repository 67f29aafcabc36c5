"""A window chosen, what it is worth, and why."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray, Span


@dataclass(frozen=True, slots=True)
class Pick:
    """A window chosen, and why."""

    window: int
    """Position on the grid, from 0."""
    start: float
    end: float
    instant: float
    """When the window's largest score occurs: the moment to show a vision model."""
    score: float
    rate: float
    """Action starts expected in this window."""
    expected: float
    """Actions this call is expected to touch that no earlier pick does; sums to the forecast."""
    reason: str
    """One line for a person."""

    @property
    def span(self) -> Span:
        """The time of the window, cut at the end of the recording."""
        return Span(self.start, self.end)


def allowance(windows: Sized, budget: int) -> int:
    """How many calls can be spent: `budget`, but never more than there are windows."""
    if budget < 0:
        raise ValueError(f"a budget is 0 calls or more, not {budget}")
    return min(budget, len(windows))


def gains(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Expected new actions of each of `chosen`, in increasing order of window.

    An action that starts in window m is touched by the first pick at or after m, if it is still
    going there. So each pick answers for the windows since the pick before it:

        picks      ^        ^             gain of the second =
        windows  . j . . .  k . .         rate[k] + sum over j < m < k of rate[m] * g(k - m)
    """
    reach = windows.survival.reach(windows.length)
    total = np.zeros(len(chosen))
    gaps = np.diff(chosen, prepend=-1)
    for distance, chance in enumerate(reach.tolist()):
        counted = gaps > distance
        if not counted.any():
            break
        total[counted] += chance * windows.rates[chosen[counted] - distance]
    return total


def explain(windows: Windows, chosen: ArrayLike, reason: Callable[[int, float], str]) -> list[Pick]:
    """Picks for `chosen` windows; `reason` is told the window and its expected new actions."""
    ordered = np.sort(np.asarray(chosen, dtype=np.intp))
    starts = ordered * windows.length
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    seen = (windows.instants[ordered], windows.scores[ordered], windows.rates[ordered])
    columns = (ordered, starts, ends, *seen, gains(windows, ordered))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [Pick(*(*row, reason(row[0], row[-1]))) for row in rows]
