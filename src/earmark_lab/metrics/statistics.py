"""Tests of significance, correlation, and Poisson regression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import stats

from earmark.timeline import FloatArray, IndexArray

Values = Sequence[float] | FloatArray

EXACT_PAIRS = 100
"""Up to here the signed-rank test is exact."""

TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Paired:
    """Gains in the unit of the input."""

    recordings: int
    mean: float
    median: float
    wins: int
    losses: int
    ties: int
    p: float
    """Two-sided Wilcoxon signed-rank; 1 when all are ties, nan without recordings."""
    low: float
    """Of the bootstrap interval of the mean gain; nan for fewer than two recordings."""
    high: float

    @property
    def record(self) -> str:
        return f"{self.wins}/{self.losses}/{self.ties}"


def compare_paired(ours: Values, theirs: Values) -> Paired:
    """Pairs with a nan on either side are left out."""
    gains = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    gains = gains[np.isfinite(gains)]
    if len(gains) == 0:
        return Paired(0, math.nan, math.nan, 0, 0, 0, math.nan, math.nan, math.nan)
    gains[np.abs(gains) < TIE] = 0.0
    low, high = bootstrap_ratio(gains, np.ones_like(gains))
    wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
    record = (wins, losses, len(gains) - wins - losses)
    average, median = float(gains.mean()), float(np.median(gains))
    return Paired(len(gains), average, median, *record, _wilcoxon(gains), low, high)


def _wilcoxon(gains: FloatArray) -> float:
    """Zero gains are dropped, as in the paper's W/L/T.

    Also exact if gains tie in size (which SciPy's exact test does not allow): all signs are equally
    likely, so the distribution of rank sums is enumerated.
    """
    differing = np.round(gains[gains != 0], 10)
    if len(differing) == 0:
        return 1.0
    if len(differing) > EXACT_PAIRS:
        return float(stats.wilcoxon(differing, method="asymptotic").pvalue)
    # Doubled, so that half ranks become whole numbers.
    ranks = np.rint(2 * stats.rankdata(np.abs(differing))).astype(int)
    chances = np.ones(1)
    for rank in ranks.tolist():
        chances = (np.pad(chances, (0, rank)) + np.pad(chances, (rank, 0))) / 2
    smaller = min(ranks[differing > 0].sum(), ranks[differing < 0].sum())
    return min(1.0, 2 * float(chances[: smaller + 1].sum()))


def bootstrap_ratio(
    parts: Values, wholes: Values, *, seed: int = 0, confidence: float = 0.95, draws: int = 10_000
) -> tuple[float, float]:
    """Percentile interval of `sum(parts) / sum(wholes)`; nan if fewer than two wholes are not 0."""
    part, whole = np.asarray(parts, dtype=float), np.asarray(wholes, dtype=float)
    part, whole = part[whole > 0], whole[whole > 0]
    if len(part) < 2:
        return math.nan, math.nan
    drawn = _draws(len(part), draws, seed)
    ratios = (drawn @ part) / (drawn @ whole)
    tail = (1 - confidence) / 2
    low, high = np.quantile(ratios, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _draws(count: int, draws: int, seed: int) -> FloatArray:
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=draws).astype(np.float32)
    drawn.setflags(write=False)
    return drawn


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's: 1 for two raters who always agree, 0 for as much agreement as chance gives."""

    n: int
    agreed: float
    """Share of what both rated."""
    value: float
    """nan if there is nothing to agree on, or if both always say the same one thing."""
    low: float
    """Of the 95 % interval, by drawing items with replacement; nan for fewer than two."""
    high: float


def cohen_kappa(pairs: Sequence[tuple[str, str]], *, draws: int = 2000) -> Kappa:
    """Of what two raters said about the same items."""
    labels = sorted({label for pair in pairs for label in pair})
    codes = np.array([[labels.index(label) for label in pair] for pair in pairs]).reshape(-1, 2)
    agreed = share_of((codes[:, 0] == codes[:, 1]).tolist())
    rng, count = np.random.default_rng(0), len(codes)
    drawn = rng.integers(0, max(1, count), (draws if count > 1 else 0, count))
    values = [value for places in drawn if np.isfinite(value := _kappa(codes[places], len(labels)))]
    low, high = np.quantile(values, [0.025, 0.975]) if values else (math.nan, math.nan)
    return Kappa(len(codes), agreed, _kappa(codes, len(labels)), float(low), float(high))


def share_of(values: Sequence[bool]) -> float:
    return sum(values) / len(values) if values else math.nan


def _kappa(codes: IndexArray, kinds: int) -> float:
    if not len(codes):
        return math.nan
    first, second = (np.bincount(codes[:, side], minlength=kinds) / len(codes) for side in (0, 1))
    chance = float(first @ second)
    observed = float((codes[:, 0] == codes[:, 1]).mean())
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


@dataclass(frozen=True, slots=True)
class Difference:
    mean: float
    t: float
    p: float
    """Two-sided; nan when either side has fewer than two values or neither varies."""


def welch(first: Values, second: Values) -> Difference:
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    mean = float(a.mean() - b.mean()) if len(a) and len(b) else math.nan
    if min(len(a), len(b)) < 2 or (np.ptp(a) == 0 and np.ptp(b) == 0):
        return Difference(mean, math.nan, math.nan)
    result = stats.ttest_ind(a, b, equal_var=False)
    return Difference(mean, float(result.statistic), float(result.pvalue))


Summary = tuple[float, float, int]
"""Mean, standard deviation and number of values."""


def welch_of_summaries(first: Summary, second: Summary) -> Difference:
    result = stats.ttest_ind_from_stats(*first, *second, equal_var=False)
    return Difference(first[0] - second[0], float(result.statistic), float(result.pvalue))


@dataclass(frozen=True, slots=True)
class Correlation:
    """nan if one of them is constant."""

    recordings: int
    pearson: float
    pearson_p: float
    spearman: float
    spearman_p: float
    low: float
    high: float


def correlate(first: Values, second: Values) -> Correlation:
    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlation(len(a), *(math.nan,) * 6)
    straight, ranked = stats.pearsonr(a, b), stats.spearmanr(a, b)
    pairs = [(np.delete(a, index), np.delete(b, index)) for index in range(len(a))]
    varied = [pair for pair in pairs if np.ptp(pair[0]) > 0 and np.ptp(pair[1]) > 0]
    left_out = [float(np.corrcoef(*pair)[0, 1]) for pair in varied] or [math.nan]
    pearson = float(straight.statistic), float(straight.pvalue)
    spearman = float(ranked.statistic), float(ranked.pvalue)
    return Correlation(len(a), *pearson, *spearman, min(left_out), max(left_out))


def mcnemar(first_only: int, second_only: int) -> float:
    """Exact and two-sided; 1 without disagreement."""
    if first_only < 0 or second_only < 0:
        raise ValueError(f"counts are never negative: {first_only}, {second_only}")
    both = first_only + second_only
    return float(stats.binomtest(first_only, both).pvalue) if both else 1.0


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

    fitted = np.zeros(design.shape[1])
    fitted[0] = np.log(counts.sum() / observed.sum())
    best = likelihood(fitted)
    for _ in range(100):
        expected = observed * np.exp(np.clip(design @ fitted, -30, 30))
        slope = design.T @ (counts - expected) - penalty * fitted
        bend = (design * expected[:, None]).T @ design + np.diag(penalty + 1e-9)
        step = np.linalg.solve(bend, slope)
        while (value := likelihood(fitted + step)) < best and np.abs(step).max() > 1e-10:
            step = step / 2
        if value < best or np.abs(step).max() < 1e-10:
            break
        fitted, best = fitted + step, value
    weights = fitted[1:] / spread
    return float(fitted[0] - centre @ weights), weights
