"""The regression against a general optimiser, and on counts drawn from known coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from earmark_lab.metrics.statistics import fit_poisson


def test_the_fit_is_the_best_of_the_penalised_likelihood():
    rng = np.random.default_rng(2)
    rows, ridge = rng.normal(size=(400, 3)), 150.0
    counts = rng.poisson(np.exp(0.3 + rows @ [0.5, -0.4, 0.0])).astype(float)
    spread = rows.std(axis=0)

    def loss(weights: np.ndarray) -> float:
        linear = weights[0] + rows @ weights[1:]
        price = ridge * ((weights[1:] * spread) ** 2).sum() / 2
        return float(np.exp(linear).sum() - counts @ linear + price)

    best = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    intercept, weights = fit_poisson(rows, counts, ridge=ridge)
    assert [intercept, *weights] == pytest.approx(best, abs=1e-4)


def test_it_finds_the_coefficients_counts_were_drawn_from():
    rng = np.random.default_rng(0)
    rows, exposure = rng.standard_normal((20_000, 2)), rng.uniform(0.5, 4.0, 20_000)
    counts = rng.poisson(exposure * np.exp(-1.0 + rows @ [0.5, -0.3])).astype(float)
    intercept, weights = fit_poisson(rows, counts, exposure=exposure, ridge=1.0)
    assert intercept == pytest.approx(-1.0, abs=0.03)
    assert weights.tolist() == pytest.approx([0.5, -0.3], abs=0.03)


def test_a_column_that_never_changes_is_given_no_weight():
    counts = np.array([1.0, 0, 2, 1])
    intercept, weights = fit_poisson(np.ones((4, 2)), counts, exposure=np.full(4, 2.0), ridge=30.0)
    assert weights.tolist() == pytest.approx([0, 0])
    assert np.exp(intercept) == pytest.approx(0.5)


def test_without_anything_known_the_rate_is_the_mean():
    intercept, weights = fit_poisson(np.zeros((10, 2)), np.array([0.0, 4.0] * 5), ridge=150.0)
    assert np.exp(intercept) == pytest.approx(2.0)
    assert weights.tolist() == [0.0, 0.0]
