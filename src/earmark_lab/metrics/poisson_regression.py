from __future__ import annotations

import numpy as np

from earmark.timeline import FloatArray

LEAST_SPREAD = 0.03


def fit_poisson(
    rows: FloatArray,
    counts: FloatArray,
    *,
    exposure: FloatArray | None = None,
    ridge: float,
    least_spread: float = 1e-6,
) -> tuple[float, FloatArray]:
    """Intercept and weights of `log(expected count / exposure) = intercept + rows @ weights`.

    Newton's method on the penalised likelihood, which is concave; a step that does not raise it is
    halved. `rows` are `(windows, columns)`, the sum of `counts` is at least 1, and `ridge` is in
    log-likelihood, for columns scaled to unit spread, of at least `least_spread`.
    """
    observed = np.ones(len(counts)) if exposure is None else exposure
    centre, spread = rows.mean(axis=0), np.maximum(rows.std(axis=0), least_spread)
    design = np.column_stack([np.ones(len(rows)), (rows - centre) / spread])
    penalty = np.array([0.0] + [ridge] * rows.shape[1])

    def likelihood(weights: FloatArray) -> float:
        linear = np.clip(design @ weights, -30, 30)
        return float(counts @ linear - observed @ np.exp(linear) - penalty @ weights**2 / 2)

    found = np.zeros(design.shape[1])
    found[0] = np.log(counts.sum() / observed.sum())
    best = likelihood(found)
    for _ in range(100):
        expected = observed * np.exp(np.clip(design @ found, -30, 30))
        slope = design.T @ (counts - expected) - penalty * found
        bend = (design * expected[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (value := likelihood(found + step)) < best and np.abs(step).max() > 1e-10:
            step = step / 2
        if value < best or np.abs(step).max() < 1e-10:
            break
        found, best = found + step, value
    weights = found[1:] / spread
    return float(found[0] - centre @ weights), weights
