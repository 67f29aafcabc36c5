"""From scores to rates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark.gate.rates import (
    COLUMNS,
    ENERGY_RATES,
    MIN_VOTE,
    MOST,
    Fit,
    FittedRates,
    Hedge,
    HedgedRates,
    RankRates,
    WindowScores,
    smooth,
)


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


def pooled(peaks: list[float], length: float = 4.0) -> WindowScores:
    values = np.array(peaks, dtype=float)
    return WindowScores(length, values, values / 2)


def rising(length: float = 4.0, slope: float = 0.5) -> Fit:
    """A fit that looks at how much like work the window itself is, and at nothing else."""
    return Fit(length, float(np.log(0.25)), (slope, *[0.0] * (COLUMNS - 1)))


def within_work(slope: float = 0.5) -> Fit:
    """A fit that looks at the window's own peak among the work of its recording."""
    weights = [0.0] * COLUMNS
    weights[2] = slope
    return Fit(4.0, float(np.log(0.25)), tuple(weights))


def standing_out(slope: float = 0.5) -> Fit:
    """A fit that looks at what stands out from the seconds around it in a dense recording."""
    return Fit(4.0, float(np.log(0.25)), (0.0, 0.0, 0.0, slope, 0.0, 0.0))


def test_a_higher_score_is_a_higher_rate() -> None:
    for fit, half in ((rising(), 0.4), (within_work(), 0.4), (standing_out(), 0.01)):
        rates = FittedRates((fit,), half)(pooled([0.1, 0.4, 0.2, 0.9]))
        assert np.argsort(rates).tolist() == [0, 2, 1, 3], fit


def test_rates_are_absolute() -> None:
    """A quiet recording is expected to hold less than a loud one, and silence nothing."""
    fitted = FittedRates((rising(slope=0.7),), 0.1)
    quiet, loud, none = (fitted(pooled([x, 2 * x, 4 * x])).sum() for x in (0.01, 1.0, 0.0))
    assert none < 1e-3 < 10 * quiet < loud


def test_within_work_scores_count_against_the_rest_of_the_recording() -> None:
    for fit in (within_work(), standing_out()):
        fitted = FittedRates((fit,), 0.01)
        quiet, loud = fitted(pooled([1, 2, 4])), fitted(pooled([10, 20, 40]))
        np.testing.assert_allclose(quiet, loud, rtol=0.05)


def test_how_sure_it_is_that_there_is_work_ranks_a_sparse_recording_and_not_a_dense_one() -> None:
    stretches = [1.0, 0.5] * 15 + [0.2, 0.1] * 15
    in_dense = FittedRates((standing_out(),), 0.001)(pooled(stretches))
    np.testing.assert_allclose(in_dense[10:20], in_dense[40:50], rtol=0.05)
    idle = [0.001] * 100
    in_sparse = FittedRates((rising(),), 0.1)(pooled([*idle, *stretches, *idle]))
    assert in_sparse[110:120].min() > 1.3 * in_sparse[140:150].max()


def test_a_bout_is_told_from_a_stray_event_by_its_surroundings() -> None:
    weights = [0.0] * COLUMNS
    weights[0] = 1.0
    fitted = FittedRates((Fit(4.0, 0.0, tuple(weights)),), 0.1)
    rates = fitted(pooled([0] * 30 + [1] + [0] * 30 + [1] * 10 + [0] * 30))
    assert rates[65] > 3 * rates[30]


def test_smoothing_keeps_a_flat_row_flat_and_a_total_in_the_middle() -> None:
    np.testing.assert_allclose(smooth(np.ones(5), 10.0), np.ones(5))
    spike = np.zeros(101)
    spike[50] = 1.0
    assert smooth(spike, 4.0).sum() == pytest.approx(1.0, abs=1e-6)
    assert smooth(spike, 4.0).argmax() == 50


def test_a_flat_recording_is_flat_also_at_its_edges() -> None:
    weights = tuple(np.linspace(1.0, 2.0, COLUMNS).tolist())
    fitted = FittedRates((Fit(4.0, -1.0, weights),), 0.1)
    assert np.ptp(fitted(pooled([0.5] * 9))) == 0
    assert np.ptp(fitted(pooled([0.5] * 8 + [0.6]))) > 0


def test_the_nearest_length_is_used_and_rates_grow_with_the_window() -> None:
    fitted = FittedRates((rising(2.0, slope=0.0), rising(8.0, slope=0.3)), 0.1)
    short, long = fitted(pooled([1, 2, 3], 1.0)), fitted(pooled([0.1, 0.2, 0.3], 10.0))
    assert short.tolist() == pytest.approx([0.25, 0.25, 0.25])
    assert np.ptp(long) > 0


@given(
    st.lists(st.floats(0, 1e6), max_size=30),
    st.sampled_from([0.5, 4.0, 30.0]),
    st.floats(-50, 50),
)
def test_rates_are_finite_and_never_negative(
    peaks: list[float], length: float, slope: float
) -> None:
    rates = FittedRates((rising(slope=slope),), 0.1)(pooled(peaks, length))
    assert len(rates) == len(peaks)
    assert np.isfinite(rates).all() and (rates >= 0).all()
    assert (rates <= MOST * length + 1e-9).all()


def test_a_map_without_a_fit_or_with_a_wrong_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one fit"):
        FittedRates((), 0.1)
    with pytest.raises(ValueError, match=f"a fit has {COLUMNS} weights"):
        FittedRates((Fit(4.0, 0.0, (1.0,)),), 0.1)
    with pytest.raises(ValueError, match="above 0, not 0"):
        FittedRates((rising(),), 0.0)


def test_the_head_cannot_veto_what_stands_out_by_its_level() -> None:
    """The head hears work in one window, the level in another; the sum is the head's."""
    level = np.full(30, 1e-3)
    level[20::3] = 0.5
    deaf = pooled([0.9 if place == 5 else 0.01 for place in range(30)])
    both = replace(deaf, level=WindowScores(4.0, level, level))
    head = FittedRates((rising(slope=2.0),), 0.1)
    mixed = HedgedRates(head, Hedge(ENERGY_RATES, 0.25))(both)
    assert mixed.sum() == pytest.approx(head(deaf).sum())
    assert mixed[20] > 5 * head(deaf)[20]
    assert mixed[5] == pytest.approx(0.75 * head(deaf)[5], rel=0.1)


def test_a_lone_sound_in_quiet_is_about_an_action_whatever_the_head_says() -> None:
    level = np.full(900, 1e-3)
    level[[100, 500]] = 0.05
    deaf = replace(pooled([0.01] * 899 + [0.011]), level=WindowScores(4.0, level, level))
    rates = HedgedRates(FittedRates((rising(slope=2.0),), 0.1), Hedge(ENERGY_RATES, 0.25))(deaf)
    assert 0.3 < rates[100] < 1.2
    assert rates.sum() - rates[100] - rates[500] < 0.6  # next to none elsewhere


def test_the_level_keeps_a_share() -> None:
    with pytest.raises(ValueError, match="share"):
        Hedge(ENERGY_RATES, MIN_VOTE / 2)
