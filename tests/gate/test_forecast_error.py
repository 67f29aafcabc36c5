"""A forecast's range leans and widens as it was fitted to, and is honest by itself."""

from __future__ import annotations

import pytest

from earmark.gate.forecast_error import ForecastError


def test_without_a_fit_the_range_is_that_of_chance() -> None:
    told = ForecastError().range(0.5, actions=100.0, duration=1000.0)
    assert told.expected == pytest.approx(0.5)
    assert told.high - told.low == pytest.approx(2 * 1.2816 * 0.05, rel=1e-3)


def test_it_widens_with_scatter_with_confidence_and_where_little_goes_on() -> None:
    def width(error: ForecastError, actions: float = 100.0, confidence: float = 0.8) -> float:
        told = error.range(0.5, actions=actions, duration=1000.0, confidence=confidence)
        return told.high - told.low

    scattered = ForecastError(scatter=0.05)
    assert width(scattered) > width(ForecastError())
    assert width(scattered, confidence=0.95) > width(scattered)
    calm = ForecastError(scatter=0.05, power=0.5)
    assert width(calm, 30.0) / width(calm, 300.0) > width(scattered, 30.0) / width(scattered, 300.0)


def test_it_leans_as_it_was_told_and_stays_a_share() -> None:
    error = ForecastError(intercept=-1.0, slope=1.0, density=-0.5, scatter=0.5)
    calm = error.range(0.4, actions=5.0, duration=1000.0)
    busy = error.range(0.4, actions=250.0, duration=1000.0)
    assert calm.expected > busy.expected
    for forecast in (0.0, 0.001, 0.999, 1.0):
        told = error.range(forecast, actions=0.0, duration=0.0)
        assert 0 <= told.low <= told.expected <= told.high <= 1


def test_a_confidence_is_a_share() -> None:
    with pytest.raises(ValueError, match="between 0 % and 100 %, not 100%"):
        ForecastError().range(0.5, actions=1.0, duration=1.0, confidence=1.0)
