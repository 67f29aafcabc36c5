"""Coverage foretold, and the calls it takes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import windows
from earmark import Budget
from earmark.grid import Windows
from earmark.selection.price_search import calls_for, coverage_of_budgets
from reckoning import CURVES, best_together, forecast, rated, recordings, solved, worth


def test_a_forecast_is_the_share_of_expected_actions() -> None:
    recording = windows("4.6", survival=CURVES["brief"])
    assert forecast(recording, [2]) == pytest.approx(0.6)
    assert forecast(recording, [2, 0]) == pytest.approx(1.0)
    assert forecast(recording, []) == 0.0


def test_there_is_no_forecast_where_nothing_is_expected() -> None:
    silent = windows("....")
    assert math.isnan(forecast(silent, [1]))
    assert math.isnan(coverage_of_budgets([silent], [2])[0])
    with pytest.raises(ValueError, match="no action is expected"):
        calls_for([silent], 0.5)


@given(st.lists(recordings(longest=5), min_size=1, max_size=3))
def test_the_ladder_is_just_below_the_best(many: list[Windows]) -> None:
    best, actions = best_together(many), sum(float(one.rates.sum()) for one in many)
    for value, expected in zip(
        best, coverage_of_budgets(many, list(range(len(best)))), strict=True
    ):
        if actions:
            assert value / actions - 1.01e-4 <= expected <= value / actions + 1e-9


@given(st.lists(recordings(longest=5), min_size=1, max_size=3), st.floats(0.01, 1.0))
def test_calls_for_is_the_smallest_number_that_reaches(
    many: list[Windows], coverage: float
) -> None:
    best, actions = best_together(many), sum(float(one.rates.sum()) for one in many)
    if actions == 0:
        return
    calls = calls_for(many, coverage)
    assert best[calls] >= coverage * actions - 1e-8
    assert calls == 0 or best[calls - 1] < coverage * actions


def test_the_ladder_is_what_spending_the_budget_is_expected_to_reach() -> None:
    rng = np.random.default_rng(11)
    many = [rated(rng.gamma(1.0, 1.0, count)) for count in (40, 90, 7, 300)]
    actions = sum(float(one.rates.sum()) for one in many)
    budgets = [10, 44, 109, 218, 400, 437, 900]
    for budget, expected in zip(budgets, coverage_of_budgets(many, budgets), strict=True):
        shared = solved(many, Budget(count=budget))
        found = sum(
            worth(one, [pick.window for pick in picks])
            for one, picks in zip(many, shared, strict=True)
        )
        assert expected == pytest.approx(found / actions, abs=1e-4)


def test_ladder_and_calls_for_are_each_others_inverse() -> None:
    rng = np.random.default_rng(12)
    many = [rated(rng.gamma(1.0, 1.0, count)) for count in (60, 200)]
    calls = calls_for(many, 0.9)
    below, reached = coverage_of_budgets(many, [calls - 1, calls], tolerance=1e-12)
    assert below < 0.9 <= reached + 1e-9


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.01, float("nan")])
def test_a_coverage_is_a_share(coverage: float) -> None:
    with pytest.raises(ValueError, match="above 0 and up to 1"):
        calls_for([windows("12")], coverage)


def test_a_ladder_has_no_negative_rung() -> None:
    with pytest.raises(ValueError, match="not -1"):
        coverage_of_budgets([windows("12")], [1, -1])
