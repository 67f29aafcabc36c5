from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.features.spectrum import decibels
from earmark.timeline import FloatArray

FLOOR = 1e-3
"""Added to a score before its logarithm."""

EDGE_DECAY = 8.0
"""Seconds after which the effect of the start or end of a recording falls to 1/e."""

MOST = 1.0
"""Starts per second; a busy kitchen has a quarter of that."""

SCALES = (10.0, 40.0)
"""Sigmas, in seconds, of the normal curves that average the scores around a window."""

MIN_LOG_RATIO = -2.0
"""Of a window's score relative to the usual score."""

CERTAIN_WORK_POWER = 3
"""Exponent of the weights in the usual score of work: windows surely at work count more."""

SPARSE_AND_DENSE = (0.65, 0.88)
"""Share of work up to which a recording counts as sparse, and from which as dense. On composites
sparse ones lie below 0.77 and all but two dense ones above 0.86."""

MIN_WORK_SHARE = 0.2
"""Without this limit the only knock in two hours would get a thirtieth of the rate of one in ten
minutes. The calmest recordings that rates are fitted on have 0.13 and more."""

COLUMNS = 6

RISING = (0, 2, 3)
"""Columns of `describe` whose weights are never below 0: a negative weight fitted to noise in dense
recordings would reverse the order of windows in a sparse one."""

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

QUIET_SHARE = 0.15
"""Of the windows. In 2 hours with 25 clips 0.02 stand out, in composites 0.2 and more."""

MIN_VOTE = 0.1
"""Least share of the sound level in the rates."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowScores:
    length: float
    """Seconds."""
    peak: FloatArray
    mean: FloatArray
    level: WindowScores | None = None
    """The sound level of the same windows, as amplitudes; None if no sound was read."""
    goes_on: bool = False
    """The last window is only the last so far."""

    def __len__(self) -> int:
        return len(self.peak)


class RateMap(Protocol):
    """Expected action starts in each window: finite, at least 0."""

    def __call__(self, scores: WindowScores) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class RankRates:
    """Rates that rise linearly with a window's rank by peak score in its recording.

    For scores that cannot be compared between recordings:

        rate(m) = starts_per_second * length * (1 + contrast * (2 * rank(m) - 1))

    with `rank` in (0, 1); equal scores share the middle of their ranks.
    """

    contrast: float = 0.35
    """From 0, which ignores the score, to 1."""
    starts_per_second: float = 0.28
    """That of EPIC-KITCHENS-100's training set."""

    def __post_init__(self) -> None:
        if not 0 <= self.contrast <= 1:
            raise ValueError(f"contrast lies between 0 and 1, not {self.contrast}")
        if not self.starts_per_second > 0:
            raise ValueError(f"starts_per_second is positive, not {self.starts_per_second}")

    def __call__(self, scores: WindowScores) -> FloatArray:
        _, group, sizes = np.unique(scores.peak, return_inverse=True, return_counts=True)
        below = np.cumsum(sizes) - sizes
        rank = (below + sizes / 2)[group] / max(1, len(scores))
        return self.starts_per_second * scores.length * (1 + self.contrast * (2 * rank - 1))


@dataclass(frozen=True, slots=True)
class Fit:
    """`log(starts a second) = intercept + x @ weights` for one window length."""

    length: float
    """Seconds."""
    intercept: float
    weights: tuple[float, ...]


def nearest(fits: Sequence[Fit], length: float) -> Fit:
    """As a ratio."""
    return min(fits, key=lambda each: abs(math.log(each.length / length)))


@dataclass(frozen=True, slots=True)
class FittedRates:
    """Rates by a Poisson regression on the scores of each window and its surroundings.

    The fit for the nearest window length is used.
    """

    fits: tuple[Fit, ...]
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
        if len(scores) == 0:
            return np.zeros(0)
        fit = nearest(self.fits, scores.length)
        logs = fit.intercept + describe(scores, half=self.half) @ np.array(fit.weights)
        rates: FloatArray = scores.length * np.exp(np.minimum(logs, math.log(MOST)))
        return np.full_like(rates, rates.mean()) if np.ptp(scores.mean) == 0 else rates


