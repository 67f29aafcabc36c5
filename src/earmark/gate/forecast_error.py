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
"""Of every range."""

UNMEASURED = "how sure that is was not measured"
"""Why a forecast has no range."""

UNLIKE = "too few recordings like this have been met"
"""Why a forecast says nothing."""

EXCESS = 0.02
"""Variance, beside that of chance, that is taken as given for the unit errors are measured in."""

COUNT_EXCESS = 0.25
"""Likewise of the logarithm of a number of actions: a factor of 1.6 is nothing unusual."""


@dataclass(frozen=True, slots=True)
class ForecastRange:
    """What is to be expected of a recording, a coverage or a number, and between what it lies."""

    low: float
    expected: float
    high: float
    confidence: float = CONFIDENCE
    """Share of recordings for which it lies between `low` and `high`."""
    is_unlike: bool = False
    """Whether too few recordings like this one have been met to say more than all that can be: 0 to
    100 % of the actions, at most one action a second."""


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
class Miscount:
    """How far off the number of actions expected of one calibration recording was."""

    density: float
    """Log-density of the actions that were expected."""
    units: float
    """How far the logarithm of the number was off, in units of `count_spread`."""

    @classmethod
    def of(cls, actions: float, counted: int, duration: float) -> Miscount:
        """That of a recording with `counted` actions where `actions` were expected."""
        off = abs(math.log((1 + counted) / (1 + actions))) / count_spread(actions)
        return cls(round(log_density(actions, duration), 4), round(off, 4))


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
    miscounts: tuple[Miscount, ...] = ()
    """One a recording; of a gate that was made before they were measured, none."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> ForecastError:
        """What `asdict` made of one."""
        misses = tuple(Miss(**each) for each in kept["misses"])
        counts = tuple(Miscount(**each) for each in kept.get("miscounts", ()))
        return cls(kept["intercept"], kept["slope"], kept["density"], misses, counts)

    def range(self, forecast: float, *, actions: float, duration: float) -> ForecastRange:
        """What a `forecast` of coverage means in a recording that is expected to hold `actions`."""
        if not 0 < forecast < 1 - CERTAIN:  # no call, or one on every window
            return ForecastRange(forecast, forecast, forecast)
        density = log_density(actions, duration)
        odds = log_odds(forecast)
        leaning = self.intercept + self.slope * odds + self.density * density
        expected = 1 / (1 + math.exp(-leaning))
        met = np.array([(each.density, each.odds, each.units) for each in self.misses])
        units = math.inf
        if len(met):
            near = np.exp(-0.5 * ((met[:, 1] - odds) / NEAR) ** 2)
            alike = likeness(met[:, 0], density)
            weights = near * alike
            # What a recording just like this one counts, as far as those that are alike tell.
            budgets = len(met) / len(np.unique(met[:, 0]))
            own = budgets * weights.sum() / max(float(alike.sum()), 1e-12)
            units = quantile(met[:, 2], weights, own=own)
        if math.isinf(units):
            return ForecastRange(0.0, expected, 1.0, is_unlike=True)
        side = units * spread(expected, actions)
        return ForecastRange(max(0.0, expected - side), expected, min(1.0, expected + side))

    def count(self, actions: float, duration: float) -> ForecastRange | None:
        """Between what the number of actions is to lie where `actions` are expected.

        None where nobody has measured how far such numbers are off.
        """
        if not self.miscounts:
            return None
        met = np.array([(each.density, each.units) for each in self.miscounts])
        alike = likeness(met[:, 0], log_density(actions, duration))
        units = quantile(met[:, 1], alike, own=1.0)
        if math.isinf(units):
            return ForecastRange(0.0, actions, max(actions, duration), is_unlike=True)
        factor = math.exp(units * count_spread(actions))
        low, high = (1 + actions) / factor - 1, (1 + actions) * factor - 1
        return ForecastRange(max(0.0, low), actions, high)

    def forecast_for(self, expected: float, *, actions: float, duration: float) -> float:
        """The forecast from which on `expected` coverage is to be expected; at most 1."""
        density = log_density(actions, duration)
        lean = log_odds(expected) - self.intercept - self.density * density
        if expected >= 1 or self.slope <= 0:
            return expected
        return 1 / (1 + math.exp(-lean / self.slope))


def likeness(densities: FloatArray, density: float) -> FloatArray:
    """How much recordings of such log-densities count where one of `density` is at hand."""
    alike: FloatArray = np.exp(-0.5 * ((densities - density) / ALIKE) ** 2)
    return alike


def quantile(units: FloatArray, weights: FloatArray, *, own: float) -> float:
    """The error that `CONFIDENCE` of recordings keep to, one of weight `own` being worse than all.

    Infinite where that one alone outweighs the rest.
    """
    order = np.argsort(units)
    reached: FloatArray = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, CONFIDENCE * (reached[-1] + own)))
    return float(units[order[place]]) if place < len(units) else math.inf


def spread(expected: float, actions: float) -> float:
    """The unit of errors of a coverage: chance, and what is taken as given beside it."""
    chance = max(expected * (1 - expected), LEAST / 10)
    return math.sqrt(chance * (1 / max(actions, 1.0) + EXCESS))


def count_spread(actions: float) -> float:
    """The unit of errors of the logarithm of a number of actions."""
    return math.sqrt(1 / max(actions, 1.0) + COUNT_EXCESS)


def log_odds(share: float) -> float:
    """The logarithm of `share / (1 - share)`, kept finite."""
    kept = float(np.clip(share, LEAST, 1 - LEAST))
    return math.log(kept / (1 - kept))


def log_density(actions: float, duration: float) -> float:
    """The logarithm of action starts a second, kept finite."""
    return math.log(max(actions, 0.0) / max(duration, 1.0) + LEAST)


def as_range(share: float | None, told: ForecastRange | None) -> str:
    """A forecast of coverage and between what it is to lie.

    >>> as_range(0.5, ForecastRange(0.4, 0.5, 0.6, 0.8))
    '50.0 % (40–60 % in 80 % of recordings)'
    """
    sure = how_sure(share, told)
    return f"{as_share(share)} ({sure})" if sure else as_share(share)


def how_sure(share: float | None, told: ForecastRange | None) -> str:
    """Between what a forecast of coverage is to lie; empty where it is certain, or there is none.

    >>> how_sure(0.5, None)
    'how sure that is was not measured'
    """
    if share is None or math.isnan(share) or (told and told.low == told.high):
        return ""
    sure = _between(told, scale=100, unit=" %")
    return f"0–100 %: {sure}" if told and told.is_unlike else sure


def as_count(actions: float | None, told: ForecastRange | None) -> str:
    """A number of actions that is expected, and between what it is to lie; empty for none.

    >>> as_count(36.8, ForecastRange(20.1, 36.8, 66.4, 0.8))
    '37 actions expected (20–66 in 80 % of recordings)'
    >>> as_count(0.93, None)
    '0.93 actions expected (how sure that is was not measured)'
    """
    if actions is None:
        return ""
    shown = f"{actions:.0f}" if actions >= 10 else f"{actions:.2g}"
    return f"{shown} actions expected ({_between(told)})"


def _between(told: ForecastRange | None, *, scale: int = 1, unit: str = "") -> str:
    if told is None:
        return UNMEASURED
    if told.is_unlike:
        return UNLIKE
    between = f"{scale * told.low:.0f}–{scale * told.high:.0f}{unit}"
    return f"{between} in {100 * told.confidence:.0f} % of recordings"


def as_share(share: float | None) -> str:
    """A share in per cent; a dash where there is none.

    >>> as_share(0.25), as_share(float("nan"))
    ('25.0 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"
