"""What a budget shows: actions that windows touch, and actions that a frame is taken of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from earmark.gate.forecast_error import as_share
from earmark.grid import Windows
from earmark.selection.price_search import coverage_of_budgets
from earmark.text_format import counted

FRAMED = "a picture is expected during {framed} of the actions; the rest of those are only touched"
"""A window that an action touches shows it only if the action is going on at a frame."""

_STARTS = (np.arange(8) + 0.5) / 8
"""Within a window: actions start anywhere in it."""


def count_framed(windows: Windows, times: Sequence[float]) -> float:
    """The expected number of actions during which a frame at one of `times` is taken.

    start   ├───action───┤
    frames        ^           ^       the first frame after the start decides
    """
    frames = np.append(np.sort(np.asarray(times, dtype=float)), np.inf)
    starts = (np.arange(len(windows))[:, None] + _STARTS) * windows.length
    waits = frames[np.searchsorted(frames, starts)] - starts
    return float(windows.rates @ windows.lengths(waits).mean(axis=1)) if len(windows) else 0.0


@dataclass(frozen=True, slots=True)
class BudgetOutlook:
    """What the model will see for the budget of the settings."""

    budget: str
    calls: int
    touched: float
    """Expected share of actions that a picked window touches."""
    framed: dict[int, float]
    """Expected share of actions during which a frame is taken, by frames a call."""

    def line(self, frames: int) -> str:
        others = ", ".join(
            f"{as_share(share)} with {count}"
            for count, share in self.framed.items()
            if count != frames
        )
        return (
            f"With --budget {self.budget}, {counted(self.calls, 'call')} touch "
            f"{as_share(self.touched)} of the actions, and a picture is taken during "
            f"{as_share(self.framed[frames])} of them with {counted(frames, 'frame')} a call "
            f"({others})."
        )


def coverage_of_shares(many: Sequence[Windows], shares: Sequence[float]) -> list[float]:
    """Of all actions, if every recording gets the same share of its windows; nan without any."""
    touched = np.zeros(len(shares))
    for windows in many:
        actions = float(windows.rates.sum())
        if actions:
            budgets = [round(share * len(windows)) for share in shares]
            touched += actions * np.array(coverage_of_budgets([windows], budgets))
    total = sum(float(windows.rates.sum()) for windows in many)
    return [float(value) / total if total else math.nan for value in touched]


def share_for(many: Sequence[Windows], coverage: float) -> float:
    """The least share of every recording that is expected to reach `coverage`."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        if coverage_of_shares(many, [middle])[0] >= coverage - 1e-9:
            high = middle
        else:
            low = middle
    return high
