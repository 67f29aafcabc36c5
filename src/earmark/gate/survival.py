from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True)
class Survival:
    """`S(x)`, the probability that an action lasts longer than `x` seconds.

    A table of knots with straight lines between them: 1 at 0, and 0 from the last knot on.

    >>> lasts = Survival.from_lengths([2.0, 2.0, 6.0])
    >>> [round(float(share), 2) for share in lasts(np.array([0.0, 4.0, 9.0]))]
    [1.0, 0.33, 0.0]
    """

    times: tuple[float, ...]
    """Seconds, increasing, from 0."""
    shares: tuple[float, ...]
    """One per knot, never increasing: the first is 1, the last 0."""

    def __post_init__(self) -> None:
        times, shares = np.array(self.times), np.array(self.shares)
        if len(times) < 2 or len(times) != len(shares):
            raise ValueError("a survival curve needs at least two knots, as many times as shares")
        if times[0] != 0 or not np.all(np.isfinite(times)) or not np.all(np.diff(times) > 0):
            raise ValueError("the times of a survival curve increase from 0")
        if shares[0] != 1 or shares[-1] != 0 or np.any(np.diff(shares) > 0):
            raise ValueError("the shares of a survival curve fall from 1 to 0")

    @classmethod
    def from_lengths(cls, lengths: Sequence[float] | FloatArray, *, knots: int = 200) -> Survival:
        """Lengths in seconds; the curve passes through at most `knots` of its points."""
        seen = np.sort(np.asarray(lengths, dtype=float))
        if len(seen) == 0 or not np.all(np.isfinite(seen)) or seen[0] < 0 or seen[-1] == 0:
            raise ValueError("a survival curve needs finite action lengths, at least one above 0")
        distinct = np.unique(seen)
        drawn = len(distinct) > knots
        if drawn:
            distinct = np.geomspace(max(distinct[0], 1e-3), distinct[-1], knots)
            distinct[-1] = seen[-1]
        longer = 1 - np.searchsorted(seen, distinct, side="right") / len(seen)
        if drawn:
            return cls((0.0, *distinct.tolist()), (1.0, *longer.tolist()))
        return cls._from_steps(distinct, longer)

    @classmethod
    def _from_steps(cls, times: FloatArray, after: FloatArray) -> Survival:
        """Draw each step of the empirical curve as a drop a microsecond wide.

        1 ──┐          times  0, t1-e, t1, t2-e, t2
            └────┐     shares 1, 1,    s1, s1,   0
                 └──
        """
        edge = 1e-6
        knots: dict[float, float] = {0.0: 1.0}
        before = 1.0
        for time, share in zip(times.tolist(), after.tolist(), strict=True):
            if time - edge > max(knots):
                knots[time - edge] = before
            knots[max(time, edge)] = share
            before = share
        return cls(tuple(knots), tuple(knots.values()))

    @classmethod
    def lognormal(cls, *, median: float, sigma: float, longest: float = 120.0) -> Survival:
        if not (median > 0 and sigma > 0 and longest > 0):
            raise ValueError("a log-normal curve needs a positive median, sigma and longest")
        times = np.concatenate([[0.0], np.geomspace(0.05, longest, 120)])
        shares = [0.5 * math.erfc(math.log(t / median) / (sigma * math.sqrt(2))) for t in times[1:]]
        return cls(tuple(times.tolist()), (1.0, *shares[:-1], 0.0))

    @property
    def median(self) -> float:
        falling = np.flatnonzero(np.array(self.shares) <= 0.5)[0]
        (before, after), (high, low) = (
            values[falling - 1 : falling + 1] for values in (self.times, self.shares)
        )
        return before + (high - 0.5) / (high - low) * (after - before)

    def __str__(self) -> str:
        knots = hashlib.sha256(repr(self).encode()).hexdigest()[:8]
        return f"{self.median:.3g} by the curve {knots}"

    def stretched(self, median: float) -> Survival:
        if not (math.isfinite(median) and median > 0):
            raise ValueError(f"actions last more than 0 seconds, not {median:g}")
        factor = median / self.median
        return Survival(tuple(time * factor for time in self.times), self.shares)

    def __call__(self, seconds: FloatArray) -> FloatArray:
        shares: FloatArray = np.interp(seconds, self.times, self.shares)
        return shares

    def remaining(self, seconds: FloatArray) -> FloatArray:
        """Probability that an action under way at a random moment lasts `seconds` longer."""
        whole = self._area(np.array([self.times[-1]]))
        share: FloatArray = 1 - self._area(np.asarray(seconds, dtype=float)) / whole
        return share

    @lru_cache(maxsize=256)  # noqa: B019 - the same for every recording of a batch
    def reach(self, window: float, *, negligible: float = 1e-3) -> FloatArray:
        """`g(d)`: the chance that an action starting in window m still lasts when m + d begins.

        `g(0) = 1`; `g(d)` is the mean over `u` in `[0, window)` of `S(d * window - u)`, exact for
        this curve. The array ends before the first `d` whose chance is below `negligible`.
        """
        last = math.ceil(self.times[-1] / window) + 1
        areas = self._area(np.arange(last + 1) * window)
        chances = np.concatenate([[1.0], np.diff(areas) / window])
        # Rounding errors of the summed areas must not make a chance grow with distance.
        chances = np.minimum.accumulate(chances)
        kept: FloatArray = chances[: max(1, int(np.count_nonzero(chances >= negligible)))]
        kept.setflags(write=False)
        return kept

    def _area(self, seconds: FloatArray) -> FloatArray:
        times, shares = np.array(self.times), np.array(self.shares)
        pieces = np.diff(times) * (shares[1:] + shares[:-1]) / 2
        areas = np.concatenate([[0.0], np.cumsum(pieces)])
        inside = np.minimum(seconds, times[-1])
        left = np.clip(np.searchsorted(times, inside, side="right") - 1, 0, len(times) - 2)
        area: FloatArray = areas[left] + (inside - times[left]) * (shares[left] + self(inside)) / 2
        return area
