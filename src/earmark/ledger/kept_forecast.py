"""What a run keeps of its forecasts: each as a range, and what they were corrected by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from earmark.gate.forecast_error import (
    CONFIDENCE,
    ActionRange,
    CoverageRange,
    ForecastError,
)
from earmark.ledger.records import Totals
from earmark.selection.coverage_forecast import as_measured

NOTE = "forecast error"
"""Where a run notes how far the forecasts of its present plan may be off."""

CHOOSE = """
INSERT OR REPLACE INTO choices (plan, recording, rule, notes,
    forecast, forecast_low, forecast_high, forecast_confidence) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

Foretold = tuple[float | None, float | None, float | None, float | None]
"""A forecast, between what it is to lie, and with what confidence."""


def forecast_values(forecast: CoverageRange | float | None) -> Foretold:
    """A forecast as it is kept: no range where nobody measured one.

    Nobody can say how sure a forecast is where too few recordings like this one have been met.
    """
    if not isinstance(forecast, CoverageRange):
        return forecast, None, None, None
    confidence = None if forecast.is_unlike else forecast.confidence
    return forecast.expected, forecast.low, forecast.high, confidence


def read_forecast(values: Sequence[Any]) -> CoverageRange | None:
    """The range of a forecast that was kept."""
    expected, low, high, confidence = values
    if low is None:
        return None
    is_unlike = confidence is None
    return CoverageRange(low, expected, high, confidence or CONFIDENCE, is_unlike=is_unlike)


def error_text(error: ForecastError | None) -> str:
    """How far forecasts may be off, as it is noted; empty where nobody measured it."""
    return json.dumps(asdict(error)) if error else ""


@lru_cache(maxsize=1)
def read_error(kept: str) -> ForecastError | None:
    """What was noted; None where nothing was."""
    return ForecastError.from_json(json.loads(kept)) if kept else None


def coverage_of(
    totals: Totals, error: ForecastError | None
) -> tuple[float | None, CoverageRange | None]:
    """The share of actions that the picks are to touch, and between what it is to lie."""
    if not totals.expected:
        return None, None
    share = totals.touched / totals.expected
    told = as_measured(share, error, actions=totals.expected, duration=totals.duration)
    return (told.expected if told else share), told


def actions_of(
    expected: float, duration: float, error: ForecastError | None
) -> tuple[float | None, ActionRange | None]:
    """The number of actions expected in so many seconds, and between what it is to lie.

    None where none are expected, and where nobody has measured how far such numbers are off.
    """
    if not expected:
        return None, None
    return expected, error.count(expected, duration) if error else None
