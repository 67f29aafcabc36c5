"""Rules that do not look at the scores: full, uniform, strata, random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import picked, windows
from earmark.selection.rules.ranking import RandomSpans
from earmark.selection.rules.spacing import Full, Strata, Uniform, middles


def test_full_takes_every_window() -> None:
    assert picked(Full(), "12345678", budget=8) == "^^^^^^^^"
    assert picked(Full(), "12345678", budget=3) == "^^^....."


def test_uniform_runs_from_the_first_window_to_the_last() -> None:
    assert picked(Uniform(), "..........", budget=4) == "^..^..^..^"
    assert picked(Uniform(), "..........", budget=2) == "^........^"


def test_uniform_with_one_call_takes_the_middle() -> None:
    assert picked(Uniform(), "...........", budget=1) == ".....^....."


def test_strata_takes_the_middle_of_equal_slices() -> None:
    assert picked(Strata(), "............", budget=3) == "..^...^...^."
    assert picked(Strata(), "...........", budget=1) == ".....^....."


@given(st.integers(1, 300), st.data())
def test_strata_is_the_formula_and_never_repeats(count: int, data: st.DataObject) -> None:
    calls = data.draw(st.integers(1, count))
    chosen = middles(count, calls).tolist()
    assert chosen == [int((i + 0.5) * count / calls + 1e-9) for i in range(calls)]
    assert len(set(chosen)) == calls


def test_blind_rules_do_not_look() -> None:
    for rule in (Full(), Uniform(), Strata()):
        assert picked(rule, "987654321.", budget=4) == picked(rule, ".123456789", budget=4)


def test_random_places_the_stretches_that_ranking_would_pick() -> None:
    #           ranking takes  ^^^      ^     ^^
    drawing = "....987......6....54............"
    found = picked(RandomSpans(seed=3), drawing, budget=6)
    assert sorted(len(run) for run in found.split(".") if run) == [1, 2, 3]


def test_random_is_the_same_for_the_same_seed_only() -> None:
    drawing = "....987......6....54............"
    found = {picked(RandomSpans(seed=seed), drawing, budget=6) for seed in range(20)}
    assert len(found) > 15
    assert picked(RandomSpans(seed=3), drawing, budget=6) in found


def test_random_reaches_every_window_equally() -> None:
    drawing = windows("9" + "." * 9)
    counts = np.zeros(10)
    for seed in range(2000):
        counts[[pick.window for pick in RandomSpans(seed)(drawing, budget=1)]] += 1
    assert counts.min() > 150  # 200 expected, standard deviation 13
    assert counts.max() < 250


@pytest.mark.parametrize("budget", [1, 4, 7, 9])
def test_random_has_single_windows_where_all_scores_are_equal(budget: int) -> None:
    found = picked(RandomSpans(), "." * 9, budget=budget)
    assert found.count("^") == budget
    if budget <= 5:
        assert "^^" not in found


def test_reasons_say_the_place() -> None:
    assert Strata()(windows("...."), budget=2)[1].reason == "middle of slice 2 of 2"
    assert Uniform()(windows("...."), budget=2)[0].reason == "1 of 2 even steps"
