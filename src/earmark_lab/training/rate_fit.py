"""Fits rates, the vote of the sound level and lengths of actions to annotated recordings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from earmark.errors import AnnotationError
from earmark.gate.lengths import MEDIAN_LENGTHS, LengthModel, Lengths, describe_level
from earmark.gate.rates import (
    RISING,
    Fit,
    FittedRates,
    Hedge,
    HedgedRates,
    LevelRates,
    RateMap,
    WindowScores,
    describe,
    stand_out,
)
from earmark.grid import Grid
from earmark.timeline import FloatArray, Track
from earmark_lab.metrics.counts import count_starts
from earmark_lab.metrics.statistics import LEAST_SPREAD, fit_poisson
from earmark_lab.training.dataset import Material, TrainingRecording

LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Seconds."""

HALF = 0.1
"""The score that counts as half work, as a share of the median score of windows with a start."""

RIDGE = 30.0
"""In starts; columns are scaled to unit spread."""

CROWD = 0.25
"""Exponent that reduces the weight of recordings with many actions."""

MEDIAN_SIGMA = 0.35
"""Of the logarithm of a recording's median length, around those seen."""

LEAST_LENGTH = 0.05
"""Seconds."""

FEW = 1.0
"""Actions: the median of a recording with so many lies halfway between its own and the usual."""

LENGTH_RIDGE = 2.0
"""In recordings."""

VOTE = 0.25
"""Of the level in the rates: on families of sites left out one by one, mean coverage is 53.3, 53.5,
53.2, 52.9, 52.4 and 50.3 % at 10, 25, 40, 60, 80 and 100 %. The best for a single recording follows
neither from its scores nor from its level (experiments/sites.md)."""

Scores = Mapping[str, FloatArray]
"""At 25 Hz by recording, from the exported gate, which was trained on none of them."""


@dataclass(frozen=True, slots=True)
class Fitted:
    rates: FittedRates
    lengths: LengthModel


def fit_all(
    scores: Scores,
    material: Material,
    names: Sequence[str],
    *,
    windows: Sequence[float] = LENGTHS,
) -> Fitted:
    """Lengths, and rates at their reference."""
    lengths = fit_exponent(scores, material, names, fit_lengths(material, names))
    return Fitted(fit_rates(scores, material, names, lengths.usual, windows), lengths)


def hedged(rates: FittedRates, hedge: Hedge | None) -> RateMap:
    return HedgedRates(rates, hedge) if hedge else rates


def fit_lengths(material: Material, names: Sequence[str]) -> LengthModel:
    """Medians as likely as in the recordings; rates hold at the middle of them.

    The doubt about lengths inferred from the level is that on families
    which the inference was not fitted to; without two families they are not inferred.
    """
    logs = {
        name: np.log([max(action.duration, LEAST_LENGTH) for action in material[name].actions])
        for name in names
        if material[name].actions
    }
    centre = float(np.mean([np.median(each) for each in logs.values()]))
    middle = {
        name: (len(each) * float(np.median(each)) + FEW * centre) / (len(each) + FEW)
        for name, each in logs.items()
    }
    spread = float(np.concatenate([each - np.median(each) for each in logs.values()]).std())
    apart = (np.log(MEDIAN_LENGTHS)[:, None] - np.array(list(middle.values()))) / MEDIAN_SIGMA
    likely = np.exp(-0.5 * apart**2).sum(axis=1) + 1e-9
    usual = Lengths(
        MEDIAN_LENGTHS,
        tuple((likely / likely.sum()).tolist()),
        spread=max(spread, 0.1),
        reference=math.exp(centre),
        exponent=0.0,
    )
    return _inferring(LengthModel(usual), material, middle)


def _inferring(model: LengthModel, material: Material, middle: Mapping[str, float]) -> LengthModel:
    """With a ridge regression of `middle` on what describes the level, if there are families."""
    described = {
        name: row
        for name in middle
        if (level := material[name].level) is not None
        and (row := describe_level(level)) is not None
    }
    family = np.array([material[name].family for name in described])
    if len(np.unique(family)) < 2:
        return model
    rows = np.array([[1.0, *row] for row in described.values()])
    target = np.array([middle[name] for name in described])

    def fit(those: NDArray[np.bool_]) -> FloatArray:
        known, mean = rows[those], target[those].mean()
        penalty = np.diag([0.0] + [LENGTH_RIDGE] * (rows.shape[1] - 1))
        fitted: FloatArray = np.linalg.solve(
            known.T @ known + penalty, known.T @ (target[those] - mean)
        )
        fitted[0] += mean
        return fitted

    squares = np.zeros(len(rows))
    for one in np.unique(family):
        left_out = family == one
        squares[left_out] = (rows[left_out] @ fit(~left_out) - target[left_out]) ** 2
    intercept, *slopes = fit(np.ones(len(rows), dtype=bool)).tolist()
    doubt = math.sqrt(float(squares.mean()))
    return replace(model, intercept=intercept, weights=tuple(slopes), doubt=doubt)


def median_factor(recording: TrainingRecording, usual: Lengths) -> float:
    """Logarithm of its median length relative to the reference; 0 without actions."""
    count = len(recording.actions)
    if not count:
        return 0.0
    lengths = [max(action.duration, LEAST_LENGTH) for action in recording.actions]
    apart = math.log(float(np.median(lengths)) / usual.reference)
    return count / (count + FEW) * apart


