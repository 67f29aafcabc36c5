"""Calibrates a gate on recordings its heads were not trained on: rates, thresholds, errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.ndimage import median_filter
from scipy.optimize import least_squares

from earmark.gate.episodes import Episodes, Misses, OperatingPoints, count_windows
from earmark.gate.forecast_error import (
    ForecastError,
    Miscount,
    Miss,
    likeness,
    log_density,
    log_odds,
    spread,
)
from earmark.gate.gate import Card, Gate, Honesty
from earmark.gate.lengths import LengthModel
from earmark.gate.rates import Hedge, RateMap
from earmark.grid import Grid
from earmark.selection.rules.ranking import MinimumSeparation
from earmark.timeline import FloatArray, Span, Track
from earmark_lab.experiments.benchmark import BUDGETS, Case, count_picks, run_case
from earmark_lab.experiments.operating_points import MEDIANS, OFF_SHARES, SHAPE_TARGET, TARGETS
from earmark_lab.metrics.counts import ForecastCounts
from earmark_lab.training.dataset import Material, TrainingRecording, participant
from earmark_lab.training.rate_fit import (
    CROWD,
    Fitted,
    Scores,
    fit_all,
    fit_hedge,
    hedged,
)

FORECAST_BUDGETS = (0.01, 0.02, *BUDGETS)

RARE = 0.5
"""Raises the weight of recordings with few others about as busy in the bias of forecasts."""

LEANING = 0.1


def calibrate(
    scores: Scores, material: Material, card: Card, weights: bytes
) -> tuple[Gate, dict[float, float]]:
    """Also gives mean dev coverage by budget, with rates fitted without the family or person."""
    names = sorted(scores)
    dev = {name: material[name] for name in names}
    fitted = fit_all(scores, dev, names)
    points, misses = choose_points(scores, dev)
    crossed = cross_fit(scores, dev)
    hedge = fit_hedge(dev, names, fitted.lengths.usual)
    apart = crossed_cases(scores, dev, hedge, crossed)
    judged = cases(scores, dev, names, hedged(fitted.rates, hedge), fitted.lengths)
    gate = Gate(
        card=replace(card, honesty=measure_honesty(apart)),
        weights=weights,
        rates=fitted.rates,
        hedge=hedge,
        lengths=fitted.lengths,
        points=points,
        misses=misses,
        separation=choose_separation(judged),
        error=fit_error(forecast_rows(apart), count_rows(apart)),
    )
    return gate, mean_coverage(apart)


@dataclass(frozen=True, slots=True)
class Crossed:
    names: Sequence[str]
    fitted: Fitted
    """To recordings of other groups."""


def cross_fit(scores: Scores, material: Material) -> list[Crossed]:
    groups, crossed = groups_of(material), []
    for names in groups:
        others = [name for name in material if name not in names]
        if not any(material[name].actions for name in others):
            others = list(names)
        crossed.append(Crossed(names, fit_all(scores, material, others, windows=[Grid().length])))
    return crossed


def groups_of(material: Material) -> list[list[str]]:
    """By family, or else by participant, or else each recording alone."""
    families: dict[str, list[str]] = {}
    for name in sorted(material):
        families.setdefault(material[name].family or participant(name), []).append(name)
    groups = list(families.values())
    return groups if len(groups) > 1 else [[name] for name in material]


def cases(
    scores: Scores,
    material: Material,
    names: Sequence[str],
    rates: RateMap,
    lengths: LengthModel,
) -> list[Case]:
    return [
        Case(
            name,
            "gate",
            Grid().score(
                Track(scores[name]),
                material[name].duration,
                rates=rates,
                lengths=lengths.infer(material[name].level),
                level=material[name].level,
                shows_loudest=material[name].level is not None,
            ),
            material[name].actions,
        )
        for name in names
    ]


def crossed_cases(
    scores: Scores,
    material: Material,
    hedge: Hedge | None = None,
    crossed: Sequence[Crossed] = (),
) -> list[Case]:
    """With what was fitted to other groups; `crossed` if that was done already."""
    return [
        case
        for each in crossed or cross_fit(scores, material)
        for case in cases(
            scores, material, each.names, hedged(each.fitted.rates, hedge), each.fitted.lengths
        )
    ]


def forecast_rows(judged: Sequence[Case]) -> list[tuple[float, float, float, float]]:
    """Actual coverage, log-odds of its forecast, log-density and number of expected actions."""
    rows = []
    for case in judged:
        actions = float(case.windows.rates.sum())
        density = log_density(actions, case.windows.duration)
        for row in run_case(case, ["coverage"], FORECAST_BUDGETS):
            counts = row.forecast
            if counts.recordings:
                actual = counts.forecast - counts.bias
                rows.append((actual, log_odds(counts.forecast), density, actions))
    return rows


def count_rows(judged: Sequence[Case]) -> list[Miscount]:
    return [
        Miscount.of(float(case.windows.rates.sum()), len(case.actions), case.windows.duration)
        for case in judged
    ]


def fit_error(
    rows: Sequence[tuple[float, float, float, float]], counts: Sequence[Miscount]
) -> ForecastError:
    """No bias or errors with fewer than two recordings."""
    if len(rows) < 2 * len(FORECAST_BUDGETS):
        return ForecastError()
    actual, odds, density, actions = np.array(rows).T
    columns = np.stack([np.ones_like(odds), odds, density], axis=1)

    def expect(weights: FloatArray) -> FloatArray:
        return 1 / (1 + np.exp(-np.clip(columns @ weights, -30, 30)))

    plain = np.array([0.0, 1.0, 0.0])
    alike = np.array([likeness(density, value).sum() for value in density.tolist()])
    weights = (alike / alike.mean()) ** -RARE
    weights = np.sqrt(weights / weights.mean())
    fitted = least_squares(
        lambda x: np.concatenate([weights * (expect(x) - actual), LEANING * (x - plain)]), plain
    ).x
    expected = expect(fitted)
    units = list(map(spread, expected.tolist(), actions.tolist()))
    off = np.abs(actual - expected) / np.array(units)
    misses = np.round(np.stack([density, odds, off], axis=1), 4).tolist()
    intercept, slope, leaning = fitted.tolist()
    rounded = tuple(Miss(*row) for row in misses)
    return ForecastError(intercept, slope, leaning, rounded, tuple(counts))


def measure_honesty(judged: Sequence[Case]) -> tuple[Honesty, ...]:
    totals = dict.fromkeys(BUDGETS, ForecastCounts())
    for case in judged:
        for row in run_case(case, ["coverage"], BUDGETS):
            totals[row.budget] += row.forecast
    return tuple(
        Honesty(budget, total.forecast, total.forecast - total.bias)
        for budget, total in totals.items()
    )


def mean_coverage(
    judged: Sequence[Case], *, rule: str = "coverage", budgets: Sequence[float] = BUDGETS
) -> dict[float, float]:
    coverages: dict[float, list[float]] = {budget: [] for budget in budgets}
    for case in judged:
        for row in run_case(case, [rule], budgets) if case.actions else ():
            coverages[row.budget].append(row.counts.coverage)
    return {
        budget: float(np.mean(shares)) if shares else math.nan
        for budget, shares in coverages.items()
    }


def choose_separation(judged: Sequence[Case], *, budget: float = 0.25) -> int:
    return max(range(1, 5), key=lambda steps: separated_coverage(judged, steps, budget=budget))


def separated_coverage(judged: Sequence[Case], separation: int, *, budget: float = 0.25) -> float:
    rule = MinimumSeparation(separation)
    coverages = [
        count_picks(case, rule(case.windows, budget=round(budget * len(case.windows)))).coverage
        for case in judged
        if case.actions
    ]
    return float(np.mean(coverages)) if coverages else 0.0


def choose_points(scores: Scores, material: Material) -> tuple[OperatingPoints, Misses]:
    """Closing threshold and median filter are those that need fewest calls at 93 % recall."""
    few, trials = _candidates(scores, 12), []
    for off_share, median in product(OFF_SHARES, MEDIANS):
        points = OperatingPoints((), off_share, median)
        recalls = _recalls(measure_misses(scores, material, points, few), material)
        calls = _calls(scores, material, points.episodes(highest(few, recalls, SHAPE_TARGET)))
        trials.append((calls, -off_share, median, points))
    points = min(trials, key=lambda trial: trial[:3])[3]
    misses = measure_misses(scores, material, points, _candidates(scores, 100))
    recalls = _recalls(misses, material)
    on = tuple((target, highest(misses.thresholds, recalls, target)) for target in TARGETS)
    return OperatingPoints(on, points.off_share, points.median), misses


def measure_misses(
    scores: Scores, material: Material, points: OperatingPoints, thresholds: FloatArray
) -> Misses:
    rules = [replace(points.episodes(on), median=1) for on in thresholds.tolist()]
    rows = []
    for recording in _eventful(material):
        filtered = median_filter(scores[recording.name], size=points.median, mode="nearest")
        rows.append([1 - _recall(filtered, recording, rule) for rule in rules])
    return Misses(thresholds, np.round(np.array(rows), 6))


def _eventful(material: Material) -> list[TrainingRecording]:
    return [recording for _, recording in sorted(material.items()) if recording.actions]


def _candidates(scores: Scores, count: int) -> FloatArray:
    everything = np.concatenate(list(scores.values())).astype(float)
    levels = np.quantile(everything, np.linspace(0, 0.999, count - 1))
    return np.unique(np.concatenate([[0.0], levels]))


def _recall(scores: FloatArray, recording: TrainingRecording, rule: Episodes) -> float:
    begins, ends = rule.edges(scores)
    starts = np.array([action.start for action in recording.actions])
    stops = np.array([action.end for action in recording.actions])
    # Episodes do not overlap, so an action is touched if the first episode that ends after its
    # start begins before its end.
    first = np.searchsorted(ends, starts, side="right")
    return float((np.append(begins, np.inf)[first] < stops).mean())


def _recalls(misses: Misses, material: Material) -> FloatArray:
    weights = recall_weights(_eventful(material))
    recalls: FloatArray = 1 - weights @ misses.shares / weights.sum()
    return recalls


def recall_weights(recordings: Sequence[TrainingRecording]) -> FloatArray:
    weights: FloatArray = np.array(
        [
            len(recording.actions) ** (1 - CROWD) * recording.duration**CROWD
            for recording in recordings
        ]
    )
    return weights


def highest(thresholds: FloatArray, recalls: FloatArray, target: float) -> float:
    """The last of `thresholds` before recall first falls below `target`; at least the first."""
    below = np.flatnonzero(recalls < target)
    last = int(below[0]) - 1 if len(below) else len(thresholds) - 1
    return float(thresholds[max(0, last)])


def _calls(scores: Scores, material: Material, rule: Episodes) -> int:
    grid, total = Grid(), 0
    for name, values in scores.items():
        spans = map(Span, *(side.tolist() for side in rule.edges(values)))
        windows = grid.count(material[name].duration)
        total += count_windows(spans, length=grid.length, windows=windows)
    return total
