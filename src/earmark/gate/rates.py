"""From scores to rates: how many actions are expected to start in each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.timeline import FloatArray

FLOOR = 1e-3
"""Added to a score before its logarithm: below this, one quiet moment is as good as another."""

EDGE = 8.0
"""Seconds over which the beginning and the end of a recording fade into its middle."""

MOST = 1.0
"""Starts a second no window is believed to exceed; a busy kitchen has a quarter of that."""

SCALES = (10.0, 40.0)
"""Seconds, as the sigma of a normal curve, over which the surroundings of a window are meaned."""

LOWEST = -2.0
"""Logarithm below the usual score at which a window within a bout is as calm as any."""

SURE = 3
"""Power by which sure work counts more than likely work where the usual score of work is taken."""

MOSTLY = (0.65, 0.88)
"""Share of a recording that is like work up to which it counts as sparse, and from which on as
dense. On composites sparse recordings lie below 0.77 and all but two dense ones above 0.86."""

LEAST = 0.2
"""Share of a recording that is like work below which it does not matter how little it is: what
stands out in it is rated as in the calmest recordings that rates are fitted on. Those have 0.13 and
more; without this the only knock of two hours would be rated a thirtieth of one in ten minutes."""

COLUMNS = 6
"""Of `describe`."""

RISING = (0, 2, 3)
"""Columns of `describe` that rise with the score of a window: their weights are never below 0. In
dense recordings alone the first of them hardly varies, and what is fitted to chance there would
turn the order of a sparse recording upside down."""

LEAST_SPREAD = 0.03
"""A column that varies less than this is trusted as if it varied this much."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowScores:
    """What the score track says inside each window of the grid; one row a window."""

    length: float
    """Seconds of one window."""
    peak: FloatArray
    """The largest score in each window."""
    mean: FloatArray
    """The mean score of each window."""

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


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients for one length of window: `log(starts a second) = intercept + x @ weights`."""

    length: float
    """Seconds of the windows it was fitted on."""
    intercept: float
    weights: tuple[float, ...]
    """One for each column of `describe`."""


def nearest(fits: Sequence[Fit], length: float) -> Fit:
    """The fit for windows of about that length."""
    return min(fits, key=lambda each: abs(math.log(each.length / length)))


@dataclass(frozen=True, slots=True)
class FittedRates:
    """Rates by a Poisson regression on what each window and its surroundings hold of the score.

    The rates are absolute: a recording in which nothing happens is expected to hold nothing. The
    fit for the nearest length is used, so the rates of windows of any length add up to about the
    same number of starts. Where all windows score the same there is nothing to tell them apart by,
    and the rates are flat.
    """

    fits: tuple[Fit, ...]
    """One for each length of window, at least one."""
    half: float
    """The mean score at which a window counts half as work."""

    def __post_init__(self) -> None:
        if not self.fits:
            raise ValueError("rates need at least one fit")
        if any(len(fit.weights) != COLUMNS for fit in self.fits):
            raise ValueError(f"a fit has {COLUMNS} weights")
        if not self.half > 0:
            raise ValueError(f"the score that counts half is above 0, not {self.half}")

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, one a window."""
        if len(scores) == 0:
            return np.zeros(0)
        fit = nearest(self.fits, scores.length)
        logs = fit.intercept + describe(scores, half=self.half) @ np.array(fit.weights)
        rates: FloatArray = scores.length * np.exp(np.minimum(logs, math.log(MOST)))
        return np.full_like(rates, rates.mean()) if np.ptp(scores.mean) == 0 else rates