def fit_rates(
    scores: Scores,
    material: Material,
    names: Sequence[str],
    usual: Lengths,
    lengths: Sequence[float] = LENGTHS,
) -> FittedRates:
    """At the reference of `usual`."""
    half = HALF * work_score(scores, material, names)
    described = partial(describe, half=half)
    rows = Rows(tracks_of(scores, names), material, usual)
    return FittedRates(tuple(rows.fit(length, described) for length in lengths), half)


def tracks_of(scores: Scores, names: Sequence[str]) -> dict[str, Track]:
    return {name: Track(scores[name]) for name in names}


def fit_exponent(
    scores: Scores, material: Material, names: Sequence[str], lengths: LengthModel
) -> LengthModel:
    """How much fewer actions the same sound holds where they are longer."""
    half = HALF * work_score(scores, material, names)
    rows = Rows(tracks_of(scores, names), material, lengths.usual)

    def described(pooled: WindowScores, factor: float) -> FloatArray:
        return np.column_stack([describe(pooled, half=half), np.full(len(pooled), factor)])

    _, weights = fit_rising(*rows.table(Grid().length, described))
    exponent = float(np.clip(-weights[-1], 0.0, 1.0))
    return replace(lengths, usual=replace(lengths.usual, exponent=exponent))


@dataclass(frozen=True, slots=True)
class Rows:
    """Windows of annotated recordings, for a Poisson regression of the starts of actions."""

    tracks: Mapping[str, Track]
    material: Material
    usual: Lengths

    def table(
        self, length: float, described: Callable[[WindowScores, float], FloatArray]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Rows, weighted starts, and weighted exposures at the reference of the lengths."""
        rows, starts, exposure = [], [], []
        for name, track in self.tracks.items():
            recording = self.material[name]
            pooled, _ = Grid(length).pool(track, recording.duration)
            weight = (1 + len(recording.actions)) ** -CROWD
            factor = median_factor(recording, self.usual)
            rows.append(described(pooled, factor))
            starts.append(weight * count_starts(recording.actions, len(pooled), window=length))
            shrink = weight * math.exp(-self.usual.exponent * factor)
            exposure.append(shrink * exposures(recording.duration, length))
        counts = np.concatenate(starts)
        if not counts.sum() > 0:
            raise AnnotationError("no action starts in the development recordings: nothing to fit")
        total = sum(len(self.material[name].actions) for name in self.tracks)
        weight = total / counts.sum()  # 1 on average
        return np.concatenate(rows), weight * counts, weight * np.concatenate(exposure)

    def fit(self, length: float, described: Callable[[WindowScores], FloatArray]) -> Fit:
        intercept, weights = fit_rising(*self.table(length, lambda pooled, _: described(pooled)))
        return Fit(length, intercept, tuple(weights.tolist()))


def fit_levels(
    material: Material,
    names: Sequence[str],
    usual: Lengths,
    lengths: Sequence[float] = LENGTHS,
) -> LevelRates:
    """The regression of action starts on how far the level of a window stands out."""
    amplitudes = {
        name: Track(10 ** (level.values / 20), hop=level.hop)
        for name in names
        if (level := material[name].level) is not None
    }
    rows = Rows(amplitudes, material, usual)
    return LevelRates(
        tuple(rows.fit(length, lambda pooled: stand_out(pooled)[:, None]) for length in lengths)
    )


def fit_rising(
    rows: FloatArray, counts: FloatArray, exposure: FloatArray
) -> tuple[float, FloatArray]:
    """Poisson regression in which no weight of `RISING` is below 0: such columns are left out."""
    columns = list(range(rows.shape[1]))
    while True:
        intercept, fitted = fit_poisson(
            rows[:, columns], counts, exposure=exposure, ridge=RIDGE, least_spread=LEAST_SPREAD
        )
        falling = [
            (value, column)
            for value, column in zip(fitted, columns, strict=True)
            if column in RISING and value < 0
        ]
        if not falling:
            break
        columns.remove(min(falling)[1])
    weights = np.zeros(rows.shape[1])
    weights[columns] = fitted
    return intercept, weights


def work_score(scores: Scores, material: Material, names: Sequence[str]) -> float:
    """Median of the mean scores of windows in which an action starts; at least 1e-6."""
    means: list[FloatArray] = [np.zeros(0)]
    for name in names:
        pooled, _ = Grid().pool(Track(scores[name]), material[name].duration)
        starts = count_starts(material[name].actions, len(pooled), window=Grid().length)
        means.append(pooled.mean[starts > 0])
    working = np.concatenate(means)
    return max(float(np.median(working)), 1e-6) if len(working) else 1e-6


def exposures(duration: float, length: float) -> FloatArray:
    windows = Grid(length).count(duration)
    seconds: FloatArray = np.minimum(length, duration - np.arange(windows) * length)
    return seconds


def fit_hedge(material: Material, names: Sequence[str], usual: Lengths) -> Hedge | None:
    """None if no level is known."""
    known = [name for name in names if material[name].level is not None]
    if not any(material[name].actions for name in known):
        return None
    return Hedge(fit_levels(material, known, usual), VOTE)
