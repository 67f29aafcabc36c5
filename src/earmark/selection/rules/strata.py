"""The middle window of equal slices of the recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, explain
from earmark.timeline import IndexArray


@dataclass(frozen=True, slots=True)
class Strata:
    """The middle window of each of K equal slices; blind to the scores.

        K = 3   .^...^...^..       floor((i + 1/2) * M / K)
                |---||---||---|

    The fair form of even spacing, and what is used where the sound says nothing.
    """

    is_blind: ClassVar[bool] = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` windows."""
        calls = allowance(windows, budget)
        middle = middles(len(windows), calls) + windows.per_call // 2
        chosen = np.clip(middle, min(windows.per_call, len(windows)) - 1, len(windows) - 1)
        places = {window: place for place, window in enumerate(chosen.tolist(), start=1)}
        return explain(
            windows, chosen, lambda window, _: f"middle of slice {places[window]} of {calls}"
        )


def middles(count: int, calls: int) -> IndexArray:
    """The middle of each of `calls` equal slices of `count` windows, in whole numbers."""
    return (2 * np.arange(calls, dtype=np.intp) + 1) * count // max(1, 2 * calls)
