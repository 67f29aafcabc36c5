"""Spans at random places: what the lengths of the picked stretches are worth without the score."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first, explain
from earmark.timeline import IndexArray


@dataclass(frozen=True, slots=True)
class RandomSpans:
    """The stretches that ranking would pick, in random order at random places.

        ranking      ^^^....^......^^
        random       .^....^^....^^^.

    As many stretches, of the same lengths, never touching one another; so whatever ranking gains
    over this comes from where the scores are high and not from how picks clump. It listens for
    these lengths and for nothing else: each pick looks at the middle of its window. A recording
    without evidence has single windows for stretches.
    """

    seed: int = 0

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The `budget` windows, the same for the same seed and input."""
        calls = allowance(windows, budget)
        if calls == 0:
            return []
        rng = np.random.default_rng(self.seed)
        lengths = rng.permutation(_stretches(windows, calls))
        # `free` windows not picked make `free + 1` places between them; each stretch takes one, so
        # that every way to place them is equally likely.
        free = len(windows) - calls
        before = np.sort(rng.choice(free + 1, size=len(lengths), replace=False))
        chosen = np.arange(calls) + np.repeat(before, lengths)
        picks = explain(windows, chosen, lambda *_: f"random place, seed {self.seed}")
        return [replace(pick, instant=(pick.start + pick.end) / 2) for pick in picks]


def _stretches(windows: Windows, calls: int) -> IndexArray:
    """Lengths of the runs of neighbours among the `calls` best windows."""
    if not np.ptp(windows.scores) > 0:
        # Stretches need a gap between them: as many single windows as fit, the rest in the first.
        apart = min(calls, len(windows) - calls + 1)
        return np.array([calls - apart + 1] + [1] * (apart - 1), dtype=np.intp)
    best = np.sort(best_first(windows.scores)[:calls])
    breaks = np.flatnonzero(np.diff(best) > 1) + 1
    return np.diff(np.concatenate([[0], breaks, [calls]]))