def describe(scores: WindowScores, *, half: float) -> FloatArray:
    """What the regression knows of each window, `(windows, COLUMNS)`.

    A sparse recording is read by where there is work at all, a dense one by what stands out in it;
    in between the two are mixed (`MOSTLY`):

    0. sparse: how much like work the window and its surroundings (`SCALES`) are, the logarithm
       of `score / (score + half)`, which tells idle from work and not one kind of work from the
       next;
    1. how much like work the whole recording is, likewise, `LEAST` at least;
    2. sparse: as far as there is work, the logarithm of the window's score against what is usual in
       the work of this recording;
    3. dense: likewise against the seconds around, so that it does not matter how sure it is that
       there is work;
    4. and 5. as far as there is work, how near the recording's two ends are, from 1 to 0.
    """
    if len(scores) == 0:
        return np.zeros((0, COLUMNS))
    around = [smooth(scores.mean, scale / scores.length) for scale in SCALES]
    busy = [each / (each + half) for each in (scores.mean, *around)]
    work, whole = busy[1], float(busy[0].mean())
    dense = float(np.interp(whole, MOSTLY, (0.0, 1.0)))
    logs, sure = np.log(scores.mean.clip(0) + FLOOR), work**SURE
    usual = float(logs @ sure) / max(float(sure.sum()), FLOOR)
    near = smooth(logs, SCALES[0] / scores.length)
    fade = np.exp(-np.arange(len(scores)) * scores.length / EDGE)
    columns = [
        np.log(np.stack(busy) + FLOOR).sum(axis=0) * (1 - dense),
        np.full(len(scores), math.log(max(whole, LEAST))),
        np.maximum(logs - usual, LOWEST) * work * (1 - dense),
        np.maximum(logs - near, LOWEST) * work * dense,
        fade * work,
        fade[::-1] * work,
    ]
    return np.stack(columns, axis=1)


def smooth(values: FloatArray, sigma: float) -> FloatArray:
    """Means of `values` under a normal curve of `sigma` places, cut at the ends of `values`."""
    side = math.ceil(3 * sigma)
    curve = np.exp(-0.5 * (np.arange(-side, side + 1) / sigma) ** 2)
    total, weight = (
        np.convolve(each, curve)[side : side + len(values)]
        for each in (values, np.ones(len(values)))
    )
    mean: FloatArray = total / weight
    return mean


def fit_poisson(
    rows: FloatArray,
    counts: FloatArray,
    *,
    exposure: FloatArray | None = None,
    ridge: float,
    least_spread: float = 1e-6,
) -> tuple[float, FloatArray]:
    """Intercept and weights of `log(expected count / exposure) = intercept + rows @ weights`.

    Newton's method on the penalised likelihood, which is concave; a step that does not raise it is
    halved. With `rows` all equal the intercept is the logarithm of the mean count.

    Args:
        rows: What is known of each window, `(windows, columns)`.
        counts: Events in each window, at least one in all.
        exposure: How much of each window there is; 1 unless given.
        ridge: Cost of a squared weight of a column of unit spread, in log-likelihood.
        least_spread: Of a column that varies less the weight costs as much as of one that does.
    """
    seen = np.ones(len(counts)) if exposure is None else exposure
    centre, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), least_spread)
    design = np.column_stack([np.ones(len(rows)), (rows - centre) / spread])
    penalty = np.array([0.0] + [ridge] * rows.shape[1])

    def likelihood(weights: FloatArray) -> float:
        linear = np.clip(design @ weights, -30, 30)
        return float(counts @ linear - seen @ np.exp(linear) - penalty @ weights**2 / 2)

    found = np.zeros(design.shape[1])
    found[0] = np.log(counts.sum() / seen.sum())
    best = likelihood(found)
    for _ in range(100):
        expected = seen * np.exp(np.clip(design @ found, -30, 30))
        slope = design.T @ (counts - expected) - penalty * found
        bend = (design * expected[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (value := likelihood(found + step)) < best and np.abs(step).max() > 1e-10:
            step = step / 2
        if value < best or np.abs(step).max() < 1e-10:
            break
        found, best = found + step, value
    weights = found[1:] / spread
    return float(found[0] - centre @ weights), weights
