"""The frontline `energy`: scores by sound level, with its own rates and no trained head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from earmark.features.sound_levels import Energy
from earmark.features.spectrum import decibels
from earmark.gate.frontline import Frontline
from earmark.gate.rates import FLOOR, SCALES, Fit, WindowScores, nearest, smooth
from earmark.gate.survival import Survival
from earmark.timeline import FloatArray

SILENCE_ENERGY = 1e-4
"""-80 dB of full scale; coded silence is below it."""

USUAL_LEVEL_RADIUS = 60.0
"""Seconds on each side of a window."""

NOISE_LIMIT_DB = 3.0
"""Above the usual level, at the loudest moment of a window."""

HALF_WORK_DB = 16.0
"""Above the usual level."""

WORK_SCALE_DB = 4.0

OWN = 0.3
"""Of a window in its own surroundings, so that a single sound counts in a quiet hour."""

NOISE_STAND_OUT = (1 + len(SCALES)) * math.log(FLOOR)

NOISE_RATE_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class LevelRates:
    """Rates by a Poisson regression on one column, `stand_out`, from the sound level.

    A softer copy of a recording has the same rates, and steady noise has rates near 0, however loud
    it is. The fit for the nearest window length is used.
    """

    fits: tuple[Fit, ...]

    def __call__(self, scores: WindowScores) -> FloatArray:
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
"""Fitted by `scripts/energy_table.py` on composites, dense and sparse, of sixteen participants."""

SURVIVAL = Survival.lognormal(median=1.9, sigma=1.0)


def energy_frontline() -> Frontline:
    return Frontline("energy", Energy(), rates=RATES, survival=SURVIVAL)
