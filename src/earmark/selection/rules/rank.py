"""The best scores, wherever they lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first, explain
from earmark.timeline import FloatArray, IndexArray


@dataclass(frozen=True, slots=True)
class Rank:
    """The windows with the best scores, ties to the earlier one."""

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` best windows."""
        chosen = best_first(windows.scores)[: allowance(windows, budget)]
        return explain_by_rank(windows, chosen)


def normalise(scores: FloatArray) -> FloatArray:
    """Scores stretched onto 0 to 1; a flat recording is all 0."""
    if len(scores) == 0:
        return scores.astype(float)
    above: FloatArray = scores.astype(float) - scores.min()
    return above / max(float(above.max()), np.finfo(float).tiny)


def top_up(chosen: IndexArray, scores: FloatArray, calls: int) -> IndexArray:
    """`chosen` without repeats, and the best of the other windows until there are `calls`."""
    taken = np.zeros(len(scores), dtype=bool)
    taken[chosen] = True
    others = best_first(scores)
    others = others[~taken[others]][: max(0, calls - int(taken.sum()))]
    return np.concatenate([np.flatnonzero(taken), others])


def explain_by_rank(windows: Windows, chosen: IndexArray) -> list[Pick]:
    """Picks that say their place among all scores."""
    places = np.empty(len(windows), dtype=np.intp)
    places[best_first(windows.scores)] = np.arange(1, len(windows) + 1)
    return explain(windows, chosen, lambda window, _: f"rank {places[window]} of {len(windows)}")
