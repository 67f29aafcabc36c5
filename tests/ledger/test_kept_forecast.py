"""Forecasts come back as they were kept, and so does how far they may be off."""

from __future__ import annotations

import pytest

from earmark.gate.forecast_error import CONFIDENCE, CoverageRange, ForecastError, Miss
from earmark.ledger.kept_forecast import (
    coverage_of,
    error_text,
    forecast_values,
    read_error,
    read_forecast,
)
from earmark.ledger.records import Totals

TOLD = CoverageRange(0.25, 0.5, 0.75, 0.9)
UNLIKE = CoverageRange(0.0, 0.5, 1.0, CONFIDENCE, is_unlike=True)
ERROR = ForecastError(0.5, 0.9, 0.1, tuple(Miss(-3.0, 0.1 * n, 0.5) for n in range(60)))


@pytest.mark.parametrize("forecast", [TOLD, UNLIKE])
def test_a_range_comes_back_as_it_was(forecast: CoverageRange):
    assert read_forecast(forecast_values(forecast)) == forecast


@pytest.mark.parametrize("forecast", [0.5, None])
def test_where_nobody_measured_a_range_there_is_none(forecast: float | None):
    values = forecast_values(forecast)
    assert values == (forecast, None, None, None)
    assert read_forecast(values) is None


@pytest.mark.parametrize("error", [ERROR, None])
def test_an_error_comes_back_as_it_was(error: ForecastError | None):
    assert read_error(error_text(error)) == error


def test_the_coverage_of_a_run_is_what_its_picks_touch():
    totals = Totals(expected=8.0, touched=2.0, duration=100.0)
    assert coverage_of(totals, None) == (0.25, None)
    assert coverage_of(Totals(), ERROR) == (None, None)
    share, told = coverage_of(totals, ERROR)
    assert told == ERROR.range(0.25, actions=8.0, duration=100.0)
    assert share == told.expected != 0.25
