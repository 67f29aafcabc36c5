from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import FloatArray

MIN_SHARE = 1e-3

DENSITY_SIGMA = 0.7
"""Of log-densities: one sigma is about twice as busy."""

ODDS_SIGMA = 1.0

CERTAIN_MARGIN = 1e-9
"""Closer to 1, every window is called on."""

CONFIDENCE = 0.8

UNMEASURED = "its uncertainty was not measured"

UNLIKE = "too few recordings like this were measured"

EXCESS = 0.02

COUNT_EXCESS = 0.25
"""A factor of 1.6 is one standard deviation."""


@dataclass(frozen=True, slots=True)
class ForecastRange:
    low: float
    expected: float
    high: float
    confidence: float = CONFIDENCE
    """Share of recordings whose value lies between `low` and `high`."""
    is_unlike: bool = False
    """Too few calibration recordings are like this one: the range is all that is possible, 0 to 100
    % of the actions, at most one action per second."""


@dataclass(frozen=True, slots=True)
class Miss:
    density: float
    odds: float
    units: float
    """Absolute difference of actual and expected coverage, in units of `spread`."""


@dataclass(frozen=True, slots=True)
class Miscount:
    density: float
    units: float
    """Absolute error of the logarithm of 1 + the number, in units of `count_spread`."""

    @classmethod
    def of(cls, actions: float, counted: int, duration: float) -> Miscount:
        off = abs(math.log((1 + counted) / (1 + actions))) / count_spread(actions)
        return cls(round(log_density(actions, duration), 4), round(off, 4))


