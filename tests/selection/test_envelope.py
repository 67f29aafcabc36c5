"""Calls shared by a rule that knows one recording at a time, held to the slow and obvious way."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import windows
from earmark import Budget, Pick
from earmark.grid import Windows
from earmark.selection import Coverage, Rule, allocate, rule_named
from earmark.selection.allocation import PROBES, ROUNDS, Curve
from earmark.selection.pick import explain
from earmark.selection.rules.ranking import MinimumSeparation, Rank
from reckoning import rated, recordings, worth


@dataclass(frozen=True, slots=True)
class Alone:
    """A rule that can do nothing but choose in one recording."""

    rule: Rule

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        return self.rule(windows, budget=budget)


def curve_of(rule: Rule, recording: Windows) -> list[float]:
    """What the picks of each number of calls are worth, all of them tried."""
    return [
        worth(recording, [pick.window for pick in rule(recording, budget=calls)])
        for calls in range(len(recording) + 1)
    ]


def edge_of(curve: list[float]) -> list[float]:
    """The least concave curve that is nowhere below `curve`, by trying every pair of points."""
    edge = list(curve)
    for left, right in itertools.combinations(range(len(curve)), 2):
        for calls in range(left, right + 1):
            share = (calls - left) / (right - left)
            edge[calls] = max(edge[calls], curve[left] * (1 - share) + curve[right] * share)
    return edge


def counts(rule: Rule, many: list[Windows], budget: Budget, *, across: bool = True) -> list[int]:
    return [len(choice.picks) for choice in allocate(rule, many, budget, across=across)]


@given(recordings(longest=14), st.sampled_from(["rank", "aks", "bolt", "facility", "uniform"]))
def test_the_steps_are_the_upper_edge_of_all_budgets(recording: Windows, name: str) -> None:
    rule, curve = rule_named(name), Curve(len(recording))
    curve.probe(rule, recording, near=0)
    width, slope = curve.steps()
    assert np.all(np.diff(slope) < 0)
    drawn = np.concatenate([[0.0], np.cumsum(np.repeat(slope, width))])
    np.testing.assert_allclose(drawn, edge_of(curve_of(rule, recording)), atol=1e-9)


@given(st.lists(recordings(longest=12), min_size=1, max_size=4), st.floats(0.05, 3.0))
def test_at_a_price_the_most_is_left_over(many: list[Windows], price: float) -> None:
    many = [one for one in many if one.has_evidence]
    for calls, one in zip(counts(Rank(), many, Budget(price=price)), many, strict=True):
        left = [value - price * used for used, value in enumerate(curve_of(Rank(), one))]
        assert left[calls] == pytest.approx(max(left), abs=1e-9)


@given(st.lists(recordings(longest=6), min_size=1, max_size=3), st.data())
def test_a_budget_on_the_edges_is_shared_as_well_as_can_be(
    many: list[Windows], data: st.DataObject
) -> None:
    many = [one for one in many if one.has_evidence]
    total = sum(map(len, many))
    if total == 0:
        return
    budget = data.draw(st.integers(1, total))
    edges = [edge_of(curve_of(Rank(), one)) for one in many]
    best = max(
        sum(edge[calls] for edge, calls in zip(edges, shares, strict=True))
        for shares in itertools.product(*(range(len(one) + 1) for one in many))
        if sum(shares) == budget
    )
    calls = counts(Rank(), many, Budget(count=budget))
    assert sum(calls) == budget
    found = sum(edge[used] for edge, used in zip(edges, calls, strict=True))
    assert found == pytest.approx(best, abs=1e-9)


def test_in_long_recordings_it_comes_to_what_the_exact_method_shares() -> None:
    # Coverage is concave in its calls, so trying budgets must find its own exact shares again.
    rng = np.random.default_rng(4)
    many = [rated(rng.gamma(0.5, 2.0, size)) for size in (200, 60, 17)]
    for budget in (Budget(share=0.2), Budget(price=0.8)):
        exact, tried = (
            sum(pick.expected for one in allocate(rule, many, budget, across=True)
                for pick in one.picks)
            for rule in (Coverage(), Alone(Coverage()))
        )  # fmt: skip
        assert tried == pytest.approx(exact, rel=1e-3)
        if budget.price is not None:
            assert counts(Alone(Coverage()), many, budget) == counts(Coverage(), many, budget)


def test_no_more_budgets_are_tried_than_is_said() -> None:
    asked: list[int] = []

    @dataclass(frozen=True, slots=True)
    class Counting:
        def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
            asked.append(budget)
            return Rank()(windows, budget=budget)

    recording = rated(np.random.default_rng(5).gamma(1.0, 1.0, 5_000))
    (choice,) = allocate(Counting(), [recording], Budget(price=0.7))
    assert len(asked) <= ROUNDS * PROBES + 1
    assert asked[-1] == len(choice.picks)
    assert sorted(asked[:-1]) == sorted(set(asked[:-1])), "no budget is tried twice"


def test_equal_recordings_share_equally() -> None:
    calls = counts(Rank(), [windows("1234512345" * 4)] * 4, Budget(count=30))
    assert sum(calls) == 30
    assert max(calls) - min(calls) <= 1


def test_a_busy_recording_gets_more_of_a_shared_budget() -> None:
    assert counts(Rank(), [windows("1.1.1.2.1."), windows("9797879789")], Budget(count=6)) == [0, 6]


def test_what_a_rule_cannot_spend_goes_to_other_recordings() -> None:
    many = [windows("98999"), windows("1234567812")]
    # No two neighbours: three picks fit into the first, five into the second.
    assert counts(MinimumSeparation(), many, Budget(count=7)) == [3, 4]
    assert sum(counts(MinimumSeparation(), many, Budget(count=15))) <= 8


def test_a_rule_that_picks_too_few_leaves_calls_and_never_takes_more() -> None:
    @dataclass(frozen=True, slots=True)
    class Half:
        def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
            best = [pick.window for pick in Rank()(windows, budget=budget // 2)]
            return explain(windows, best, lambda *_: "half")

    calls = counts(Half(), [windows("1234512345"), windows("543215")], Budget(count=6))
    assert 0 < sum(calls) <= 6
