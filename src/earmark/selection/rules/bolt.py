from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance
from earmark.selection.rules.ranking import explain_by_rank, normalise, top_up
from earmark.timeline import IndexArray


@dataclass(frozen=True, slots=True)
class Bolt:
    """Inverse-transform sampling of the scores raised to `sharpness`.

          1 ┤        ╭──  u = 1/K ... 1 - 1/K, evenly: each u takes the window where the
        u ──┼─────╮──╯    running share of score^sharpness first reaches it
          0 ┴──╯  ▼

    Several u may fall in one window; the calls so left over go to the best windows not taken.
    Scores are stretched onto 0 to 1 first; a flat recording is sampled evenly. (Liu et al.,
    CVPR 2025.)
    """

    sharpness: float = 3.0
    """The power; 3 in the published runs, 2.5 for one benchmark."""

    def __post_init__(self) -> None:
        if not self.sharpness > 0:
            raise ValueError(f"a sharpness is above 0, not {self.sharpness}")

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        chosen = top_up(self._sample(windows, calls), windows.scores, calls)
        return explain_by_rank(windows, chosen)

    def _sample(self, windows: Windows, calls: int) -> IndexArray:
        """Repeats included."""
        if calls == 0:
            return np.empty(0, dtype=np.intp)
        weights = normalise(windows.scores) ** self.sharpness
        if not weights.any():
            weights = np.ones(len(windows))
        share = np.cumsum(weights / weights.sum())
        # A rounding error must not put quantile 1 (a single call) past all that carries weight.
        share[share == share[-1]] = 1.0
        return np.searchsorted(share, np.linspace(1 / calls, 1 - 1 / calls, calls))
