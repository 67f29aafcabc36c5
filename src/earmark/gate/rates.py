"""Expected number of action starts in each window (its rate), computed from scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.timeline import FloatArray

FLOOR = 1e-3
"""Added to a score before its logarithm, so that scores well below it hardly differ."""

EDGE_DECAY = 8.0
"""Seconds after which the effect of being near the start or end of a recording falls to 1/e."""

MOST = 1.0
"""Upper limit of a fitted rate, in starts a second; a busy kitchen has a quarter of that."""

SCALES = (10.0, 40.0)
"""Sigmas, in seconds, of the normal curves that average the scores around a window."""

MIN_LOG_RATIO = -2.0
"""Lower limit of the logarithm of a window's score relative to the usual score."""

CERTAIN_WORK_POWER = 3
"""Exponent of the weights in the usual score of work: windows surely at work count more."""

SPARSE_AND_DENSE = (0.65, 0.88)
"""Share of work in a recording: up to the first value it counts as sparse, from the second as
dense. On composites sparse recordings lie below 0.77 and all but two dense ones above 0.86."""

MIN_WORK_SHARE = 0.2
"""Lower limit of the share of work in a recording. The calmest recordings that rates are fitted on
have 0.13 and more; calmer ones are rated like them. Without this limit the only knock in two hours
would get a thirtieth of the rate of one in ten minutes."""

COLUMNS = 6
"""Number of columns of `describe`."""

RISING = (0, 2, 3)
"""Columns of `describe` that rise with the score of a window: their weights are never below 0.
The first hardly varies in dense recordings; a negative weight fitted to noise there would reverse
the order of windows in a sparse recording."""

LEAST_SPREAD = 0.03
"""Lower limit of the standard deviation by which a column is scaled before fitting."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowScores:
    """Largest and mean score of each window of the grid, one row a window."""

    length: float
    """Seconds of one window."""
    peak: FloatArray
    """The largest score in each window."""
    mean: FloatArray
    """The mean score of each window."""

    def __len__(self) -> int:
        return len(self.peak)


class RateMap(Protocol):
    """Computes the expected number of action starts in each window from its scores.

    Returns one finite value of at least 0 a window. The same scores give the same rates.
    """

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, one a window."""
        ...


@dataclass(frozen=True, slots=True)
class RankRates:
    """Rates that rise linearly with a window's rank by peak score in its recording.

    For scores without trained weights: their values cannot be compared between recordings, their
    order can.

        rate(m) = starts_per_second * length * (1 + contrast * (2 * rank(m) - 1))

    with `rank` in (0, 1); equal scores share the middle of their ranks. The rates never fall as
    the score rises, and their mean over a recording is `starts_per_second * length` for any
    scores. Where all scores are equal, so are the rates.
    """

    contrast: float = 0.35
    """From 0, which ignores the score, to 1, where the lowest score has a rate near 0."""
    starts_per_second: float = 0.28
    """Mean rate of action starts; the default is that of EPIC-KITCHENS-100's training set."""

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
    """Coefficients for one window length: `log(starts a second) = intercept + x @ weights`."""

    length: float
    """Length in seconds of the windows it was fitted on."""
    intercept: float
    weights: tuple[float, ...]
    """One for each column of `describe`."""


def nearest(fits: Sequence[Fit], length: float) -> Fit:
    """The fit whose window length is closest to `length`, as a ratio."""
    return min(fits, key=lambda each: abs(math.log(each.length / length)))


@dataclass(frozen=True, slots=True)
class FittedRates:
    """Rates by a Poisson regression on the scores of each window and its surroundings.

    The rates are absolute: where nothing happens they are near 0. The fit for the nearest window
    length is used, so the rates sum to about the same number of starts at any length. Where all
    windows have the same mean score, their rates are equal too.
    """

    fits: tuple[Fit, ...]
    """One for each window length, at least one."""
    half: float
    """The mean score at which a window counts as half work."""

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
    """The regression's inputs for each window, `(windows, COLUMNS)`; no rows without windows.

    The share of work of a window is `score / (score + half)`: it separates idle from work, but not
    one kind of work from another. In a sparse recording the inputs show where there is work, in a
    dense one what stands out; in between both are mixed (`SPARSE_AND_DENSE`):

    0. sparse: sum of the log shares of work of the window and of its surroundings (`SCALES`);
    1. log share of work of the whole recording, at least `MIN_WORK_SHARE`;
    2. sparse: log score of the window relative to the usual score of work in this recording, times
       the share of work around the window;
    3. dense: the same, but relative to the seconds around the window, so that it does not depend on
       how certain the work is;
    4. and 5. nearness to the start and to the end of the recording, falling from 1 to 0, times the
       share of work around the window.
    """
    if len(scores) == 0:
        return np.zeros((0, COLUMNS))
    around = [smooth(scores.mean, scale / scores.length) for scale in SCALES]
    busy = [each / (each + half) for each in (scores.mean, *around)]
    work, whole = busy[1], float(busy[0].mean())
    dense = float(np.interp(whole, SPARSE_AND_DENSE, (0.0, 1.0)))
    logs, sure = np.log(scores.mean.clip(0) + FLOOR), work**CERTAIN_WORK_POWER
    usual = float(logs @ sure) / max(float(sure.sum()), FLOOR)
    near = smooth(logs, SCALES[0] / scores.length)
    fade = np.exp(-np.arange(len(scores)) * scores.length / EDGE_DECAY)
    columns = [
        np.log(np.stack(busy) + FLOOR).sum(axis=0) * (1 - dense),
        np.full(len(scores), math.log(max(whole, MIN_WORK_SHARE))),
        np.maximum(logs - usual, MIN_LOG_RATIO) * work * (1 - dense),
        np.maximum(logs - near, MIN_LOG_RATIO) * work * dense,
        fade * work,
        fade[::-1] * work,
    ]
    return np.stack(columns, axis=1)


def smooth(values: FloatArray, sigma: float) -> FloatArray:
    """Means of `values` weighted by a normal curve of `sigma` places, cut off at both ends."""
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
        rows: Inputs of each window, `(windows, columns)`.
        counts: Events in each window; their sum is at least 1.
        exposure: How much of each window was observed, such as its seconds; 1 by default.
        ridge: Penalty on squared weights, in log-likelihood, for columns scaled to unit spread.
        least_spread: Lower limit of the standard deviation by which a column is scaled.
    """
    observed = np.ones(len(counts)) if exposure is None else exposure
    centre, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), least_spread)
    design = np.column_stack([np.ones(len(rows)), (rows - centre) / spread])
    penalty = np.array([0.0] + [ridge] * rows.shape[1])

    def likelihood(weights: FloatArray) -> float:
        linear = np.clip(design @ weights, -30, 30)
        return float(counts @ linear - observed @ np.exp(linear) - penalty @ weights**2 / 2)

    found = np.zeros(design.shape[1])
    found[0] = np.log(counts.sum() / observed.sum())
    best = likelihood(found)
    for _ in range(100):
        expected = observed * np.exp(np.clip(design @ found, -30, 30))
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
