from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first
from earmark.selection.rules.ranking import explain_by_rank, normalise, top_up
from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True)
class Aks:
    """Halve the recording until the best windows of a part stand out, then share the calls.

    A part at depth p holds `int(K / 2^p)` calls, spent on its best windows. It is halved unless
    the mean of its K best scores is more than `peak` above its mean, or it is `depth` deep:

        depth 0   ================        K calls, no clear peak: halve
        depth 1   ========|=======        K/2 calls each
        depth 2   ====|===                K/4 calls each, on the best windows of each

    Scores are stretched onto 0 to 1 first. A part of fewer than K windows has no clear peak. The
    depth is also capped at log2 K, so that no part is left without a call, and calls lost to
    rounding go to the best windows left: the paper's two adaptations. (Tang et al., CVPR 2025; the
    published second condition, a standard deviation above -100, always holds.)
    """

    peak: float = 0.8
    depth: int = 5

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(f"a depth is 0 or more, not {self.depth}")

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        calls = allowance(windows, budget)
        scores = normalise(windows.scores)
        chosen: list[int] = []
        for start, end, depth in self._leaves(scores, calls):
            held = best_first(scores[start:end])[: int(calls / 2**depth)]
            chosen.extend((start + held).tolist())
        spent = top_up(np.array(chosen, dtype=np.intp), scores, calls)
        return explain_by_rank(windows, spent)

    def _leaves(self, scores: FloatArray, calls: int) -> list[tuple[int, int, int]]:
        deepest = min(self.depth, max(calls, 1).bit_length() - 1)
        leaves = []
        parts = [(0, len(scores), 0)]
        while parts:
            start, end, depth = parts.pop()
            if depth >= deepest or self._has_peak(scores[start:end], calls):
                leaves.append((start, end, depth))
                continue
            middle = start + (end - start) // 2
            parts += [(middle, end, depth + 1), (start, middle, depth + 1)]
        return leaves

    def _has_peak(self, part: FloatArray, calls: int) -> bool:
        if calls == 0 or len(part) < calls:
            return False
        best = np.sort(part)[-calls:]
        return bool(best.mean() - part.mean() > self.peak)
