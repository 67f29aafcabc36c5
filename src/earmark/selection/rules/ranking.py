from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first, explain
from earmark.timeline import FloatArray, IndexArray


@dataclass(frozen=True, slots=True)
class Rank:
    """The windows with the best scores, ties to the earlier one."""

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        chosen = best_first(windows.scores)[: allowance(windows, budget)]
        return explain_by_rank(windows, chosen)


@dataclass(frozen=True, slots=True)
class MinimumSeparation:
    """From the best score down, no window closer than `delta` to one already taken.

        scores  998888..1...2.
        K = 2   ^.^...........

    The paper's rule. It may leave calls unspent: once no admissible window is left it stops. Write
    `separated:delta=3` for another distance than the paper's 2, and `separated:delta=gate` for the
    one that was fitted to the gate.
    """

    delta: int = 2
    """In windows; 2 windows of 4 s are the paper's 8 s. 1 is plain ranking."""

    def __post_init__(self) -> None:
        if self.delta < 1:
            raise ValueError(f"a separation is 1 window or more, not {self.delta}")

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        barred = np.zeros(len(windows), dtype=bool)
        chosen: list[int] = []
        for window in best_first(windows.scores).tolist():
            if len(chosen) == calls:
                break
            if not barred[window]:
                chosen.append(window)
                barred[max(0, window - self.delta + 1) : window + self.delta] = True
        reason = f"best window at least {self.delta} from any other"
        return explain(windows, chosen, lambda *_: reason)


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
    if not np.ptp(windows.scores) > 0:
        # Stretches need a gap between them: as many single windows as fit, the rest in the first.
        apart = min(calls, len(windows) - calls + 1)
        return np.array([calls - apart + 1] + [1] * (apart - 1), dtype=np.intp)
    best = np.sort(best_first(windows.scores)[:calls])
    breaks = np.flatnonzero(np.diff(best) > 1) + 1
    return np.diff(np.concatenate([[0], breaks, [calls]]))


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
    places = np.empty(len(windows), dtype=np.intp)
    places[best_first(windows.scores)] = np.arange(1, len(windows) + 1)
    return explain(windows, chosen, lambda window, _: f"rank {places[window]} of {len(windows)}")
