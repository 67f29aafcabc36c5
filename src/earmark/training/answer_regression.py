"""Rates fitted anew to answers, and held to recordings that nothing of them has met.

    answers of all but one part ──▶ scores ──▶ rates ──▶ that part's answers, how likely
                                      └── of what was fitted without the window's own part

What makes the scores may be the gate as it is, or a head fitted to the same answers
(`earmark.training.site_head`): then the rates are fitted on scores of heads that have not met the
recording, and judged on recordings that neither have met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from scipy.optimize import minimize

from earmark.errors import MediaError
from earmark.gate.episodes import OperatingPoints
from earmark.gate.gate import Gate
from earmark.gate.rates import (
    LEAST_SPREAD,
    MOST,
    RISING,
    Fit,
    FittedRates,
    WindowScores,
    describe,
    nearest,
)
from earmark.gate.recall_promise import Misses
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Meter, open_recording
from earmark.timeline import FloatArray, IndexArray, Track
from earmark.training.answered_windows import PRIOR, AnsweredRecording
from earmark.training.calibration import TARGETS

RIDGE = 20.0
"""How much a squared weight of the rates costs, in answers; columns are of unit spread."""

NEUTRAL = np.array([1 / 3, 1.0, 1.0, 1.0, 0.0, 0.0])
"""Weights of the columns of `describe` that weights are held back by: rates in proportion to the
score (the first column adds three logarithms of it), whatever the time. Those of a base that has
met one kind of recording only may be fitted to chance."""

LEAST, FURTHEST = 1e-4, 12.0
"""Actions expected of a window below and above which its chance is all but 0 or 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Reheard:
    """A recording listened to again, with what was answered about it."""

    part: AnsweredRecording
    features: FloatArray
    """`(steps, channels)`, float16 to halve the memory: an hour of 16 channels is 3 MB."""
    scores: FloatArray
    """Of the base gate, on the 25 Hz clock."""

    def pool(self, scores: FloatArray) -> WindowScores:
        """What each window holds of `scores`."""
        windows = self.part.windows
        return Grid(windows.length).pool(Track(scores), windows.duration)[0]


def hear_again(
    parts: Sequence[AnsweredRecording],
    gate: Gate,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Reheard]:
    """The recordings of `parts` that are still where they were, on the grid of windows."""
    found = []
    for done, part in enumerate(parts):
        watch("listening again", done, len(parts))
        if part.source is None or part.windows.per_call != 1:
            continue
        with suppress(MediaError, OSError):
            recording = open_recording(part.source, audio_track=part.audio_track)
            if recording.key == part.recording:  # else it has changed since
                tracks = gate.encoder()(recording, meter=Meter())
                found.append(rehear(part, np.concatenate([each.values for each in tracks]), gate))
    return found


def rehear(part: AnsweredRecording, features: FloatArray, gate: Gate) -> Reheard:
    """What `gate` makes of `features`."""
    rows = features if features.ndim == 2 else features[:, None]
    scores = gate.scorer.score_whole(rows.astype(np.float32, copy=False))
    return Reheard(part, rows.astype(np.float16), scores)


Scoring = Callable[[Reheard], FloatArray]
"""The scores of a recording, on the 25 Hz clock."""

Fitting = Callable[[Sequence[Reheard]], Scoring]
"""What scores, after it has met some recordings."""

Lengths = Callable[[list[AnsweredRecording]], Survival]
"""How long actions last, by the answers about some recordings."""


def as_before(met: Sequence[Reheard]) -> Scoring:  # noqa: ARG001 - nothing is learnt from them
    """The base gate's own scores."""
    return lambda one: one.scores


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """What answers taught, and what each recording's are by the others' alone."""

    scoring: Scoring
    rates: FittedRates
    survival: Survival
    crossed: list[Scored]
    """Every recording as scored by what has not met it."""
    held: dict[str, FloatArray]
    """Chances of the answered windows of each, by what has not met it."""


