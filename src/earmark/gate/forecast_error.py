"""Ranges of forecasts, from the forecasts' errors on recordings the gate was not trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.timeline import FloatArray

MIN_SHARE = 1e-3
"""Least distance of a share from 0 and 1 when its odds are computed."""

DENSITY_SIGMA = 0.7
"""Sigma of the normal curve that weights recordings by the difference of their log-densities: one
sigma is about twice as busy."""

ODDS_SIGMA = 1.0
"""Sigma of the normal curve that weights forecasts by the difference of their log-odds."""

CERTAIN_MARGIN = 1e-9
"""A forecast closer to 1 than this is certain: every window is called on."""

CONFIDENCE = 0.8
"""Share of recordings that every range is meant to hold for."""

UNMEASURED = "how sure that is was not measured"
"""Why a forecast has no range."""

UNLIKE = "too few recordings like this have been met"
"""Why a forecast's range is the whole range of possible values."""

EXCESS = 0.02
"""Variance added to that of chance in `spread`, the unit of coverage errors."""

COUNT_EXCESS = 0.25
"""Variance added to that of chance in `count_spread`: a factor of 1.6 is one standard deviation."""


@dataclass(frozen=True, slots=True)
class ForecastRange:
    """Expected coverage or number of actions of a recording, with its range."""

    low: float
    expected: float
    high: float
    confidence: float = CONFIDENCE
    """Share of recordings whose value lies between `low` and `high`."""
    is_unlike: bool = False
    """Whether too few calibration recordings are like this one. The range then is all that is
    possible: 0 to 100 % of the actions, at most one action a second."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Error of one forecast of coverage, for a calibration recording at one budget."""

    density: float
    """Log-density of the expected actions, see `log_density`."""
    odds: float
    """Log-odds of the forecast."""
    units: float
    """Absolute difference of actual and expected coverage, in units of `spread`."""


@dataclass(frozen=True, slots=True)
class Miscount:
    """Error of the expected number of actions of one calibration recording."""

    density: float
    """Log-density of the expected actions."""
    units: float
    """Absolute error of the logarithm of 1 + the number, in units of `count_spread`."""

    @classmethod
    def of(cls, actions: float, counted: int, duration: float) -> Miscount:
        """The error for a recording with `counted` actions where `actions` were expected."""
        off = abs(math.log((1 + counted) / (1 + actions))) / count_spread(actions)
        return cls(round(log_density(actions, duration), 4), round(off, 4))


@dataclass(frozen=True, slots=True)
class ForecastError:
    """Bias and errors of forecasts, measured on calibration recordings.

    A recording may be busier or calmer than it sounds, which shifts all its rates together. That
    biases forecasts where little happens; the correction is

        log-odds(expected) = intercept + slope * log-odds(forecast) + density * log(starts a second)

    The width of a range is a quantile of the calibration errors (split-conformal prediction: Vovk,
    Gammerman and Shafer). Recordings about as busy and forecasts about as high have most weight
    (Tibshirani, Barber, Candès and Ramdas). The recording at hand counts as one more with a larger
    error than all others, so the range is wide where few recordings are like it.
    """

    intercept: float = 0.0
    slope: float = 1.0
    density: float = 0.0
    misses: tuple[Miss, ...] = ()
    miscounts: tuple[Miscount, ...] = ()
    """One a recording; empty for gates made before they were measured."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> ForecastError:
        """The errors from their dictionary, as `asdict` makes it; `miscounts` may be missing."""
        misses = tuple(Miss(**each) for each in kept["misses"])
        counts = tuple(Miscount(**each) for each in kept.get("miscounts", ()))
        return cls(kept["intercept"], kept["slope"], kept["density"], misses, counts)

    def range(self, forecast: float, *, actions: float, duration: float) -> ForecastRange:
        """Expected coverage and its range for a `forecast` where `actions` are expected.

        `duration` is in seconds. A forecast of 0 or 1 is certain: its range has no width.
        """
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
        """Range of the number of actions where `actions` are expected in `duration` seconds.

        None if the errors of such numbers were not measured.
        """
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
        """The forecast whose expected coverage in `range` is `expected`; at most 1.

        `expected` itself if it is 1 or the slope is not positive.
        """
        density = log_density(actions, duration)
        corrected = log_odds(expected) - self.intercept - self.density * density
        if expected >= 1 or self.slope <= 0:
            return expected
        return 1 / (1 + math.exp(-corrected / self.slope))


def likeness(densities: FloatArray, density: float) -> FloatArray:
    """Weights in (0, 1] of recordings of log-densities `densities` for one of `density`."""
    alike: FloatArray = np.exp(-0.5 * ((densities - density) / DENSITY_SIGMA) ** 2)
    return alike


def quantile(units: FloatArray, weights: FloatArray, *, own: float) -> float:
    """The weighted `CONFIDENCE` quantile of `units` and of an infinite error of weight `own`.

    Infinite where `units` together weigh too little.
    """
    order = np.argsort(units)
    reached: FloatArray = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, CONFIDENCE * (reached[-1] + own)))
    return float(units[order[place]]) if place < len(units) else math.inf


def spread(expected: float, actions: float) -> float:
    """The unit of coverage errors: a standard deviation of chance and of `EXCESS`."""
    chance = max(expected * (1 - expected), MIN_SHARE / 10)
    return math.sqrt(chance * (1 / max(actions, 1.0) + EXCESS))


def count_spread(actions: float) -> float:
    """The unit of errors of the logarithm of a number of actions: chance and `COUNT_EXCESS`."""
    return math.sqrt(1 / max(actions, 1.0) + COUNT_EXCESS)


def log_odds(share: float) -> float:
    """The logarithm of `share / (1 - share)`; `MIN_SHARE` keeps it finite."""
    kept = float(np.clip(share, MIN_SHARE, 1 - MIN_SHARE))
    return math.log(kept / (1 - kept))


def log_density(actions: float, duration: float) -> float:
    """The logarithm of action starts a second; `MIN_SHARE` keeps it finite."""
    return math.log(max(actions, 0.0) / max(duration, 1.0) + MIN_SHARE)


def as_range(share: float | None, limits: ForecastRange | None) -> str:
    """A forecast of coverage with its range, as text.

    >>> as_range(0.5, ForecastRange(0.4, 0.5, 0.6, 0.8))
    '50.0 % (40–60 % in 80 % of recordings)'
    """
    sure = how_sure(share, limits)
    return f"{as_share(share)} ({sure})" if sure else as_share(share)


def how_sure(share: float | None, limits: ForecastRange | None) -> str:
    """The range of a forecast of coverage, as text; empty if it is certain or there is none.

    >>> how_sure(0.5, None)
    'how sure that is was not measured'
    """
    if share is None or math.isnan(share) or (limits and limits.low == limits.high):
        return ""
    sure = _between(limits, scale=100, unit=" %")
    return f"0–100 %: {sure}" if limits and limits.is_unlike else sure


def as_count(actions: float | None, limits: ForecastRange | None) -> str:
    """An expected number of actions with its range, as text; empty for none.

    >>> as_count(36.8, ForecastRange(20.1, 36.8, 66.4, 0.8))
    '37 actions expected (20–66 in 80 % of recordings)'
    >>> as_count(0.93, None)
    '0.93 actions expected (how sure that is was not measured)'
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
    """A share in per cent, as text; a dash for none or nan.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
