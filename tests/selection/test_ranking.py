"""Rules that go from the best score down: rank, separated, facility."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drawing import picked, windows
from earmark.selection.pick import best_first
from earmark.selection.rules.ranking import MinimumSeparation, Rank, normalise, top_up
from earmark_lab.rules import Facility


def test_one_noisy_stretch_does_not_take_the_budget() -> None:
    assert picked(Rank(), "998888..1...2.", budget=2) == "^^............"
    assert picked(MinimumSeparation(), "998888..1...2.", budget=2) == "^.^..........."
    assert picked(Facility(), "998888..1...2.", budget=2) == "..^..^........"


def test_ties_go_to_the_earlier_window() -> None:
    assert picked(Rank(), "..5..5..5.", budget=2) == "..^..^...."
    assert picked(MinimumSeparation(), "5555", budget=1) == "^..."


def test_separation_is_a_number_of_windows() -> None:
    assert picked(MinimumSeparation(1), "9876", budget=3) == "^^^."
    assert picked(MinimumSeparation(3), "9876543", budget=3) == "^..^..^"


def test_separation_leaves_calls_unspent_when_no_window_is_far_enough() -> None:
    assert picked(MinimumSeparation(), "19191", budget=5) == ".^.^."


def test_a_separation_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="1 window or more, not 0"):
        MinimumSeparation(0)


def test_reasons_say_the_rank() -> None:
    picks = Rank()(windows("3.9"), budget=2)
    assert [pick.reason for pick in picks] == ["rank 2 of 3", "rank 1 of 3"]
    (pick,) = MinimumSeparation()(windows("3.9"), budget=1)
    assert pick.reason == "best window at least 2 from any other"


def test_normalising_a_flat_recording_gives_nothing() -> None:
    np.testing.assert_array_equal(normalise(np.array([3.0, 3.0])), [0.0, 0.0])
    np.testing.assert_allclose(normalise(np.array([-1.0, 1.0, 3.0])), [0.0, 0.5, 1.0])
    assert len(normalise(np.empty(0))) == 0


def test_topping_up_takes_the_best_windows_left() -> None:
    scores = np.array([0.1, 0.9, 0.5, 0.9])
    assert sorted(top_up(np.array([0, 0]), scores, 3).tolist()) == [0, 1, 3]


def served(weights: list[float], chosen: list[int], scale: float) -> float:
    """The sum that facility location raises, term by term."""
    far = math.ceil(scale * math.log(1000))
    total = 0.0
    for place, weight in enumerate(weights):
        near = [abs(place - pick) for pick in chosen if abs(place - pick) <= far]
        total += weight * math.exp(-min(near) / scale) if near else 0.0
    return total


@given(
    st.text("123456789", min_size=2, max_size=14),
    st.integers(1, 6),
    st.sampled_from([0.5, 1.7, 2.0]),
)
def test_facility_takes_the_best_window_at_every_choice(
    drawing: str, budget: int, scale: float
) -> None:
    scored = windows(drawing)
    weights = normalise(scored.scores).tolist() if len(set(drawing)) > 1 else [1.0] * len(drawing)
    picks = Facility(scale)(scored, budget=budget)
    order = sorted(picks, key=lambda pick: int(pick.reason.split()[1]))
    chosen: list[int] = []
    for pick in order:
        left = [place for place in range(len(drawing)) if place not in chosen]
        best = max(served(weights, [*chosen, place], scale) for place in left)
        chosen.append(pick.window)
        assert served(weights, chosen, scale) == pytest.approx(best, abs=1e-9)


def test_facility_says_the_place_of_each_choice() -> None:
    reasons = [pick.reason for pick in Facility()(windows("1...9"), budget=2)]
    assert reasons == ["choice 2 of 2, by need", "choice 1 of 2, by need"]


def test_facility_never_runs_out() -> None:
    assert picked(Facility(), "19191", budget=5) == "^^^^^"


def test_best_first_is_stable() -> None:
    assert best_first(np.array([1.0, 2.0, 1.0, 2.0])).tolist() == [1, 3, 0, 2]


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan")])
def test_a_scale_is_positive(scale: float) -> None:
    with pytest.raises(ValueError, match="positive number of windows"):
        Facility(scale)