def cross_fit(
    heard: Sequence[Reheard],
    gate: Gate,
    fitting: Fitting,
    lengths: Lengths,
    *,
    folds: int,
) -> Taught:
    """Scores, rates and lengths taught by `heard`, and by all but each part of it.

    `fitting` is called without each of `folds` parts, without each pair of them, and once with all.
    """
    parts = [list(heard[first::folds]) for first in range(folds)]

    @cache
    def without(left_out: frozenset[int]) -> Scoring:
        met = [one for place, part in enumerate(parts) if place not in left_out for one in part]
        return fitting(met)

    def crossed(kept_aside: frozenset[int]) -> list[Scored]:
        return [
            Scored(one, without(kept_aside | {place})(one))
            for place, part in enumerate(parts)
            for one in part
            if place not in kept_aside
        ]

    def taught(rows: Sequence[Scored]) -> tuple[FittedRates, Survival]:
        survival = lengths([row.one.part for row in rows])
        return fit_weights(rows, gate.rates, survival), survival

    held = {}
    for place, part in enumerate(parts):
        rates, survival = taught(crossed(frozenset({place})))
        for one in part:
            scored = Scored(one, without(frozenset({place}))(one))
            held[one.part.recording] = one.part.chances(rates(scored.pooled), survival)
    rows = crossed(frozenset())
    return Taught(without(frozenset()), *taught(rows), rows, held)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What the regression reads of one recording: its answers and its new scores."""

    one: Reheard
    scores: FloatArray

    @property
    def pooled(self) -> WindowScores:
        """What each window holds of the new scores."""
        return self.one.pool(self.scores)

    @property
    def worked(self) -> IndexArray:
        """The answered windows in which anything is done."""
        return self.one.part.places[self.one.part.active > 0]


def fit_weights(rows: Sequence[Scored], base: FittedRates, survival: Survival) -> FittedRates:
    """The rates under which the answers are likeliest, held back by `NEUTRAL`.

    A Poisson regression of which only whether there was anything is seen: a window is active with
    the chance `1 - exp(-expected)`, where `expected` counts the actions that start in it and those
    still going. To the weights of every length of window the same is added.
    """
    added = _Regression.of(rows, base, survival).solve()
    fits = tuple(
        Fit(
            fit.length,
            fit.intercept + float(added[0]),
            tuple((np.array(fit.weights) + added[1:]).tolist()),
        )
        for fit in base.fits
    )
    return FittedRates(fits, base.half)


@dataclass(frozen=True, slots=True, eq=False)
class _Regression:
    """The answers as equations: `expected = sum over lags of span * exp(base + x @ added)`."""

    x: FloatArray
    """What is known of an answered window and of those before it, `(answers, lags, columns)`."""
    base: FloatArray
    """Logarithm of the base rate a second of each, `(answers, lags)`."""
    span: FloatArray
    """Seconds of a window by the chance that its actions still go on, 0 before the beginning."""
    yes: FloatArray
    no: FloatArray
    centre: FloatArray
    spread: FloatArray
    weights: FloatArray
    """Of the base, that the ridge counts together with what is added."""

    @classmethod
    def of(cls, rows: Sequence[Scored], rates: FittedRates, survival: Survival) -> _Regression:
        """The equations of `rows`; the base's word is that of its `rates` before the new head."""
        parts = [row.one.part for row in rows]
        lags = max(part.lags(survival)[0].shape[1] for part in parts)
        equations = [_equations(row, rates, survival, lags) for row in rows]
        x, logs, span, before = (np.concatenate(each) for each in zip(*equations, strict=True))
        active = np.concatenate([part.active for part in parts])
        weight = np.concatenate([part.weight for part in parts])
        prior, seen = PRIOR / len(active), x[span > 0]
        return cls(
            x,
            logs,
            span,
            weight * active + prior * before,
            weight * (1 - active) + prior * (1 - before),
            seen.mean(axis=0),
            np.maximum(seen.std(axis=0), LEAST_SPREAD),
            np.array(nearest(rates.fits, parts[0].windows.length).weights),
        )

    def solve(self) -> FloatArray:
        """What is to be added to the intercept and to each weight.

        Those of `RISING` stay at 0 or above: a higher score never means that less is expected.
        """
        lowest = -self.weights * self.spread
        neutral = np.concatenate([[self._level()], (NEUTRAL - self.weights) * self.spread])
        starts = (np.zeros(len(self.weights) + 1), neutral)
        least = [low if column in RISING else -np.inf for column, low in enumerate(lowest)]
        bounds = [(low, np.inf) for low in (-np.inf, *least)]
        found = min(
            (
                minimize(self.cost, each, jac=True, method="L-BFGS-B", bounds=bounds)
                for each in starts
            ),
            key=lambda each: float(each.fun),
        ).x
        added = found[1:] / self.spread
        return np.concatenate([[found[0] - added @ self.centre], added])

    def _level(self) -> float:
        """What brings rates that know no column to the share of active answers."""
        share = float(np.clip(self.yes.sum() / (self.yes + self.no).sum(), 0.01, 0.99))
        seconds = float(self.span.sum(axis=1).mean())
        usual = self.base[self.span > 0].mean()
        return math.log(-math.log1p(-share) / seconds) - float(usual)

    def cost(self, added: FloatArray) -> tuple[float, FloatArray]:
        """The negative log-likelihood an answer with its slope; columns are of unit spread."""
        z = (self.x - self.centre) / self.spread
        logs = self.base + added[0] + z @ added[1:]
        is_cut = logs > math.log(MOST)
        each = self.span * np.exp(np.minimum(logs, math.log(MOST)))
        expected = np.clip(each.sum(axis=1), LEAST, FURTHEST)
        chance = -np.expm1(-expected)
        kept = (self.weights - NEUTRAL) * self.spread + added[1:]
        value = self.no @ expected - self.yes @ np.log(chance) + RIDGE * kept @ kept / 2
        slope = self.no - self.yes * np.exp(-expected) / chance
        moved = np.where(is_cut, 0.0, each) * slope[:, None]
        slopes = np.concatenate([[moved.sum()], np.einsum("al,alc->c", moved, z) + RIDGE * kept])
        count = float((self.yes + self.no).sum())
        return float(value) / count, slopes / count


def _equations(
    row: Scored, rates: FittedRates, survival: Survival, lags: int
) -> tuple[FloatArray, ...]:
    """`x`, `base`, `span` and the base's chances of one recording."""
    part = row.one.part
    steps, reach = part.lags(survival, lags)
    fit = nearest(rates.fits, part.windows.length)
    x = describe(row.pooled, half=rates.half)[steps]
    logs = fit.intercept + x @ np.array(fit.weights)
    before = part.chances(rates(row.one.pool(row.one.scores)), survival, least=1e-3)
    return x, logs, part.windows.length * reach, before


def operating_points(
    rows: Sequence[Scored], base: OperatingPoints
) -> tuple[OperatingPoints, Misses]:
    """Thresholds by the share of active answered windows in which the score reaches them."""
    peaks = [row.pooled.peak[row.worked] for row in rows if len(row.worked)]
    every = np.concatenate(peaks)
    on = tuple(
        (target, float(np.quantile(every, 1 - target, method="lower"))) for target in TARGETS
    )
    thresholds = np.unique(np.append(0.0, np.quantile(every, np.linspace(0, 0.999, 99))))
    shares = np.array([(each[:, None] < thresholds).mean(axis=0) for each in peaks])
    return replace(base, on=on), Misses(thresholds, np.round(shares, 6))
