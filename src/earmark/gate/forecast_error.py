"""How far a forecast of coverage may be off: what it came to on recordings the gate had not met."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import FloatArray

LEAST = 1e-3
"""Shares are kept so far from 0 and 1 before their odds are taken."""

ALIKE = 0.7
"""Difference of two log-densities, as the sigma of a normal curve, at which recordings count as
alike: about twice as busy."""

NEAR = 1.0
"""Likewise of the log-odds of two forecasts."""

CERTAIN = 1e-9
"""A forecast no further from all is no forecast: every window is called on."""

CONFIDENCE = 0.8
"""Of a range, unless another is asked for."""

UNLIKE = "too few recordings like this have been met"
"""Why a forecast says nothing."""

EXCESS = 0.02
"""Variance, beside that of chance, that is taken as given for the unit errors are measured in."""


@dataclass(frozen=True, slots=True)
class CoverageRange:
    """A coverage to be expected, and between what it is to lie."""

    low: float
    expected: float
    high: float
    confidence: float
    """Share of recordings whose coverage lies between `low` and `high`."""
    is_unlike: bool = False
    """Whether too few recordings like this one have been met to say more than 0 to 100 %."""


@dataclass(frozen=True, slots=True)
class Miss:
    """How far off one forecast was, for a calibration recording at one budget."""

    density: float
    """Log-density of the actions that were expected, see `log_density`."""
    odds: float
    """Log-odds of the forecast."""
    units: float
    """How far the coverage was from what was to be expected, in units of `spread`."""


@dataclass(frozen=True, slots=True)
class ForecastError:
    """What calibration recordings said of forecasts: how they lean, and how far they were off.

    The rates of a recording that is busier or calmer than its sound says are all wrong together,
    so a forecast leans where little goes on:

        log-odds(expected) = intercept + slope * log-odds(forecast) + density * log(starts a second)

    How far off it may be is read from the calibration recordings themselves (split-conformal
    prediction: Vovk, Gammerman and Shafer), those that are about as busy and forecasts that are
    about as high counting most (Tibshirani, Barber, Candès and Ramdas). The recording at hand
    counts as one more that was further off than all, so where few are like it the range is wide.
    """

    intercept: float = 0.0
    slope: float = 1.0
    density: float = 0.0
    misses: tuple[Miss, ...] = ()

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> ForecastError:
        """What `asdict` made of one."""
        misses = tuple(Miss(**each) for each in kept["misses"])
        return cls(kept["intercept"], kept["slope"], kept["density"], misses)

    def range(
        self, forecast: float, *, actions: float, duration: float, confidence: float = CONFIDENCE
    ) -> CoverageRange:
        """What a `forecast` of coverage means in a recording that is expected to hold `actions`."""
        if not 0 < confidence < 1:
            raise ValueError(f"a confidence lies between 0 % and 100 %, not {confidence:.0%}")
        if not 0 < forecast < 1 - CERTAIN:  # no call, or one on every window
            return CoverageRange(forecast, forecast, forecast, confidence)
        density = log_density(actions, duration)
        expected = self.expect(forecast, density)
        units = self._units(log_odds(forecast), density, confidence)
        if math.isinf(units):
            return CoverageRange(0.0, expected, 1.0, confidence, is_unlike=True)
        side = units * spread(expected, actions)
        return CoverageRange(
            max(0.0, expected - side), expected, min(1.0, expected + side), confidence
        )

    def expect(self, forecast: float, density: float) -> float:
        """The coverage to be expected of a `forecast` at a log-density."""
        odds = self.intercept + self.slope * log_odds(forecast) + self.density * density
        return 1 / (1 + math.exp(-odds))

    def forecast_for(self, expected: float, *, actions: float, duration: float) -> float:
        """The forecast from which on `expected` coverage is to be expected; at most 1."""
        density = log_density(actions, duration)
        lean = log_odds(expected) - self.intercept - self.density * density
        if expected >= 1 or self.slope <= 0:
            return expected
        return 1 / (1 + math.exp(-lean / self.slope))

    def _units(self, odds: float, density: float, confidence: float) -> float:
        """How many units of `spread` a forecast is off at most; infinite where nobody knows."""
        met = np.array([(each.density, each.odds, each.units) for each in self.misses])
        if not len(met):
            return math.inf
        near = np.exp(-0.5 * ((met[:, 1] - odds) / NEAR) ** 2)
        alike = near * np.exp(-0.5 * ((met[:, 0] - density) / ALIKE) ** 2)
        own = near.sum() / len(np.unique(met[:, 0]))  # what a recording just like this one counts
        order = np.argsort(met[:, 2])
        reached: FloatArray = np.cumsum(alike[order])
        place = int(np.searchsorted(reached, confidence * (reached[-1] + own)))
        return float(met[order[place], 2]) if place < len(met) else math.inf


def spread(expected: float, actions: float) -> float:
    """The unit of errors of a coverage: chance, and what is taken as given beside it."""
    chance = max(expected * (1 - expected), LEAST / 10)
    return math.sqrt(chance * (1 / max(actions, 1.0) + EXCESS))


def log_odds(share: float) -> float:
    """The logarithm of `share / (1 - share)`, kept finite."""
    kept = float(np.clip(share, LEAST, 1 - LEAST))
    return math.log(kept / (1 - kept))


def log_density(actions: float, duration: float) -> float:
    """The logarithm of action starts a second, kept finite."""
    return math.log(max(actions, 0.0) / max(duration, 1.0) + LEAST)


def as_range(share: float | None, told: CoverageRange | None) -> str:
    """A forecast of coverage and between what it is to lie.

    >>> as_range(0.5, CoverageRange(0.4, 0.5, 0.6, 0.8))
    '50.0 % (40–60 % in 80 % of recordings)'
    """
    sure = how_sure(share, told)
    return f"{as_share(share)} ({sure})" if sure else as_share(share)


def how_sure(share: float | None, told: CoverageRange | None) -> str:
    """Between what a forecast of coverage is to lie; empty where it is certain, or there is none.

    >>> how_sure(0.5, None)
    'how sure that is was not measured'
    """
    if share is None or math.isnan(share) or (told and told.low == told.high):
        return ""
    if told is None:
        return "how sure that is was not measured"
    if told.is_unlike:
        return f"0–100 %: {UNLIKE}"
    between = f"{100 * told.low:.0f}–{100 * told.high:.0f} %"
    return f"{between} in {100 * told.confidence:.0f} % of recordings"


def as_share(share: float | None) -> str:
    """A share in per cent; a dash where there is none.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
