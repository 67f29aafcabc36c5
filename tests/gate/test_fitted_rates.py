"""Fitted rates follow the scores, scale with the window and never invent evidence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.gate.fitted_rates import MOST, Fit, FittedRates, columns, describe
from earmark.gate.rates import WindowScores


def pooled(peaks: list[float], length: float = 4.0) -> WindowScores:
    values = np.array(peaks, dtype=float)
    return WindowScores(length, values, values / 2, values * 0.8)


def rising(length: float = 4.0, reach: int = 0, slope: float = 0.5) -> Fit:
    """A fit that looks at the window's own peak alone."""
    weights = np.zeros(columns(reach))
    weights[3 * reach] = slope
    return Fit(length, np.log(0.25), tuple(weights.tolist()))


def test_a_higher_score_is_a_higher_rate() -> None:
    rates = FittedRates((rising(),))(pooled([0.1, 0.4, 0.2, 0.9]))
    assert np.argsort(rates).tolist() == [0, 2, 1, 3]


def test_scores_count_against_the_rest_of_the_recording() -> None:
    quiet, loud = pooled([1, 2, 4]), pooled([10, 20, 40])
    fitted = FittedRates((rising(),))
    np.testing.assert_allclose(fitted(quiet), fitted(loud), rtol=1e-2)


def test_a_flat_recording_is_flat_also_at_its_edges() -> None:
    weights = (1.0, 1.0, 1.0, 2.0, -2.0)
    rates = FittedRates((Fit(4.0, -1.0, weights),))(pooled([0.5] * 9))
    assert np.ptp(rates) == 0
    assert np.ptp(FittedRates((Fit(4.0, -1.0, weights),))(pooled([0.5] * 8 + [0.6]))) > 0


def test_the_nearest_length_is_used_and_rates_grow_with_the_window() -> None:
    fitted = FittedRates((rising(2.0, slope=0.0), rising(8.0, slope=1.0)))
    short, long = fitted(pooled([1, 2, 3], 1.0)), fitted(pooled([1, 2, 3], 10.0))
    assert short.tolist() == pytest.approx([0.25, 0.25, 0.25])
    assert np.ptp(long) > 0


def test_neighbours_stand_in_order() -> None:
    rows = describe(pooled([1.0, 2.0, 4.0]), reach=1)
    own = rows[:, 3]
    np.testing.assert_allclose(rows[:, 0], [own[0], own[0], own[1]])
    np.testing.assert_allclose(rows[:, 6], [own[1], own[2], own[2]])
    assert rows.shape == (3, columns(1))


@given(
    st.lists(st.floats(0, 1e6), max_size=30),
    st.sampled_from([0.5, 4.0, 30.0]),
    st.floats(-50, 50),
)
def test_rates_are_finite_and_never_negative(
    peaks: list[float], length: float, slope: float
) -> None:
    rates = FittedRates((rising(slope=slope),))(pooled(peaks, length))
    assert len(rates) == len(peaks)
    assert np.isfinite(rates).all() and (rates >= 0).all()
    assert (rates <= MOST * length + 1e-9).all()


def test_a_map_without_a_fit_or_with_a_wrong_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one fit"):
        FittedRates(())
    with pytest.raises(ValueError, match="a fit of reach 1 has 11 weights"):
        FittedRates((rising(),), reach=1)
