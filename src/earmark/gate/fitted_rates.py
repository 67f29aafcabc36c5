"""From the scores of a gate to rates: a regression fitted on recordings the gate had not heard."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from earmark.gate.rates import WindowScores
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

COLUMNS = 3 + 1 + len(SCALES) + 1 + 2
"""Of `describe`."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Coefficients for one length of window: `log(starts a second) = intercept + x @ weights`."""

    length: float
    """Seconds of the windows it was fitted on."""
    intercept: float
    weights: tuple[float, ...]
    """One for each column of `describe`."""


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
        fit = min(self.fits, key=lambda each: abs(math.log(each.length / scores.length)))
        logs = fit.intercept + describe(scores, half=self.half) @ np.array(fit.weights)
        rates: FloatArray = scores.length * np.exp(np.minimum(logs, math.log(MOST)))
        is_flat = np.ptp(scores.peak) == 0 and np.ptp(scores.mean) == 0
        return np.full_like(rates, rates.mean()) if is_flat else rates


def describe(scores: WindowScores, *, half: float) -> FloatArray:
    """What the regression knows of each window, `(windows, COLUMNS)`.

    How much like work the window, its surroundings (`SCALES`) and the whole recording are: the
    logarithm of `score / (score + half)`, which tells idle from work and not one kind of work from
    another. Then, as far as there is work, the logarithms of the window's peak, mean and top
    quarter against their mean over the recording's work; and how near the recording's two ends are,
    from 1 at the edge to 0 in the middle.
    """
    if len(scores) == 0:
        return np.zeros((0, COLUMNS))
    around = [smooth(scores.mean, scale / scores.length) for scale in SCALES]
    busy = [each / (each + half) for each in (scores.mean, *around)]
    whole = np.full(len(scores), busy[0].mean())
    work = busy[1]
    logs = np.log(np.stack([scores.peak, scores.mean, scores.top], axis=1).clip(0) + FLOOR)
    usual = (work @ logs) / max(float(work.sum()), FLOOR)
    fade = np.exp(-np.arange(len(scores)) * scores.length / EDGE)
    columns = [
        *(np.log(each + FLOOR) for each in (*busy, whole)),
        *(np.maximum(logs - usual, LOWEST).T * work),
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
