"""What a selector is, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray


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


class Selector(Protocol):
    """Chooses the windows worth a call.

    Returns picks of distinct windows of the grid in increasing order, exactly
    `min(budget, len(windows))` of them unless the rule's own documentation says it may leave
    calls unspent; the same input gives the same picks; the input is not written to.
    """

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The picks `budget` calls are best spent on."""
        ...


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


def explain(
    windows: Windows, chosen: IndexArray, reason: Callable[[int, float], str]
) -> list[Pick]:
    """Picks for `chosen` windows; `reason` is told the window and its expected new actions."""
    ordered = np.sort(np.asarray(chosen, dtype=np.intp))
    picks = []
    for window, expected in zip(ordered.tolist(), gains(windows, ordered).tolist(), strict=True):
        span = windows.span(window)
        picks.append(
            Pick(
                window=window,
                start=span.start,
                end=span.end,
                instant=float(windows.instants[window]),
                score=float(windows.scores[window]),
                rate=float(windows.rates[window]),
                expected=expected,
                reason=reason(window, expected),
            )
        )
    return picks
