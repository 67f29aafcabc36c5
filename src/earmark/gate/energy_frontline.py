"""The frontline `energy`: the level of the sound, with rates of its own and no trained weights."""

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

QUIETEST = 1e-4
"""Energy that counts as silence, -80 dB of full scale; what a coder leaves of silence is below."""

AROUND = 60.0
"""Seconds on each side of a window whose median level is what is usual there."""

STEADY = 3.0
"""Decibels above the usual up to which the loudest moment of a window is part of the noise."""

HALF = 16.0
"""Decibels above the usual at which it counts about half as work."""

WIDTH = 4.0
"""Decibels, the scale of the logistic curve in between."""

OWN = 0.3
"""Share that a window has in its own surroundings: a single sound counts in a quiet hour too."""

LEAST = (1 + len(SCALES)) * math.log(FLOOR)
"""What `stand_out` says of noise in a recording that holds nothing else."""

KEPT = 0.01
"""Share of the rate of such noise that is left: nowhere is quite nothing expected."""


@dataclass(frozen=True, slots=True)
class LevelRates:
    """Rates by a Poisson regression on one column: how much like work the level says a window is.

    The rates are absolute and know no unit of level: a softer copy of a recording has the same
    ones. Of silence, and of noise that neither swells nor clatters, next to nothing is expected,
    however loud it is. The fit for the nearest length of window is used.
    """

    fits: tuple[Fit, ...]
    """One for each length of window, of one weight."""

    def __call__(self, scores: WindowScores) -> FloatArray:
        """The rates of `scores`, which are energies, one a window."""
        fit = nearest(self.fits, scores.length)
        (weight,) = fit.weights
        noise = (1 - KEPT) * math.exp(weight * LEAST)
        over: FloatArray = np.exp(weight * stand_out(scores)) - noise
        return scores.length * math.exp(fit.intercept) * over


def stand_out(scores: WindowScores) -> FloatArray:
    """How much like work each window of energies is: from `LEAST` in noise to about 0.

        work = logistic((loudest moment - usual level around - HALF) / WIDTH), 0 below STEADY
        (log(work) + log(work of 10 s around) + log(work of 40 s around)) * (1 - work of all)^2

    Where the whole recording is busy, how a window compares with the next says less.
    """
    if len(scores) == 0:
        return np.zeros(0)
    above = decibels(np.maximum(scores.peak, QUIETEST)) - usual_levels(scores)
    nothing = float(_logistic(np.array(STEADY)))
    work = np.maximum(_logistic(above) - nothing, 0) / (1 - nothing)
    around = [OWN * work + (1 - OWN) * smooth(work, scale / scores.length) for scale in SCALES]
    logs: FloatArray = np.log(np.stack([work, *around]) + FLOOR).sum(axis=0)
    return logs * (1 - float(work.mean())) ** 2


def _logistic(above: FloatArray) -> FloatArray:
    curve: FloatArray = 1 / (1 + np.exp(-(above - HALF) / WIDTH))
    return curve


def usual_levels(scores: WindowScores) -> FloatArray:
    """The median level, in decibels, of the windows `AROUND` each; mirrored at the two ends."""
    from scipy.ndimage import median_filter  # slow to import, and only this frontline needs it

    levels = decibels(np.maximum(scores.mean, QUIETEST))
    side = min(round(AROUND / scores.length), len(levels) - 1)
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
these ten numbers are all that is carried of them."""

SURVIVAL = Survival.lognormal(median=1.9, sigma=1.0)
"""The default gate's curve of how long actions last, as a log-normal."""


def energy_frontline() -> Frontline:
    """Listens to the level alone, and says how many actions to expect from it."""
    return Frontline("energy", Energy(), rates=RATES, survival=SURVIVAL)
