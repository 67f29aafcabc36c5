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

MOST = 4.0
"""Starts a second no window is believed to exceed; the busiest annotated ones hold about two."""


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
    """Rates by a Poisson regression on what each window and its neighbours hold of the score.

    The fit for the nearest length is used, so the rates of windows of any length add up to about
    the same number of starts. Where all windows score the same there is nothing to tell them
    apart by, and the rates are flat.
    """

    fits: tuple[Fit, ...]
    """One for each length of window, at least one."""
    reach: int = 0
    """Neighbours on each side whose scores count."""

    def __post_init__(self) -> None:
        wanted = columns(self.reach)
        if not self.fits:
            raise ValueError("rates need at least one fit")
        if any(len(fit.weights) != wanted for fit in self.fits):
            raise ValueError(f"a fit of reach {self.reach} has {wanted} weights")

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, one a window."""
        if len(scores) == 0:
            return np.zeros(0)
        fit = min(self.fits, key=lambda each: abs(math.log(each.length / scores.length)))
        logs = fit.intercept + describe(scores, reach=self.reach) @ np.array(fit.weights)
        rates: FloatArray = scores.length * np.exp(np.minimum(logs, math.log(MOST)))
        is_flat = np.ptp(scores.peak) == 0 and np.ptp(scores.mean) == 0
        return np.full_like(rates, rates.mean()) if is_flat else rates


def columns(reach: int) -> int:
    """Columns of `describe`."""
    return 3 * (2 * reach + 1) + 2


def describe(scores: WindowScores, *, reach: int) -> FloatArray:
    """What the regression knows of each window, `(windows, columns)`.

    The logarithms of the peak, the mean and the top quarter of the window and of its neighbours
    from the left to the right, each less its mean over the recording, the window at the end
    standing in for those beyond it; then how near the beginning and the end are, from 1 at the
    edge to 0 in the middle. How high a recording scores as a whole says nothing: it did not carry
    over from one recording to the next (experiments/LOG.md).
    """
    if len(scores) == 0:
        return np.zeros((0, columns(reach)))
    logs = np.log(np.stack([scores.peak, scores.mean, scores.top], axis=1).clip(0) + FLOOR)
    usual = logs.mean(axis=0)
    places = np.arange(len(scores))
    around = [
        (logs - usual)[np.clip(places + step, 0, len(scores) - 1)]
        for step in range(-reach, reach + 1)
    ]
    fade = np.exp(-places * scores.length / EDGE)[:, None]
    return np.concatenate([*around, fade, fade[::-1]], axis=1)
