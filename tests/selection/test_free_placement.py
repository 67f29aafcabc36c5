"""Windows that begin at any step: the same exact search, held to trying every set of places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.gate.rates import RankRates
from earmark.grid import Grid, Windows
from earmark.selection import Budget, Coverage, allocate
from earmark.selection.omissions import best_left_out
from earmark.selection.pick import explain
from earmark.selection.price_search import spend
from earmark.selection.rules.coverage import lines
from earmark.selection.rules.strata import Strata
from earmark.timeline import Track
from reckoning import CURVES, forecast

PER_CALL = 4


def stepped(rates: list[float], survival: str = "usual", *, per_call: int = PER_CALL) -> Windows:
    """Windows of 2 s that may begin at any half second."""
    values = np.array(rates, dtype=float)
    middles = (np.arange(len(values)) + 0.5) * 0.5
    times = (per_call * 0.5, len(values) * 0.5)
    return Windows(*times, values, middles, values, CURVES[survival], per_call=per_call)


def worth_of(windows: Windows, places: Sequence[int]) -> float:
    """Expected actions touched by the middles of windows that end at `places`, by definition."""
    aim, inside = windows.reach[2:], windows.per_call - 2
    assert aim[:inside].tolist() == [1.0] * inside
    total = 0.0
    for step, rate in enumerate(windows.rates.tolist()):
        ahead = [place - step for place in places if step <= place < step + len(aim)]
        total += rate * max((float(aim[steps]) for steps in ahead), default=0.0)
    return total


RATE = st.one_of(st.sampled_from([0.01, 1.0, 3.0]), st.floats(0.01, 5.0))


@given(
    st.lists(RATE, min_size=PER_CALL, max_size=14),
    st.sampled_from(sorted(CURVES)),
    st.integers(1, 3),
)
def test_no_other_places_are_worth_more(rates: list[float], survival: str, budget: int) -> None:
    windows = stepped(rates, survival)
    calls = min(budget, windows.calls)
    (path,) = spend(lines([windows]), np.array([0]), np.array([calls]))
    sets = itertools.combinations(range(len(windows)), calls)
    best = max(worth_of(windows, places) for places in sets)
    assert worth_of(windows, path.tolist()) == pytest.approx(best)
    picks = Coverage()(windows, budget=budget)
    assert len({pick.start for pick in picks}) == len(picks) == calls
    told = sum(pick.expected for pick in picks)
    assert calls == windows.calls or told >= best - 1e-9
    places = [min(windows.window_at(pick.start), len(windows) - 1) for pick in picks]
    assert forecast(windows, places) == pytest.approx(told / windows.rates.sum())


def test_a_burst_over_an_edge_of_the_grid_takes_one_call() -> None:
    burst = [0.01] * 6 + [1.0] * 4 + [0.01] * 6  # from 3 to 5 s, over the edge at 4 s
    (pick,) = Coverage()(stepped(burst, "brief"), budget=1)
    assert pick.window is None
    assert pick.start in (3.0, 3.5)
    assert pick.rate > 3.0
    assert 3.0 <= pick.instant < 5.0


def test_all_of_the_calls_see_all_of_the_recording() -> None:
    windows = stepped([1.0, 2.0, 0.5] * 7)  # 10.5 s: six windows of 2 s
    picks = Coverage()(windows, budget=99)
    assert len(picks) == windows.calls == 6
    seen = sorted(pick.span for pick in picks)
    assert seen[0].start == 0.0
    assert seen[-1].end == 10.5
    assert all(after.start <= before.end for before, after in itertools.pairwise(seen))


def test_what_is_paid_comes_first_and_nothing_is_bought_twice() -> None:
    windows = stepped(np.random.default_rng(3).gamma(1.0, 0.5, 60).tolist())
    few = Coverage()(windows, budget=3)
    paid = tuple(windows.window_at(pick.start) for pick in few)
    more = Coverage()(replace(windows, owned=paid), budget=8)
    assert {pick.span for pick in few} <= {pick.span for pick in more}
    assert len({pick.span for pick in more}) == 8
    every = Coverage()(replace(windows, owned=paid), budget=windows.calls)
    assert {pick.span for pick in few} <= {pick.span for pick in every}
    assert len({pick.span for pick in every}) == windows.calls


def test_a_price_and_a_shared_budget() -> None:
    quiet, busy = stepped([0.02] * 40), stepped([0.02] * 10 + [2.0] * 20 + [0.02] * 10)
    shared = [choice.picks for choice in allocate(Coverage(), [quiet, busy], Budget(count=5),
                                                  across=True)]  # fmt: skip
    assert [len(picks) for picks in shared] == [0, 5]
    (bought,) = allocate(Coverage(), [busy], Budget(price=1.0))
    assert {4.5 <= pick.start <= 14.5 for pick in bought.picks} == {True}
    assert all(pick.expected > 1.0 for pick in bought.picks)


def test_where_nothing_speaks_windows_are_spaced_evenly() -> None:
    (choice,) = allocate(Coverage(), [stepped([0.3] * 40)], Budget(count=2))
    assert choice.rule_used == "strata"
    assert [pick.span.middle for pick in choice.picks] == pytest.approx([5.0, 15.0], abs=0.6)
    ((start, end),) = [(p.start, p.end) for p in Strata()(stepped([1.0, 2.0]), budget=1)]
    assert (start, end) == (0.0, 1.0)


def test_the_best_of_what_was_left_out() -> None:
    windows = stepped([0.01] * 8 + [1.0] * 4 + [0.01] * 8 + [0.5] * 4 + [0.01] * 8, "brief")
    picks = Coverage()(windows, budget=1)
    (other,) = best_left_out(windows, picks, 1)
    assert (other.start, other.end, other.window) == (10.0, 12.0, None)


def test_a_pick_tells_the_best_step_and_the_rates_of_all_its_steps() -> None:
    """Windows of two steps of half a second, each known by its last; the first is cut short."""
    steps = stepped([1.0, 2.0, 4.0, 3.0, 0.5, 0.5], "brief", per_call=2)
    first, best, flat = explain(steps, [0, 3, 5], lambda place, gain: f"{place} {gain:g}")
    assert [pick.window for pick in (first, best, flat)] == [None] * 3
    assert (best.start, best.end, best.reason) == (1.0, 2.0, "3 8")
    assert (best.score, best.instant, best.rate) == (4.0, 1.25, 7.0)
    assert (flat.score, flat.instant, flat.rate) == (0.5, 2.5, 1.0)
    assert (first.start, first.rate) == (0.0, 3.0)


def test_a_window_past_the_end_is_left_out_of_nothing() -> None:
    windows = stepped([0.1] * 5 + [1.0])
    (pick,) = Coverage()(replace(windows, owned=(5,)), budget=1)
    moved = replace(pick, start=2.0)
    assert [other.start for other in best_left_out(windows, [moved])] == [0.0]


def test_rates_of_steps_add_up() -> None:
    scores = Track(np.random.default_rng(5).random(25 * 41))
    rates, survival = RankRates(), CURVES["usual"]
    free = Grid(4.0, "free").score(scores, 41.0, rates=rates, survival=survival)
    assert (len(free), free.per_call, free.step, free.calls) == (82, 8, 0.5, 11)
    assert free.rates.sum() == pytest.approx(rates.starts_per_second * 41.0, rel=0.03)
    flat = Grid(4.0, "free").score(Track(np.zeros(1025)), 41.0, rates=rates, survival=survival)
    np.testing.assert_allclose(flat.rates, rates.starts_per_second * 0.5)
    assert Grid(0.5, "free").score(scores, 41.0, rates=rates, survival=survival).per_call == 1
    with pytest.raises(ValueError, match="on the grid or free"):
        Grid(4.0, "loose")  # type: ignore[arg-type]


def test_the_key_of_the_grid_is_as_it_was() -> None:
    assert repr(Grid(4.0)) == "Grid(length=4.0)"
