"""The frontline `energy`: scores by sound level, with its own rates and no trained head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from earmark.features.energy import Energy
from earmark.features.spectrum import decibels
from earmark.gate.frontline import Frontline
from earmark.gate.rates import FLOOR, SCALES, Fit, WindowScores, nearest, smooth
from earmark.gate.survival import Survival
from earmark.timeline import FloatArray

SILENCE_ENERGY = 1e-4
"""Energy that counts as silence, -80 dB of full scale; coded silence is below it."""

USUAL_LEVEL_RADIUS = 60.0
"""Seconds on each side of a window over which the median level is the usual level."""

NOISE_LIMIT_DB = 3.0
"""Decibels above the usual level up to which the loudest moment of a window counts as noise."""

HALF_WORK_DB = 16.0
"""Decibels above the usual level at which it counts as about half work."""

WORK_SCALE_DB = 4.0
"""Scale of the logistic curve in between, in decibels."""

OWN = 0.3
"""Weight of a window itself in its surroundings, so that a single sound counts in a quiet hour."""

NOISE_STAND_OUT = (1 + len(SCALES)) * math.log(FLOOR)
"""Value of `stand_out` for noise in a recording of nothing else."""

NOISE_RATE_SHARE = 0.01
"""Share of the rate of such noise that is kept, so that no rate is 0."""


@dataclass(frozen=True, slots=True)
class LevelRates:
    """Rates by a Poisson regression on one column, `stand_out`, from the sound level.

    The rates are absolute and do not depend on the overall level: a softer copy of a recording has
    the same rates. Silence and steady noise have rates near 0, however loud the noise is. The fit
    for the nearest window length is used.
    """

    fits: tuple[Fit, ...]
    """One for each window length, each with one weight."""

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, which are energies, one a window."""
        fit = nearest(self.fits, scores.length)
        (weight,) = fit.weights
        noise = (1 - NOISE_RATE_SHARE) * math.exp(weight * NOISE_STAND_OUT)
        over: FloatArray = np.exp(weight * stand_out(scores)) - noise
        return scores.length * math.exp(fit.intercept) * over


def stand_out(scores: WindowScores) -> FloatArray:
    """How much each window of energies sounds like work: `NOISE_STAND_OUT` in noise, to about 0.

        above = loudest moment - usual level around
        work = logistic((above - HALF_WORK_DB) / WORK_SCALE_DB), 0 below NOISE_LIMIT_DB
        (log(work) + log(work of 10 s around) + log(work of 40 s around)) * (1 - work of all)^2

    In a busy recording the values differ less: comparing windows is less informative there. Empty
    without windows.
    """
    if len(scores) == 0:
        return np.zeros(0)
    above = decibels(np.maximum(scores.peak, SILENCE_ENERGY)) - usual_levels(scores)
    nothing = float(_logistic(np.array(NOISE_LIMIT_DB)))
    work = np.maximum(_logistic(above) - nothing, 0) / (1 - nothing)
    around = [OWN * work + (1 - OWN) * smooth(work, scale / scores.length) for scale in SCALES]
    logs: FloatArray = np.log(np.stack([work, *around]) + FLOOR).sum(axis=0)
    return logs * (1 - float(work.mean())) ** 2


def _logistic(above: FloatArray) -> FloatArray:
    curve: FloatArray = 1 / (1 + np.exp(-(above - HALF_WORK_DB) / WORK_SCALE_DB))
    return curve


def usual_levels(scores: WindowScores) -> FloatArray:
    """Median level in decibels around each window (`USUAL_LEVEL_RADIUS`); mirrored at the ends."""
    from scipy.ndimage import median_filter  # slow to import, needed by this frontline only

    levels = decibels(np.maximum(scores.mean, SILENCE_ENERGY))
    side = min(round(USUAL_LEVEL_RADIUS / scores.length), len(levels) - 1)
    usual: FloatArray = median_filter(levels, size=2 * side + 1, mode="reflect")
    return usual


RATES = LevelRates(
    (
        Fit(1.0, -1.196, (0.185,)),
        Fit(2.0, -1.247, (0.232,)),
        Fit(4.0, -1.32, (0.304,)),
        Fit(8.0, -1.413, (0.415,)),
        Fit(16.0, -1.523, (0.574,)),
    )
)
"""Fitted by `scripts/energy_table.py` on composites, dense and sparse, of sixteen participants;
these ten numbers are all that is kept of them."""

SURVIVAL = Survival.lognormal(median=1.9, sigma=1.0)
"""Lengths of actions: a log-normal close to the default gate's curve."""


def energy_frontline() -> Frontline:
    """The frontline that computes scores and rates from the sound level alone."""
    return Frontline("energy", Energy(), rates=RATES, survival=SURVIVAL)
