"""A forecast's range leans and widens as it was measured, and holds what it promises."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pytest

from earmark.gate.forecast_error import (
    ForecastError,
    ForecastRange,
    Miscount,
    Miss,
    as_count,
    as_range,
    log_density,
    log_odds,
    spread,
)


def misses(units: list[float], *, density: float = math.log(0.1)) -> tuple[Miss, ...]:
    """One recording a miss, about as busy as each other, all with a forecast of one half."""
    return tuple(Miss(density + 0.001 * n, 0.0, each) for n, each in enumerate(units))


def test_the_range_is_that_of_the_misses_and_the_recording_counts_as_one_more() -> None:
    error = ForecastError(misses=misses([n / 10 for n in range(1, 12)]))
    told = error.range(0.5, actions=100.0, duration=1000.0)
    # 80 % of twelve, the twelfth being the recording at hand.
    assert told.high - told.expected == pytest.approx(1.0 * spread(0.5, 100.0), rel=1e-6)
    assert not told.is_unlike
    few = ForecastError(misses=misses([0.1, 0.2, 0.3]))
    most = few.range(0.5, actions=100.0, duration=1000.0)
    assert (most.low, most.high, most.is_unlike) == (0.0, 1.0, True)


def test_a_recording_unlike_any_says_so() -> None:
    error = ForecastError(misses=misses([1.0] * 20))
    assert not error.range(0.5, actions=100.0, duration=1000.0).is_unlike
    for actions in (0.5, 20_000.0):
        told = error.range(0.5, actions=actions, duration=1000.0)
        assert told.is_unlike and (told.low, told.high) == (0.0, 1.0)
    assert ForecastError().range(0.5, actions=100.0, duration=1000.0).is_unlike


def test_recordings_that_are_alike_count_most() -> None:
    calm, busy = math.log(0.01), math.log(0.3)
    error = ForecastError(
        misses=misses([6.0] * 10, density=calm) + misses([1.0] * 40, density=busy)
    )
    widths = [
        (told := error.range(0.5, actions=actions, duration=1000.0)).high - told.low
        for actions in (9.0, 299.0)
    ]
    assert widths[0] > 3 * widths[1]


def test_the_range_holds_as_many_new_recordings_as_it_says() -> None:
    """Rates that are wrong by a factor of their own for each recording, calm ones by more."""
    rng = np.random.default_rng(0)

    def draw() -> tuple[float, float, float]:
        actions = float(np.exp(rng.uniform(math.log(10), math.log(300))))
        forecast = rng.uniform(0.2, 0.8)
        odds = log_odds(forecast) + rng.normal() * 20 / (actions + 20)
        actual = rng.binomial(round(actions), 1 / (1 + math.exp(-odds))) / round(actions)
        return actions, forecast, actual

    met = [draw() for _ in range(120)]
    error = ForecastError(
        misses=tuple(
            Miss(log_density(n, 1000.0), log_odds(told), abs(got - told) / spread(told, n))
            for n, told, got in met
        )
    )
    for calm in (True, False):
        new = [each for each in (draw() for _ in range(3000)) if (each[0] < 55) == calm]
        held = [
            (span := error.range(told, actions=n, duration=1000.0)).low <= got <= span.high
            for n, told, got in new
        ]
        assert 0.72 < np.mean(held) < 0.92


def test_it_leans_as_it_was_told_and_back_again() -> None:
    error = ForecastError(intercept=-1.0, slope=1.2, density=-0.5, misses=misses([1.0] * 9))
    calm = error.range(0.4, actions=5.0, duration=1000.0)
    busy = error.range(0.4, actions=250.0, duration=1000.0)
    assert calm.expected > busy.expected
    assert error.forecast_for(calm.expected, actions=5.0, duration=1000.0) == pytest.approx(0.4)
    assert error.forecast_for(1.0, actions=5.0, duration=1000.0) == 1.0
    for forecast in (0.0, 0.001, 0.999, 1.0):
        told = error.range(forecast, actions=0.0, duration=0.0)
        assert 0 <= told.low <= told.expected <= told.high <= 1


def test_every_window_or_none_is_no_forecast() -> None:
    for error in (ForecastError(), ForecastError(intercept=1.0, misses=misses([1.0] * 9))):
        for certain in (0.0, 1.0):
            told = error.range(certain, actions=100.0, duration=1000.0)
            assert (told.low, told.expected, told.high) == (certain, certain, certain)


def test_a_forecast_is_told_with_its_range_and_confidence() -> None:
    told = ForecastRange(0.312, 0.5, 0.688, 0.8)
    assert as_range(0.5, told) == "50.0 % (31–69 % in 80 % of recordings)"


def test_what_is_not_known_is_said() -> None:
    unlike = ForecastRange(0.0, 0.5, 1.0, 0.8, is_unlike=True)
    assert as_range(0.5, unlike) == "50.0 % (0–100 %: too few recordings like this were measured)"
    assert as_range(0.5, None) == "50.0 % (its uncertainty was not measured)"
    assert as_range(1.0, ForecastRange(1.0, 1.0, 1.0, 0.8)) == "100.0 %"
    little = ForecastRange(0.0016, 0.003, 0.0042, 0.8)
    assert as_range(0.003, little) == "0.3 % (0.2–0.4 % in 80 % of recordings)"
    assert as_range(None, None) == as_range(math.nan, None) == "–"


def test_a_number_of_actions_has_a_range_that_holds_in_calm_and_busy_recordings() -> None:
    """Numbers wrong by a factor of their own for each recording, calm ones by more."""
    rng = np.random.default_rng(1)

    def draw() -> tuple[float, int]:
        expected = float(np.exp(rng.uniform(math.log(5), math.log(400))))
        factor = math.exp(rng.normal() * (0.9 if expected < 50 else 0.4))
        return expected, int(rng.poisson(expected * factor))

    met = tuple(Miscount.of(*draw(), 1000.0) for _ in range(120))
    error = ForecastError(miscounts=met)
    assert ForecastError.from_json(asdict(error)) == error
    for is_calm in (True, False):
        new = [each for each in (draw() for _ in range(3000)) if (each[0] < 50) == is_calm]
        told = [(error.count(expected, 1000.0), counted) for expected, counted in new]
        assert 0.72 < np.mean([each.low <= counted <= each.high for each, counted in told]) < 0.9
    wide, narrow = (error.count(expected, 1000.0) for expected in (10.0, 200.0))
    assert wide.high / wide.expected > 1.5 * narrow.high / narrow.expected


def test_a_number_that_nobody_measured_has_no_range_and_an_unlike_one_says_so() -> None:
    assert ForecastError(misses=misses([1.0] * 9)).count(30.0, 1000.0) is None
    old = {"intercept": 0.0, "slope": 1.0, "density": 0.0, "misses": []}
    assert ForecastError.from_json(old).count(30.0, 1000.0) is None
    error = ForecastError(miscounts=tuple(Miscount.of(100.0, 100 + n, 1000.0) for n in range(20)))
    assert not error.count(100.0, 1000.0).is_unlike
    unlike = error.count(0.5, 1000.0)
    assert (unlike.is_unlike, unlike.low, unlike.high) == (True, 0.0, 1000.0)
    assert (
        as_count(0.5, unlike) == "0.5 actions expected (too few recordings like this were measured)"
    )
    assert as_count(None, None) == ""


def test_a_number_of_actions_is_told_with_its_range_and_confidence() -> None:
    told = ForecastRange(20.1, 36.8, 66.4, 0.8)
    assert as_count(36.8, told) == "37 actions expected (20–66 in 80 % of recordings)"
