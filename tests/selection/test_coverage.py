"""Expected coverage is maximised exactly: against every set of picks, and every other rule."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import picked, windows
from earmark import Budget, Pick
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import RULES, Coverage
from earmark.selection.pick import gains
from earmark.selection.price_search import spend
from earmark.selection.rules.coverage import even, in_words
from earmark.selection.solver import Line
from reckoning import CURVES, best_of_all, best_together, rated, recordings, solved, worth


def chosen(picks: list[Pick]) -> list[int]:
    return [pick.window for pick in picks]


def every_value(rates: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """The worth of every set of picks, shape (recordings, sets); sets are binary numbers."""
    count = rates.shape[1]
    chance = np.zeros((2**count, count))
    for number, window in itertools.product(range(2**count), range(count)):
        ahead = [pick - window for pick in range(window, count) if number >> pick & 1]
        if ahead and ahead[0] < len(reach):
            chance[number, window] = reach[ahead[0]]
    return rates @ chance.T


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
@pytest.mark.parametrize("count", range(1, 8))
def test_no_set_of_picks_beats_it_in_any_small_recording(curve: Survival, count: int) -> None:
    reach = curve.reach(4.0)
    rates = np.array(list(itertools.product((0.0, 1.0, 3.0), repeat=count)))
    values = every_value(rates, reach)
    sizes = np.array([number.bit_count() for number in range(2**count)])
    lines = [Line(row, reach) for row in rates]
    for calls in range(count + 1):
        best = values[:, sizes == calls].max(axis=1)
        paths = spend(lines, np.arange(len(lines)), np.full(len(lines), calls))
        numbers = [sum(1 << window for window in path.tolist()) for path in paths]
        assert [number.bit_count() for number in numbers] == [calls] * len(lines)
        np.testing.assert_allclose(values[np.arange(len(lines)), numbers], best, atol=1e-9)


@given(recordings(longest=9))
def test_no_set_of_picks_beats_it_in_a_random_recording(recording: Windows) -> None:
    best = best_of_all(recording)
    for calls, value in enumerate(best):
        picks = Coverage()(recording, budget=calls)
        assert len(picks) == calls
        assert worth(recording, chosen(picks)) == pytest.approx(value, abs=1e-9)


@given(recordings(longest=40), st.data())
def test_no_other_rule_beats_it(recording: Windows, data: st.DataObject) -> None:
    budget = data.draw(st.integers(0, len(recording)))
    best = worth(recording, chosen(Coverage()(recording, budget=budget)))
    for rule in RULES.values():
        assert worth(recording, chosen(rule()(recording, budget=budget))) <= best + 1e-9


@given(recordings(longest=25), st.integers(0, 25))
def test_greedy_does_not_beat_it(recording: Windows, budget: int) -> None:
    taken: list[int] = []
    for _ in range(min(budget, len(recording))):
        left = [place for place in range(len(recording)) if place not in taken]
        taken.append(max(left, key=lambda place: worth(recording, [*taken, place])))
    best = worth(recording, chosen(Coverage()(recording, budget=budget)))
    assert worth(recording, taken) <= best + 1e-9


@given(st.lists(recordings(longest=5), min_size=1, max_size=3))
def test_one_budget_is_shared_as_well_as_can_be(many: list[Windows]) -> None:
    for budget, value in enumerate(best_together(many)[1:], start=1):
        shared = solved(many, Budget(count=budget))
        assert sum(map(len, shared)) == budget
        found = sum(worth(one, chosen(picks)) for one, picks in zip(many, shared, strict=True))
        assert found == pytest.approx(value, abs=1e-9)


@given(st.lists(recordings(longest=5), min_size=1, max_size=4), st.floats(0.01, 4.0))
def test_at_a_price_no_call_more_or_less_pays(many: list[Windows], price: float) -> None:
    for recording, picks in zip(many, solved(many, Budget(price=price)), strict=True):
        net = [value - price * calls for calls, value in enumerate(best_of_all(recording))]
        found = worth(recording, chosen(picks)) - price * len(picks)
        assert found == pytest.approx(max(net), abs=1e-9)


@given(st.lists(recordings(longest=12), max_size=6), st.data())
def test_a_batch_gives_what_single_recordings_give(
    many: list[Windows], data: st.DataObject
) -> None:
    budgets = [data.draw(st.integers(0, len(recording) + 2)) for recording in many]
    together = Coverage().each(many, budgets=budgets)
    for recording, budget, picks in zip(many, budgets, together, strict=True):
        alone = Coverage()(recording, budget=budget)
        assert len(picks) == len(alone)
        assert worth(recording, chosen(picks)) == pytest.approx(
            worth(recording, chosen(alone)), abs=1e-9
        )


def test_expected_new_actions_add_up_to_the_worth() -> None:
    recording = rated(np.random.default_rng(5).gamma(2.0, 0.5, 60))
    picks = Coverage()(recording, budget=15)
    assert sum(pick.expected for pick in picks) == pytest.approx(
        worth(recording, chosen(picks)), abs=1e-9
    )


@given(recordings(longest=20), st.data())
def test_gains_are_the_slow_sum_split_by_pick(recording: Windows, data: st.DataObject) -> None:
    places = st.lists(st.integers(0, max(0, len(recording) - 1)), unique=True)
    ordered = sorted(data.draw(places)) if len(recording) else []
    found = gains(recording, np.array(ordered, dtype=np.intp))
    for count in range(len(ordered) + 1):
        assert sum(found[:count]) == pytest.approx(worth(recording, ordered[:count]), abs=1e-9)


def test_a_call_goes_where_a_long_action_still_lasts() -> None:
    # Actions of about 15 s: one call at the last start still finds what started before.
    assert chosen(Coverage()(windows("8.6.6...", survival=CURVES["lasting"]), budget=1)) == [4]
    # Actions that end at once: only the window they start in will do.
    assert chosen(Coverage()(windows("8.6.6...", survival=CURVES["brief"]), budget=1)) == [0]


def test_even_rates_are_spaced_evenly() -> None:
    assert picked(Coverage(), "5555555555", budget=3) == "..^..^...^"
    assert picked(Coverage(), "..........", budget=5) == ".^.^.^.^.^"


@given(st.integers(1, 12), st.sampled_from(list(CURVES.values())), st.data())
def test_even_spacing_is_best_for_even_rates(
    count: int, curve: Survival, data: st.DataObject
) -> None:
    calls = data.draw(st.integers(0, count))
    recording = rated([0.7] * count, curve)
    laid = even(count, calls).tolist()
    assert len(laid) == calls
    (path,) = spend([Line(recording.rates, curve.reach(4.0))], np.array([0]), np.array([calls]))
    assert worth(recording, laid) == pytest.approx(worth(recording, path.tolist()), abs=1e-9)


def test_a_busy_recording_gets_more_of_a_shared_budget() -> None:
    quiet, busy = windows("1.1.1.2.1."), windows("9797879789")
    first, second = solved([quiet, busy], Budget(count=6))
    assert len(first) == 0
    assert len(second) == 6


def test_equal_recordings_share_equally() -> None:
    counts = [len(picks) for picks in solved([windows("5" * 20)] * 4, Budget(count=30))]
    assert sum(counts) == 30
    assert max(counts) - min(counts) <= 1


def test_recordings_with_other_windows_and_curves_share_one_budget() -> None:
    short = Windows(2.0, 8.0, *[np.array([1.0, 2.0, 1.0, 0.5])] * 3, CURVES["steps"])
    many = [short, rated([1.0, 0.2, 3.0], CURVES["lasting"]), rated([]), rated([2.0])]
    for budget, value in enumerate(best_together(many)[1:], start=1):
        shared = solved(many, Budget(count=budget))
        found = sum(worth(one, chosen(picks)) for one, picks in zip(many, shared, strict=True))
        assert found == pytest.approx(value, abs=1e-9)


def test_nothing_to_choose_from() -> None:
    assert solved([], Budget(count=3)) == []
    assert Coverage().each([], budgets=[]) == []
    assert solved([], Budget(price=0.5)) == []


def test_reasons_say_what_is_expected() -> None:
    (pick,) = Coverage()(windows("9", survival=CURVES["brief"]), budget=1)
    assert pick.reason == "0.9 new actions expected"
    (pick,) = Coverage()(windows("."), budget=1)
    assert pick.reason == "no new action expected"
    assert [in_words(one) for one in (0.01, 0.0099)] == [
        "0.01 new actions expected",
        "no new action expected",
    ]


def test_wrong_budgets_are_refused() -> None:
    with pytest.raises(ValueError, match="2 recordings need as many budgets, not 1"):
        Coverage().each([windows("12")] * 2, budgets=[1])
    with pytest.raises(ValueError, match="0 calls or more, not -2"):
        Coverage()(windows("12"), budget=-2)
