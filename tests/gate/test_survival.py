"""How long actions last."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.gate.survival import Survival
from reckoning import CURVES

lengths = st.lists(st.floats(0.01, 60.0), min_size=1, max_size=40)


@given(lengths, st.floats(0.0, 70.0))
def test_a_curve_of_lengths_counts_the_longer_ones(seen: list[float], time: float) -> None:
    # Steps are drawn a microsecond wide, so ask beside them.
    if min(abs(time - length) for length in seen) < 1e-5:
        return
    share = sum(length > time for length in seen) / len(seen)
    assert float(Survival.from_lengths(seen)(np.array(time))) == pytest.approx(share, abs=1e-9)


def test_many_lengths_are_followed_to_the_end_of_the_tail() -> None:
    seen = np.sort(np.random.default_rng(3).lognormal(0.7, 0.9, 20_000))
    curve = Survival.from_lengths(seen)
    times = np.linspace(0.0, seen[-1], 5_001)
    counted = 1 - np.searchsorted(seen, times, side="right") / len(seen)
    assert np.abs(curve(times) - counted).max() < 0.02
    tail = times > np.quantile(seen, 0.99)
    assert np.abs(curve(times) - counted)[tail].max() < 0.001
    assert len(curve.times) <= 202


def test_the_lengths_keep_their_mean() -> None:
    # The integral of S is the mean length, and g sums to it over the window length.
    seen = np.random.default_rng(4).lognormal(0.7, 0.9, 5_000)
    reach = Survival.from_lengths(seen).reach(0.5, negligible=0.0)
    assert (reach.sum() - 1) * 0.5 == pytest.approx(seen.mean(), rel=0.01)


@given(st.sampled_from(list(CURVES.values())), st.sampled_from([0.5, 1.0, 4.0, 8.0]))
def test_reach_is_the_mean_over_starts_in_the_window(curve: Survival, window: float) -> None:
    reach = curve.reach(window, negligible=0.0)
    starts = (np.arange(20_000) + 0.5) / 20_000 * window
    for distance, chance in enumerate(reach[1:8], start=1):
        slow = float(curve(distance * window - starts).mean())
        assert chance == pytest.approx(slow, abs=1e-4)


@given(st.sampled_from(list(CURVES.values())), st.sampled_from([0.5, 1.0, 4.0, 8.0]))
def test_reach_falls_from_one_and_stops_where_it_is_negligible(
    curve: Survival, window: float
) -> None:
    reach = curve.reach(window)
    assert reach[0] == 1.0
    assert np.all(np.diff(reach) <= 0)
    assert np.all(reach >= 1e-3)
    longer = curve.reach(window, negligible=0.0)
    np.testing.assert_array_equal(longer[: len(reach)], reach)
    assert np.all(longer[len(reach) :] < 1e-3)


def test_reach_is_shared_and_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        CURVES["usual"].reach(4.0)[0] = 2.0


def test_a_lognormal_curve_halves_at_its_median() -> None:
    curve = Survival.lognormal(median=2.0, sigma=1.0)
    assert curve(np.array([0.0, 2.0, 500.0])) == pytest.approx([1.0, 0.5, 0.0], abs=0.01)


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0, 2.0], [float("nan")], [1.0, float("inf")]])
def test_lengths_are_finite_and_some_above_nothing(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite action lengths"):
        Survival.from_lengths(bad)


@pytest.mark.parametrize(
    ("times", "shares", "match"),
    [
        ((0.0,), (1.0,), "two knots"),
        ((0.0, 1.0), (1.0, 0.5, 0.0), "as many times as shares"),
        ((0.5, 1.0), (1.0, 0.0), "increase from 0"),
        ((0.0, 2.0, 1.0), (1.0, 0.5, 0.0), "increase from 0"),
        ((0.0, 1.0), (1.0, 0.5), "fall from 1 to 0"),
        ((0.0, 1.0, 2.0, 3.0), (1.0, 0.2, 0.3, 0.0), "fall from 1 to 0"),
    ],
)
def test_a_curve_is_checked_where_it_is_made(
    times: tuple[float, ...], shares: tuple[float, ...], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        Survival(times, shares)


@pytest.mark.parametrize("bad", [{"median": 0.0}, {"sigma": 0.0}, {"longest": -1.0}])
def test_a_lognormal_curve_needs_positive_numbers(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="positive median"):
        Survival.lognormal(**{"median": 2.0, "sigma": 1.0, **bad})


def test_a_curve_is_stretched_to_another_median() -> None:
    curve = Survival.from_lengths([1.0, 2.0, 3.0, 10.0, 40.0])
    assert curve.median == pytest.approx(3.0, abs=1e-5)
    longer = curve.stretched(12.0)
    assert longer.median == pytest.approx(12.0, abs=1e-5)
    times = np.linspace(0.0, 170.0, 50)
    np.testing.assert_allclose(longer(times), curve(times * curve.median / 12.0), atol=1e-9)
    assert str(longer) != str(curve)
