"""How far a forecast of coverage may be off: what it came to on recordings the gate had not met."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

LEAST = 1e-3
"""Shares are kept so far from 0 and 1 before their odds are taken."""


@dataclass(frozen=True, slots=True)
class CoverageRange:
    """A coverage to be expected, and between what it is to lie."""

    low: float
    expected: float
    high: float
    confidence: float
    """Share of recordings whose coverage lies between `low` and `high`."""


@dataclass(frozen=True, slots=True)
class ForecastError:
    """What calibration recordings said of forecasts: how they lean, and how widely they scatter.

    The rates of a recording that is busier or calmer than its sound says are all wrong together,
    so a forecast leans where little goes on, and scatters more than chance:

        log-odds(expected) = intercept + slope * log-odds(forecast) + density * log(starts a second)
        variance           = expected * (1 - expected) * (1 / actions + scatter / density ** power)
    """

    intercept: float = 0.0
    slope: float = 1.0
    density: float = 0.0
    scatter: float = 0.0
    power: float = 0.0
    """How much faster forecasts scatter where less goes on."""

    def range(
        self, forecast: float, *, actions: float, duration: float, confidence: float = 0.8
    ) -> CoverageRange:
        """What a `forecast` of coverage means in a recording that is expected to hold `actions`."""
        if not 0 < confidence < 1:
            raise ValueError(f"a confidence lies between 0 % and 100 %, not {confidence:.0%}")
        odds = self.intercept + self.slope * log_odds(forecast)
        density = log_density(actions, duration)
        odds += self.density * density
        expected = 1 / (1 + math.exp(-odds))
        scatter = self.scatter * math.exp(-self.power * density)
        spread = math.sqrt(expected * (1 - expected) * (1 / max(actions, 1.0) + scatter))
        side = spread * NormalDist().inv_cdf((1 + confidence) / 2)
        return CoverageRange(
            max(0.0, expected - side), expected, min(1.0, expected + side), confidence
        )


def log_odds(share: float) -> float:
    """The logarithm of `share / (1 - share)`, kept finite."""
    kept = float(np.clip(share, LEAST, 1 - LEAST))
    return math.log(kept / (1 - kept))


def log_density(actions: float, duration: float) -> float:
    """The logarithm of action starts a second, kept finite."""
    return math.log(max(actions, 0.0) / max(duration, 1.0) + LEAST)
