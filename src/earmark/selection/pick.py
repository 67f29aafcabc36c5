"""A chosen window, its expected gain, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from earmark.grid import Windows
from earmark.timeline import FloatArray, IndexArray, Span


@dataclass(frozen=True, slots=True)
class Pick:
    """A chosen window, and the reason."""

    window: int | None
    """Position on the grid, from 0; None for a freely placed window."""
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


def allowance(windows: Windows, budget: int) -> int:
    """Calls that can be spent: `budget`, but never more than a full scan takes."""
    if budget < 0:
        raise ValueError(f"a budget is 0 calls or more, not {budget}")
    return min(budget, windows.calls)


def places_of(windows: Windows, picks: Iterable[Pick]) -> IndexArray:
    """The window of each pick, also where windows are placed freely."""
    found = np.array([windows.window_at(pick.start) for pick in picks], dtype=np.intp)
    return np.minimum(found, len(windows) - 1)


def best_first(scores: FloatArray) -> IndexArray:
    """Windows by decreasing score, the earlier one first among equals."""
    return np.argsort(-scores, kind="stable")


def gains(windows: Windows, chosen: IndexArray) -> FloatArray:
    """Expected new actions of each of `chosen`, in increasing order of window.

    An action that starts in step m is touched by the first pick that ends at or after m, if it is
    still going there. So each pick answers for the steps since the pick before it:

        picks      ^        ^             gain of the second =
        steps    . j . . .  k . .         rate[k] + sum over j < m < k of rate[m] * g(k - m)
    """
    gaps = np.diff(chosen, prepend=-1)
    reach = windows.reach[: gaps.max(initial=0)]
    back = np.arange(len(reach))
    found = windows.rates[chosen[:, None] - back] * reach  # (chosen, steps back)
    total: FloatArray = np.where(back < gaps[:, None], found, 0.0).sum(axis=1)
    return total


def explain(windows: Windows, chosen: ArrayLike, reason: Callable[[int, float], str]) -> list[Pick]:
    """Picks for `chosen` windows; `reason` gets the window and its expected new actions."""
    ordered = np.sort(np.asarray(chosen, dtype=np.intp))
    starts = np.maximum(ordered + 1 - windows.per_call, 0) * windows.step
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    numbers = ordered.tolist()
    shown = numbers if windows.per_call == 1 else [None] * len(numbers)
    if windows.per_call == 1:
        described = windows.instants[ordered], windows.scores[ordered], windows.rates[ordered]
    else:
        described = _describe_steps(windows, windows.steps_of(ordered), (starts + ends) / 2)
    columns = (starts, ends, *described, gains(windows, ordered))
    rows = zip(shown, *(column.tolist() for column in columns), strict=True)
    return [
        Pick(*(*row, reason(number, row[-1]))) for number, row in zip(numbers, rows, strict=True)
    ]


def _describe_steps(
    windows: Windows, steps: IndexArray, middles: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The instants, scores and rates of windows that hold `steps`, shape (windows, steps)."""
    step_scores = windows.scores[steps]
    best = np.take_along_axis(steps, step_scores.argmax(axis=1)[:, None], axis=1)[:, 0]
    scores_differ = np.ptp(step_scores, axis=1) > 0
    instants = np.where(scores_differ, windows.instants[best], middles)
    total = np.append(0.0, np.cumsum(windows.rates))
    rates = total[steps[:, -1] + 1] - total[steps[:, 0]]
    return instants, step_scores.max(axis=1, initial=-np.inf), rates
