"""Statistics against hand-worked cases and the numbers the paper prints."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from earmark_lab.experiments.paper import TRANSFER
from earmark_lab.metrics.statistics import (
    bootstrap_ratio,
    compare_paired,
    correlate,
    mcnemar,
    welch,
    welch_of_summaries,
)

# The `Unif.` and `Ours` columns of the paper's per-recording table, in points.
UNIFORM = [43.5, 42.0, 39.0, 50.4, 49.5, 42.2, 35.4, 47.4, 42.9, 34.1, 36.1, 34.1]
UNIFORM += [53.6, 59.5, 63.3, 45.5, 62.2, 70.2, 63.0, 58.3, 56.7, 47.0, 43.8, 51.7]
OURS = [48.6, 46.1, 61.0, 54.9, 55.9, 44.2, 42.1, 54.8, 50.0, 40.6, 40.6, 43.5]
OURS += [56.6, 60.4, 65.3, 60.6, 67.6, 77.2, 74.1, 56.7, 50.0, 51.9, 51.6, 56.7]
ACTIONS = [354, 371, 136, 113, 111, 147, 195, 135, 126, 217, 133, 170]
ACTIONS += [235, 111, 49, 33, 37, 57, 27, 60, 104, 347, 64, 60]


def unrounded(points: list[float]) -> list[float]:
    """The printed points as what they were before rounding: whole actions over all actions."""
    pairs = zip(points, ACTIONS, strict=True)
    return [100 * round(point * actions / 100) / actions for point, actions in pairs]


def test_the_paper_s_paired_row():
    got = compare_paired(unrounded(OURS), unrounded(UNIFORM))
    assert (got.recordings, got.wins, got.losses, got.ties) == (24, 22, 2, 0)
    assert round(got.mean, 1) == 5.8
    assert got.median == pytest.approx(5.2, abs=0.05)
    assert got.p < 1e-4
    assert got.low < got.mean < got.high
    assert got.low > 0


def test_wilcoxon_equals_counting_every_sign():
    gains = np.array([1.0, 2.0, -3.0, 4.0, 5.0, 6.0])
    signs = np.array(list(product([-1, 1], repeat=6)))
    sums = np.maximum(signs @ np.abs(gains), -(signs @ np.abs(gains)))
    exact = (sums >= abs(gains.sum())).mean()  # the gains are their own ranks
    assert compare_paired(gains.tolist(), [0.0] * 6).p == pytest.approx(exact)


def test_wilcoxon_equals_scipy_without_ties_and_near_it_beyond():
    rng = np.random.default_rng(5)
    few, many = rng.normal(0.3, 1, 20), rng.normal(0.1, 1, 150)
    assert compare_paired(few, np.zeros(20)).p == pytest.approx(
        stats.wilcoxon(few, method="exact").pvalue
    )
    assert compare_paired(many, np.zeros(150)).p == pytest.approx(
        stats.wilcoxon(many, method="exact").pvalue, rel=0.02
    )


def test_wilcoxon_is_exact_with_equal_gains_too():
    gains = np.array([1.0, 1.0, -2.0, 4.0])
    ranks = np.array([1.5, 1.5, 3.0, 4.0])
    sums = np.array(list(product([-1, 1], repeat=4))) @ ranks
    assert compare_paired(gains, np.zeros(4)).p == pytest.approx((np.abs(sums) >= 4.0).mean())


def test_ties_are_counted_and_a_nan_leaves_the_pair_out():
    got = compare_paired([1.0, 0.3, 0.1 + 0.2, math.nan], [1.0, 0.1, 0.3, 1.0])
    assert (got.recordings, got.wins, got.losses, got.ties) == (3, 1, 0, 2)
    same = compare_paired([1.0, 1.0], [1.0, 1.0])
    assert (same.p, same.mean, same.ties) == (1.0, 0.0, 2)
    nothing = compare_paired([math.nan], [1.0])
    assert nothing.recordings == 0
    assert math.isnan(nothing.p)


def test_bootstrap_is_repeatable_and_about_right():
    values = np.random.default_rng(3).normal(10, 2, 400)
    low, high = bootstrap_ratio(values, np.ones(len(values)), seed=1)
    assert (low, high) == bootstrap_ratio(values, np.ones(len(values)), seed=1)
    assert high - low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    assert all(map(math.isnan, bootstrap_ratio([], [])))
    assert all(
        map(math.isnan, bootstrap_ratio([5.0], [1.0]))
    )  # one recording says nothing of others


def test_bootstrap_equals_drawing_every_way():
    parts, wholes = np.array([1.0, 6.0, 9.0]), np.array([10.0, 10.0, 30.0])
    every = np.array(list(product(range(3), repeat=3)))  # the 27 ways to draw three of three
    ratios = np.sort(parts[every].sum(axis=1) / wholes[every].sum(axis=1))
    low, high = bootstrap_ratio(parts, wholes, confidence=0.8, draws=20_000)
    # A tenth of 27 ways is 2.7: the third smallest and the third largest.
    assert (low, high) == pytest.approx((ratios[2], ratios[-3]))


def test_bootstrap_of_a_ratio_weighs_recordings_by_their_actions():
    assert bootstrap_ratio([5, 5], [10, 10]) == (0.5, 0.5)
    low, high = bootstrap_ratio([0, 90], [10, 90])
    assert (low, high) == (0.0, 1.0)
    assert all(map(math.isnan, bootstrap_ratio([0], [0])))
    assert bootstrap_ratio([5, 2, 0], [10, 10, 0]) == bootstrap_ratio([5, 2], [10, 10])


def test_one_recording_has_a_gain_and_no_interval():
    got = compare_paired([0.5], [0.3])
    assert (got.recordings, got.wins, got.p) == (1, 1, 1.0)
    assert got.mean == pytest.approx(0.2)
    assert math.isnan(got.low)
    assert math.isnan(got.high)


def test_welch():
    got = welch([1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0])
    assert got.mean == -3.0
    # Means 2 and 5, variances 1 and 20/3, so t = -3 / sqrt(1/3 + 5/3).
    assert got.t == pytest.approx(-3 / math.sqrt(2))
    # Welch and Satterthwaite's degrees of freedom from the two squared errors 1/3 and 5/3.
    freedom = (1 / 3 + 5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (5 / 3) ** 2 / 3)
    assert got.p == pytest.approx(2 * stats.t.sf(3 / math.sqrt(2), freedom))
    assert math.isnan(welch([1.0], [2.0, 3.0]).p)
    assert math.isnan(welch([1.0, 1.0], [2.0, 2.0]).p)


def test_correlation_with_one_left_out():
    got = correlate([1, 2, 3, 4], [1, 2, 3, -4])
    by_hand = [
        float(np.corrcoef(np.delete([1, 2, 3, 4], n), np.delete([1, 2, 3, -4], n))[0, 1])
        for n in range(4)
    ]
    assert (got.low, got.high) == pytest.approx((min(by_hand), max(by_hand)))
    assert got.high == pytest.approx(1.0)
    assert got.spearman == pytest.approx(-0.2)
    assert math.isnan(correlate([1, 1, 1], [1, 2, 3]).pearson)
    assert correlate([1, math.nan], [1, 2]).recordings == 1


def test_mcnemar_is_the_exact_binomial():
    # Five disagreements, all one way: 2 * 0.5 ** 5.
    assert mcnemar(5, 0) == pytest.approx(0.0625)
    assert mcnemar(3, 3) == 1.0
    ways = [math.comb(15, wins) for wins in range(16)]  # 4 against 11: at most 4, or at least 11
    assert mcnemar(4, 11) == pytest.approx(2 * sum(ways[:5]) / 2**15)
    assert mcnemar(0, 0) == 1.0
    with pytest.raises(ValueError, match="never negative"):
        mcnemar(-1, 2)


def test_the_paper_s_printed_values_do_separate_panns():
    """It says that no p is below 0.14."""
    panns, *others = (values[2:] for values in TRANSFER.values())
    small = [welch_of_summaries((*panns, 5), (*other, 5)).p for other in others]
    assert min(small) >= 0.0055 and max(small) <= 0.0135