@dataclass(frozen=True, slots=True)
class ForecastError:
    """Bias and errors of forecasts, measured on calibration recordings.

    A recording may be busier or calmer than it sounds, which biases forecasts if little happens:

        log-odds(expected) = intercept + slope * log-odds(forecast) + density * log(starts a second)

    The width of a range is a quantile of the calibration errors (split-conformal prediction: Vovk,
    Gammerman and Shafer), weighted by likeness (Tibshirani, Barber, Candès and Ramdas). The
    recording at hand counts as one more with a larger error than all others.
    """

    intercept: float = 0.0
    slope: float = 1.0
    density: float = 0.0
    misses: tuple[Miss, ...] = ()
    miscounts: tuple[Miscount, ...] = ()
    """One per recording; empty if not measured."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> ForecastError:
        misses = tuple(Miss(**each) for each in kept["misses"])
        counts = tuple(Miscount(**each) for each in kept.get("miscounts", ()))
        return cls(kept["intercept"], kept["slope"], kept["density"], misses, counts)

    def range(self, forecast: float, *, actions: float, duration: float) -> ForecastRange:
        """A forecast of 0 or 1 is certain: its range has no width."""
        if not 0 < forecast < 1 - CERTAIN_MARGIN:  # no call, or one on every window
            return ForecastRange(forecast, forecast, forecast)
        density = log_density(actions, duration)
        odds = log_odds(forecast)
        corrected = self.intercept + self.slope * odds + self.density * density
        expected = 1 / (1 + math.exp(-corrected))
        errors = np.array([(each.density, each.odds, each.units) for each in self.misses])
        units = math.inf
        if len(errors):
            near = np.exp(-0.5 * ((errors[:, 1] - odds) / ODDS_SIGMA) ** 2)
            alike = likeness(errors[:, 0], density)
            weights = near * alike
            # Total weight of a recording just like this one, over all its budgets, estimated from
            # the recordings that are alike.
            budgets = len(errors) / len(np.unique(errors[:, 0]))
            own = budgets * weights.sum() / max(float(alike.sum()), 1e-12)
            units = quantile(errors[:, 2], weights, own=own)
        if math.isinf(units):
            return ForecastRange(0.0, expected, 1.0, is_unlike=True)
        side = units * spread(expected, actions)
        return ForecastRange(max(0.0, expected - side), expected, min(1.0, expected + side))

    def count(self, actions: float, duration: float) -> ForecastRange | None:
        if not self.miscounts:
            return None
        errors = np.array([(each.density, each.units) for each in self.miscounts])
        alike = likeness(errors[:, 0], log_density(actions, duration))
        units = quantile(errors[:, 1], alike, own=1.0)
        if math.isinf(units):
            return ForecastRange(0.0, actions, max(actions, duration), is_unlike=True)
        factor = math.exp(units * count_spread(actions))
        low, high = (1 + actions) / factor - 1, (1 + actions) * factor - 1
        return ForecastRange(max(0.0, low), actions, high)

    def forecast_for(self, expected: float, *, actions: float, duration: float) -> float:
        """The inverse of `range`; at most 1."""
        density = log_density(actions, duration)
        corrected = log_odds(expected) - self.intercept - self.density * density
        if expected >= 1 or self.slope <= 0:
            return expected
        return 1 / (1 + math.exp(-corrected / self.slope))


def likeness(densities: FloatArray, density: float) -> FloatArray:
    alike: FloatArray = np.exp(-0.5 * ((densities - density) / DENSITY_SIGMA) ** 2)
    return alike


def quantile(units: FloatArray, weights: FloatArray, *, own: float) -> float:
    """The weighted `CONFIDENCE` quantile of `units` and of an infinite error of weight `own`."""
    order = np.argsort(units)
    reached: FloatArray = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, CONFIDENCE * (reached[-1] + own)))
    return float(units[order[place]]) if place < len(units) else math.inf


def spread(expected: float, actions: float) -> float:
    chance = max(expected * (1 - expected), MIN_SHARE / 10)
    return math.sqrt(chance * (1 / max(actions, 1.0) + EXCESS))


def count_spread(actions: float) -> float:
    return math.sqrt(1 / max(actions, 1.0) + COUNT_EXCESS)


def log_odds(share: float) -> float:
    kept = float(np.clip(share, MIN_SHARE, 1 - MIN_SHARE))
    return math.log(kept / (1 - kept))


def log_density(actions: float, duration: float) -> float:
    """Of action starts per second; `MIN_SHARE` keeps it finite."""
    return math.log(max(actions, 0.0) / max(duration, 1.0) + MIN_SHARE)


def as_range(share: float | None, limits: ForecastRange | None) -> str:
    """A forecast of coverage with its range.

    >>> as_range(0.5, ForecastRange(0.4, 0.5, 0.6, 0.8))
    '50.0 % (40–60 % in 80 % of recordings)'
    """
    sure = how_sure(share, limits)
    return f"{as_share(share)} ({sure})" if sure else as_share(share)


def how_sure(share: float | None, limits: ForecastRange | None) -> str:
    """Empty if the forecast is certain or there is none.

    >>> how_sure(0.5, None)
    'its uncertainty was not measured'
    """
    if share is None or math.isnan(share) or (limits and limits.low == limits.high):
        return ""
    sure = _between(limits, scale=100, unit=" %")
    return f"0–100 %: {sure}" if limits and limits.is_unlike else sure


def as_count(actions: float | None, limits: ForecastRange | None) -> str:
    """Empty for None.

    >>> as_count(36.8, ForecastRange(20.1, 36.8, 66.4, 0.8))
    '37 actions expected (20–66 in 80 % of recordings)'
    >>> as_count(0.93, None)
    '0.93 actions expected (its uncertainty was not measured)'
    """
    if actions is None:
        return ""
    shown = f"{actions:.0f}" if actions >= 10 else f"{actions:.2g}"
    return f"{shown} actions expected ({_between(limits)})"


def _between(limits: ForecastRange | None, *, scale: int = 1, unit: str = "") -> str:
    if limits is None:
        return UNMEASURED
    if limits.is_unlike:
        return UNLIKE
    low, high = scale * limits.low, scale * limits.high
    digits = 0 if round(low) < round(high) else 1  # not 0–0 %, which looks certain
    return (
        f"{low:.{digits}f}–{high:.{digits}f}{unit} in {100 * limits.confidence:.0f} % of recordings"
    )


def as_share(share: float | None) -> str:
    """A dash for None or nan.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
