from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from earmark.grid import Windows
from earmark.selection.pick import Pick, allowance, explain
from earmark.selection.rules.ranking import normalise
from earmark.timeline import FloatArray, IndexArray


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
