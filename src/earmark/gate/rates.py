"""From scores to rates: how many actions are expected to start in each window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class WindowScores:
    """What the score track says inside each window of the grid; one row a window."""

    length: float
    """Seconds of one window."""
    peak: FloatArray
    """The largest score in each window."""
    mean: FloatArray
    """The mean score of each window."""
    top: FloatArray
    """The mean of the best quarter of the scores in each window."""

    def __len__(self) -> int:
        return len(self.peak)


class RateMap(Protocol):
    """Says how many action starts each window is expected to hold, from its scores.

    Returns one finite value of at least 0 a window. The same scores give the same rates.
    """

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, one a window."""
        ...


@dataclass(frozen=True, slots=True)
class RankRates:
    """Rates that rise in a straight line with a window's rank by peak score in its recording.

    A weightless score has no unit that carries from one recording to the next, its order does:

        rate(m) = starts_per_second * length * (1 + contrast * (2 * rank(m) - 1))

    with `rank` in (0, 1), ties sharing the middle. Monotone in the score; the mean over a
    recording is `starts_per_second * length` whatever the scores; a flat recording is flat.
    """

    contrast: float = 0.35
    """How much louder windows are trusted: 0 ignores the score, 1 gives the quietest nothing."""
    starts_per_second: float = 0.28
    """Mean rate of action starts; that of EPIC-KITCHENS-100's training recordings."""

    def __post_init__(self) -> None:
        if not 0 <= self.contrast <= 1:
            raise ValueError(f"contrast lies between 0 and 1, not {self.contrast}")
        if not self.starts_per_second > 0:
            raise ValueError(f"starts_per_second is positive, not {self.starts_per_second}")

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, one a window."""
        _, group, sizes = np.unique(scores.peak, return_inverse=True, return_counts=True)
        below = np.cumsum(sizes) - sizes
        rank = (below + sizes / 2)[group] / max(1, len(scores))
        return self.starts_per_second * scores.length * (1 + self.contrast * (2 * rank - 1))
