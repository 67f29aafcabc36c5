"""The best scores that keep their distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first, explain


@dataclass(frozen=True, slots=True)
class MinimumSeparation:
    """From the best score down, no window closer than `separation` to one already taken.

        scores  998888..1...2.
        K = 2   ^.^...........

    The paper's rule. It may leave calls unspent: once no admissible window is left it stops.
    """

    separation: int = 2
    """In windows; 2 windows of 4 s are the paper's 8 s. 1 is plain ranking."""

    def __post_init__(self) -> None:
        if self.separation < 1:
            raise ValueError(f"a separation is 1 window or more, not {self.separation}")

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """At most `budget` windows."""
        calls = allowance(windows, budget)
        barred = np.zeros(len(windows), dtype=bool)
        chosen: list[int] = []
        for window in best_first(windows.scores).tolist():
            if len(chosen) == calls:
                break
            if not barred[window]:
                chosen.append(window)
                barred[max(0, window - self.separation + 1) : window + self.separation] = True
        reason = f"best window at least {self.separation} from any other"
        return explain(windows, chosen, lambda *_: reason)
