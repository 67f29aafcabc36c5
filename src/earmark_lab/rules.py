"""Published rules that choose frames by a score, applied to windows."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, best_first, explain
from earmark.selection.rules.ranking import explain_by_rank, normalise, top_up
from earmark.timeline import FloatArray, IndexArray


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
            best = best_first(scores[start:end])[: int(calls / 2**depth)]
            chosen.extend((start + best).tolist())
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


@dataclass(frozen=True, slots=True)
class Facility:
    """Greedily serve every window by a pick near it, the more so the higher its score.

    A pick k serves window m by `exp(-|m - k| / scale)`; each window counts its best server times
    its score:

        sum over m of score[m] * max over picks k of exp(-|m - k| / scale)

          1 ┤   ╭╮            a second pick beside the first serves nobody new;
            ┤ ╭─╯╰─╮          nothing forbids it once all else is served,
          0 ┴─┴──^─┴──        so no call is left unspent

    Scores are stretched onto 0 to 1 first; in a flat recording every window counts the same.
    """

    scale: float = 2.0
    """Windows over which service falls to 1/e; the separation of the paper's hard rule."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"a scale is a positive number of windows, not {self.scale}")

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        weights = normalise(windows.scores)
        if not weights.any():
            weights = np.ones(len(windows))
        order = self._greedy(weights, allowance(windows, budget))
        places = {window: place for place, window in enumerate(order.tolist(), start=1)}
        return explain(
            windows, order, lambda window, _: f"choice {places[window]} of {len(places)}, by need"
        )

    def _greedy(self, weights: FloatArray, calls: int) -> IndexArray:
        """Windows in the order they are taken, ties to the earlier one.

        Lazily: what a window would add only ever shrinks, so a window that still leads after its
        gain is updated is the best of all.
        """
        # Beyond this distance service is below a thousandth.
        far = math.ceil(self.scale * math.log(1000))
        near = np.exp(-np.abs(np.arange(-far, far + 1)) / self.scale)
        padded = np.concatenate([np.zeros(far), weights, np.zeros(far)])
        served = np.zeros(len(padded))
        alone = np.convolve(padded, near, mode="valid")
        queue = [(-gain, window) for window, gain in enumerate(alone.tolist())]
        heapq.heapify(queue)
        order: list[int] = []
        while len(order) < calls:
            _, window = queue[0]
            around = slice(window, window + 2 * far + 1)
            gain = float(padded[around] @ np.maximum(near - served[around], 0))
            heapq.heapreplace(queue, (-gain, window))
            if queue[0][1] == window:
                heapq.heappop(queue)
                order.append(window)
                np.maximum(served[around], near, out=served[around])
        return np.array(order, dtype=np.intp)
