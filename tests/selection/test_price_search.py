"""Splicing two paths, and sharing what lies between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from earmark.grid import Windows
from earmark.selection.price_search import Bracket, is_settled, splice, split_calls
from earmark.selection.rules.coverage import lines
from earmark.selection.solver import Line, solve
from reckoning import CURVES, best_of_all, recordings, worth


def path(drawing: str) -> np.ndarray:
    return np.array([place for place, sign in enumerate(drawing) if sign == "^"], dtype=np.int32)


def drawn(windows: np.ndarray, count: int) -> str:
    return "".join("^" if place in windows else "." for place in range(count))


def test_a_splice_changes_over_inside_a_long_step() -> None:
    few = path("...^....^")
    many = path(".^.^.^.^^")
    assert drawn(splice(few, many, 2), 9) == "...^....^"
    assert drawn(splice(few, many, 3), 9) == ".^.^....^"
    assert drawn(splice(few, many, 5), 9) == ".^.^.^.^^"


def test_a_splice_of_nothing_and_everything() -> None:
    few, many = path("....."), path("^^^^^")
    assert [len(splice(few, many, calls)) for calls in range(6)] == [0, 1, 2, 3, 4, 5]


@given(recordings(longest=9), st.data())
def test_a_splice_of_two_best_paths_is_best(recording: Windows, data: st.DataObject) -> None:
    best = best_of_all(recording)
    rung = data.draw(st.integers(1, max(1, len(recording))))
    price = best[rung] - best[rung - 1] if rung < len(best) else 0.0
    assume(price > 1e-3)
    # Prices a hair off a slope of the curve give the fewest and the most picks best at it.
    line = lines([recording])[0]
    few, many = (solve([line], np.array([price + hair]))[0][0] for hair in (1e-7, -1e-7))
    assert len(few) < len(many)
    for calls in range(len(few), len(many) + 1):
        mixed = splice(few, many, calls).tolist()
        assert mixed == sorted(set(mixed))
        assert len(mixed) == calls
        assert worth(recording, mixed) == pytest.approx(best[calls], abs=1e-5)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.data())
def test_shares_spend_exactly_and_stay_within_the_ends(
    widths: list[int], data: st.DataObject
) -> None:
    some = [Line(np.ones(width), CURVES["usual"].reach(4.0)) for width in widths]
    bracket = Bracket(some, np.zeros(len(widths), dtype=np.intp), np.array([0.0]))
    budget = data.draw(st.integers(0, sum(widths)))
    counts = split_calls(bracket, np.array([budget]))
    assert counts.sum() == budget
    assert all(0 <= count <= width for count, width in zip(counts, widths, strict=True))


@given(recordings(longest=30), st.floats(0.01, 5.0))
def test_solving_says_what_its_path_is_worth(recording: Windows, price: float) -> None:
    paths, values = solve(lines([recording]), np.array([price]))
    found = paths[0].tolist()
    net = worth(recording, found) - price * len(found)
    assert values[0] == pytest.approx(net, abs=1e-9)


@given(st.lists(recordings(longest=10), min_size=2, max_size=5), st.floats(0.1, 3.0))
def test_small_batches_give_what_large_ones_give(many: list[Windows], price: float) -> None:
    _, together = solve(lines(many), np.full(len(many), price))
    for recording, value in zip(many, together, strict=True):
        _, alone = solve(lines([recording]), np.array([price]))
        assert alone[0] == pytest.approx(value, abs=1e-9)


def passes(many: list[Line], budget: float) -> int:
    """Times that recordings are solved until a budget over all of them is spent."""
    bracket = Bracket(many, np.zeros(len(many), dtype=np.intp), np.array([budget]))
    while not is_settled(bracket):
        bracket.narrow()
    return bracket.passes


MOST_PASSES = {"brief": 54, "usual": 57, "lasting": 75}
"""Of a long recording, a short one and three together, at five shares each: as they are now."""


@pytest.mark.parametrize("survival", MOST_PASSES)
def test_a_price_is_found_in_few_passes(survival: str) -> None:
    """A poor guess costs a pass and nothing else, so that only their number tells."""
    rng = np.random.default_rng(3)
    reach = CURVES[survival].reach(4.0)
    many = [Line(rng.gamma(0.7, 0.3, count), reach) for count in (200, 60, 20)]
    found = sum(
        passes(some, share * sum(map(len, some)) // 1)
        for some in (many[:1], many[2:], many)
        for share in (0.02, 0.1, 0.3, 0.6, 0.9)
    )
    assert found <= MOST_PASSES[survival]
