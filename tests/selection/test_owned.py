"""Windows that are paid already are kept, and the rest of the budget is best beside them."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import Budget
from earmark.selection import Coverage, allocate
from earmark.selection.price_search import coverage_of_budgets
from reckoning import CURVES, rated, solved, worth


@given(
    rates=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1, max_size=8),
    curve=st.sampled_from(sorted(CURVES)),
    data=st.data(),
)
def test_the_rest_is_best_beside_them(rates, curve, data):
    windows = rated(rates, CURVES[curve])
    places = range(len(rates))
    owned = tuple(sorted(data.draw(st.sets(st.sampled_from(places)))))
    budget = data.draw(st.integers(len(owned), len(rates)))
    picks = Coverage()(replace(windows, owned=owned), budget=budget)
    chosen = {pick.window for pick in picks}
    assert chosen >= set(owned)
    assert len(chosen) == budget
    best = max(
        worth(windows, {*owned, *others})
        for others in itertools.combinations(sorted(set(places) - set(owned)), budget - len(owned))
    )
    assert worth(windows, chosen) == pytest.approx(best, abs=1e-9)


@given(rates=st.lists(st.floats(0, 3), min_size=2, max_size=40), data=st.data())
def test_a_larger_budget_keeps_what_was_bought(rates, data):
    windows = rated(rates)
    few = data.draw(st.integers(0, len(rates) - 1))
    first = tuple(pick.window for pick in Coverage()(windows, budget=few))
    more = Coverage()(replace(windows, owned=first), budget=few + 1)
    assert len(more) == few + 1
    assert {pick.window for pick in more} >= set(first)


def test_with_fewer_calls_than_are_owned_only_owned_ones_are_taken():
    windows = replace(rated([1, 5, 1, 1, 5, 1]), owned=(0, 2, 3))
    chosen = [pick.window for pick in Coverage()(windows, budget=2)]
    assert set(chosen) < {0, 2, 3}
    assert len(chosen) == 2


def test_across_recordings_what_is_owned_is_kept():
    many = [replace(rated([9, 9, 9, 9]), owned=(3,)), replace(rated([1, 1, 1, 1]), owned=(0,))]
    found = solved(many, Budget(count=4))
    assert 3 in [pick.window for pick in found[0]]
    assert 0 in [pick.window for pick in found[1]]
    assert sum(map(len, found)) == 4


def test_recordings_with_and_without_owned_windows_are_solved_together():
    many = [replace(rated([1, 1, 1, 1]), owned=(2,)), rated([3, 1, 9, 1])]
    first, second = solved(many, Budget(count=2))
    assert ([pick.window for pick in first], [pick.window for pick in second]) == ([2], [2])


def test_a_flat_recording_keeps_them_too():
    windows = replace(rated([1.0] * 9), owned=(0, 1))
    (choice,) = allocate(Coverage(), [windows], Budget(count=4))
    assert {0, 1} <= {pick.window for pick in choice.picks}


def test_a_forecast_is_not_moved_by_what_is_owned():
    windows = rated([1, 2, 0, 3, 1])
    owned = replace(windows, owned=(2,))
    assert coverage_of_budgets([owned], [1, 2, 5]) == pytest.approx(
        coverage_of_budgets([windows], [1, 2, 5])
    )
