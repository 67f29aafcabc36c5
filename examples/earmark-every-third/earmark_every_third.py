"""A rule for earmark: the best of every third window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection import Pick
from earmark.selection.pick import allowance, explain


@dataclass(frozen=True, slots=True)
class EveryThird:
    """The best scores among every `step`-th window, so that no two picks are neighbours.

        scores   2..9..4..1..     step 3
        K = 2    ...^..^......

    It may leave calls unspent: there are only so many such windows.
    """

    step: int = 3
    """In windows."""

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """At most `budget` windows."""
        calls = allowance(windows, budget)
        places = np.arange(0, len(windows), self.step)
        best = places[np.argsort(-windows.scores[places], kind="stable")][:calls]
        return explain(windows, best, lambda *_: f"among the best of every {self.step} windows")
