"""From scores to rates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.gate.rates import RankRates, WindowScores


def peaks(values: list[float], *, length: float = 4.0) -> WindowScores:
    scores = np.array(values, dtype=float)
    return WindowScores(length, scores, scores)


scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30)


@given(scores)
def test_a_higher_score_never_has_a_lower_rate(values: list[float]) -> None:
    rates = RankRates()(peaks(values))
    for a, b in zip(*np.triu_indices(len(values), 1), strict=True):
        assert (values[a] < values[b]) == (rates[a] < rates[b])
        assert (values[a] == values[b]) == (rates[a] == rates[b])


@given(scores, st.sampled_from([0.5, 4.0]))
def test_the_mean_is_the_same_for_every_recording(values: list[float], length: float) -> None:
    rates = RankRates(starts_per_second=0.3)(peaks(values, length=length))
    assert rates.mean() == pytest.approx(0.3 * length)
    assert np.all(rates >= 0)


def test_a_flat_recording_is_flat() -> None:
    assert np.ptp(RankRates()(peaks([0.3] * 7))) == 0


def test_only_the_order_counts() -> None:
    a, b = peaks([1.0, 5.0, 2.0]), peaks([-60.0, 0.0, -3.0])
    np.testing.assert_array_equal(RankRates()(a), RankRates()(b))


def test_contrast_is_how_far_the_ends_lie_from_the_mean() -> None:
    values = peaks(list(range(1000)))
    assert np.ptp(RankRates(contrast=0.0)(values)) == 0
    assert RankRates(contrast=1.0)(values).min() == pytest.approx(0.0, abs=0.01)


def test_no_windows_no_rates() -> None:
    assert len(RankRates()(peaks([]))) == 0


@pytest.mark.parametrize("contrast", [-0.1, 1.1, float("nan")])
def test_contrast_is_a_share(contrast: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        RankRates(contrast=contrast)


def test_starts_are_positive() -> None:
    with pytest.raises(ValueError, match="positive, not 0"):
        RankRates(starts_per_second=0.0)