def describe(scores: WindowScores, *, half: float) -> FloatArray:
    """The regression's inputs for each window, `(windows, COLUMNS)`.

    The share of work of a window is `score / (score + half)`. In a sparse recording the inputs show
    where there is work, in a dense one what stands out (`SPARSE_AND_DENSE`):

    0. sparse: sum of the log shares of work of the window and of its surroundings (`SCALES`);
    1. log share of work of the whole recording, at least `MIN_WORK_SHARE`;
    2. sparse: log score of the window relative to the usual score of work in this recording, times
       the share of work around the window;
    3. dense: the same, but relative to the seconds around the window;
    4. and 5. nearness to the start and to the end of the recording, falling from 1 to 0, times the
       share of work around the window; 0 at an end that `goes_on`.
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
        fade[::-1] * work * (not scores.goes_on),
    ]
    return np.stack(columns, axis=1)


def smooth(values: FloatArray, sigma: float) -> FloatArray:
    """Weighted by a normal curve of `sigma` places, cut off at both ends."""
    side = math.ceil(3 * sigma)
    curve = np.exp(-0.5 * (np.arange(-side, side + 1) / sigma) ** 2)
    total, weight = (
        np.convolve(each, curve)[side : side + len(values)]
        for each in (values, np.ones(len(values)))
    )
    mean: FloatArray = total / weight
    return mean


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


@dataclass(frozen=True, slots=True)
class Hedge:
    """Lets the plain sound level vote on where actions are, whatever the trained head says.

    The rates of the level, scaled to the same sum, are mixed with those of the head. In a quiet
    recording, in which few windows stand out from their surroundings, the level alone decides: what
    is heard there is all that can be heard, and each sound counts as about one action.
    """

    level: LevelRates
    share: float
    """Of the level: at least `MIN_VOTE`, at most 1."""

    def __post_init__(self) -> None:
        if not MIN_VOTE <= self.share <= 1:
            raise ValueError(f"the level has a share of {MIN_VOTE} to 1, not {self.share}")

    def mix(self, rates: FloatArray, scores: WindowScores) -> FloatArray:
        if scores.level is None or not len(rates):
            return rates
        by_level = self.level(scores.level)
        by_level *= float(rates.sum()) / max(float(by_level.sum()), 1e-12)
        mixed = (1 - self.share) * rates + self.share * by_level
        quiet = quietness(scores.level)
        return (1 - quiet) * mixed + quiet * QUIET_RATES(scores.level) if quiet else mixed


def quietness(level: WindowScores) -> float:
    """1 if no window stands out, 0 from `QUIET_SHARE` on."""
    share = float(np.mean(stand_out(level) > NOISE_STAND_OUT / 2))
    return max(0.0, 1 - share / QUIET_SHARE)


@dataclass(frozen=True, slots=True)
class HedgedRates:
    rates: FittedRates
    hedge: Hedge

    def __call__(self, scores: WindowScores) -> FloatArray:
        return self.hedge.mix(self.rates(scores), scores)


def usual_levels(scores: WindowScores) -> FloatArray:
    from scipy.ndimage import median_filter  # slow to import, needed by this frontline only

    levels = decibels(np.maximum(scores.mean, SILENCE_ENERGY))
    side = min(round(USUAL_LEVEL_RADIUS / scores.length), len(levels) - 1)
    usual: FloatArray = median_filter(levels, size=2 * side + 1, mode="reflect")
    return usual


QUIET_RATES = LevelRates((Fit(4.0, math.log(0.25), (0.3,)),))
"""About half an action in the window of a sound that is alone in a quiet hour, and as much in the
next one if it goes on."""

ENERGY_RATES = LevelRates(
    (
        Fit(1.0, -1.196, (0.185,)),
        Fit(2.0, -1.247, (0.232,)),
        Fit(4.0, -1.32, (0.304,)),
        Fit(8.0, -1.413, (0.415,)),
        Fit(16.0, -1.523, (0.574,)),
    )
)
"""Fitted by `scripts/energy_table.py` on composites, dense and sparse, of sixteen participants."""
