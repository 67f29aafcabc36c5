"""Evenly spaced windows, with the phase the paper compares against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, explain


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly spaced windows from the very first to the very last; blind to the scores.

        K = 4   ^..^..^..^      K = 1   .....^....   (the middle window)

    The phase of the paper's baseline. It spends two calls on the edges, so it is a little weaker
    than `Strata`; a comparison shows both.
    """

    is_blind: ClassVar[bool] = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` windows."""
        calls = allowance(windows, budget)
        if calls == 1:
            chosen = np.array([len(windows) // 2])
        else:
            chosen = np.linspace(0, len(windows) - 1, calls).astype(np.intp)
        places = {window: place for place, window in enumerate(chosen.tolist(), start=1)}
        return explain(windows, chosen, lambda window, _: f"{places[window]} of {calls} even steps")
