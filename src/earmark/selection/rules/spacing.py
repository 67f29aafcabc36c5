from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, allowance, explain
from earmark.timeline import IndexArray


@dataclass(frozen=True, slots=True)
class Full:
    """The full scan: every window from the first on, as far as the budget goes.

    The reference every saving is measured against, so it is meant for a budget of 100 %.
    """

    is_blind: ClassVar[bool] = True
    fixed_budget: ClassVar[Budget] = Budget(share=1.0)

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        chosen = np.arange(allowance(windows, budget))
        return explain(windows, chosen, lambda *_: "every window is taken")


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly spaced windows from the very first to the very last; blind to the scores.

        K = 4   ^..^..^..^      K = 1   .....^....   (the middle window)

    The phase of the paper's baseline. It spends two calls on the edges, so it is a little weaker
    than `Strata`; a comparison shows both.
    """

    is_blind: ClassVar[bool] = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        if calls == 1:
            chosen = np.array([len(windows) // 2])
        else:
            chosen = np.linspace(0, len(windows) - 1, calls).astype(np.intp)
        places = {window: place for place, window in enumerate(chosen.tolist(), start=1)}
        return explain(windows, chosen, lambda window, _: f"{places[window]} of {calls} even steps")


@dataclass(frozen=True, slots=True)
class Strata:
    """The middle window of each of K equal slices; blind to the scores.

        K = 3   .^...^...^..       floor((i + 1/2) * M / K)
                |---||---||---|

    The fair form of even spacing, and what is used where the sound says nothing.
    """

    is_blind: ClassVar[bool] = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        chosen = middles(len(windows), calls)
        places = {window: place for place, window in enumerate(chosen.tolist(), start=1)}
        return explain(
            windows, chosen, lambda window, _: f"middle of slice {places[window]} of {calls}"
        )


def middles(count: int, calls: int) -> IndexArray:
    """The middle of each of `calls` equal slices."""
    return (2 * np.arange(calls, dtype=np.intp) + 1) * count // max(1, 2 * calls)
