"""Rates and lengths of actions fitted to answers, and judged on recordings they were not fitted on.

answers of all but one part ──▶ scores ──▶ rates ──▶ likelihood of that part's answers
                                  └── by a scorer fitted without the window's own part
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.optimize import minimize

from earmark.captioning.answer_schema import same_activity
from earmark.errors import MediaError
from earmark.gate.episodes import Misses, OperatingPoints
from earmark.gate.gate import Gate
from earmark.gate.rates import (
    MOST,
    RISING,
    Fit,
    FittedRates,
    WindowScores,
    describe,
    nearest,
)
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Meter, open_recording
from earmark.timeline import FloatArray, Track
from earmark_lab.experiments.operating_points import TARGETS
from earmark_lab.metrics.statistics import LEAST_SPREAD
from earmark_lab.training.answered_windows import (
    PRIOR,
    AnsweredRecording,
    Part,
    folds_of,
    measure_gain,
    without,
)

RIDGE = 20.0
"""In answers; columns are scaled to unit spread."""

NEUTRAL = np.array([1 / 3, 1.0, 1.0, 1.0, 0.0, 0.0])
"""The penalty draws the weights of `describe` towards rates in proportion to the score."""

LEAST, FURTHEST = 1e-4, 12.0

FEWEST_PAIRS = 30

LONGEST_GAP = 120.0
"""Seconds between neighbouring answers."""

STRETCHES = np.geomspace(1, 16, 33)
"""Never shorter: answers that name one action twice look like short actions."""

AGREEMENTS = np.linspace(0.8, 0.98, 10)
"""Not lower: names that recur now and then would look like one long action, often misnamed."""


@dataclass(frozen=True, slots=True, eq=False)
class Reheard:
    part: AnsweredRecording
    features: FloatArray
    """`(steps, channels)`, float16."""
    scores: FloatArray
    """Of the base gate, at 25 Hz."""

    def pool(self, scores: FloatArray) -> WindowScores:
        windows = self.part.windows
        return Grid(windows.length).pool(Track(scores), windows.duration)[0]


def hear_again(
    parts: Sequence[AnsweredRecording],
    gate: Gate,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Reheard]:
    """Listen again; recordings that moved, changed or cannot be read are left out."""
    found = []
    for done, part in enumerate(parts):
        watch("listening again", done, len(parts))
        if part.source is None:
            continue
        with suppress(MediaError, OSError):
            recording = open_recording(part.source, audio_track=part.audio_track)
            if recording.key == part.recording:  # else it has changed since
                tracks = gate.encoder()(recording, meter=Meter())
                rows = np.concatenate([each.values for each in tracks]).astype(np.float32)
                rows = rows if rows.ndim == 2 else rows[:, None]
                scores = gate.scorer.score_whole(rows)
                found.append(Reheard(part, rows.astype(np.float16), scores))
    return found


Scoring = Callable[[Reheard], FloatArray]

Fitting = Callable[[Sequence[Reheard]], Scoring]


def as_before(_training: Sequence[Reheard]) -> Scoring:
    return lambda one: one.scores


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    scoring: Scoring
    rates: FittedRates
    survival: Survival
    crossed: list[Scored]
    """By a scorer fitted without the recording."""
    held: dict[str, FloatArray]
    """By recording, from scorer and rates fitted without it."""


def cross_fit(heard: Sequence[Reheard], gate: Gate, fitting: Fitting, *, folds: int) -> Taught:
    parts = [list(heard[first::folds]) for first in range(folds)]

    @cache
    def fit_without(left_out: frozenset[int]) -> Scoring:
        kept = [one for place, part in enumerate(parts) if place not in left_out for one in part]
        return fitting(kept)

    def crossed(held_out: frozenset[int]) -> list[Scored]:
        return [
            Scored(one, fit_without(held_out | {place})(one))
            for place, part in enumerate(parts)
            for one in part
            if place not in held_out
        ]

    def fit_rows(rows: Sequence[Scored]) -> tuple[FittedRates, Survival]:
        survival = learn_lengths([row.one.part for row in rows], gate.survival)
        return fit_weights(rows, gate.rates, survival), survival

    held = {}
    for place, part in enumerate(parts):
        rates, survival = fit_rows(crossed(frozenset({place})))
        for one in part:
            scored = Scored(one, fit_without(frozenset({place}))(one))
            held[one.part.recording] = one.part.chances(rates(scored.pooled), survival)
    rows = crossed(frozenset())
    return Taught(fit_without(frozenset()), *fit_rows(rows), rows, held)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    one: Reheard
    scores: FloatArray

    @property
    def pooled(self) -> WindowScores:
        return self.one.pool(self.scores)


def fit_weights(rows: Sequence[Scored], base: FittedRates, survival: Survival) -> FittedRates:
    """The rates of highest likelihood, with a penalty towards `NEUTRAL`; see `site_adaptation`."""
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
    """Expected actions of an answer: `sum over lags of span * exp(base + x @ added)`."""

    x: FloatArray
    """`(answers, lags, columns)`, of answered windows and those before."""
    base: FloatArray
    """Logarithm, `(answers, lags)`."""
    span: FloatArray
    """Seconds of a window times the chance that its actions still last; 0 before the start."""
    yes: FloatArray
    no: FloatArray
    centre: FloatArray
    spread: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, rows: Sequence[Scored], rates: FittedRates, survival: Survival) -> _Regression:
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
        """Values to add to the intercept and to each weight; those of `RISING` stay above 0."""
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
        share = float(np.clip(self.yes.sum() / (self.yes + self.no).sum(), 0.01, 0.99))
        seconds = float(self.span.sum(axis=1).mean())
        usual = self.base[self.span > 0].mean()
        return math.log(-math.log1p(-share) / seconds) - float(usual)

    def cost(self, added: FloatArray) -> tuple[float, FloatArray]:
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
    parts = ((row.pooled.peak, row.one.part) for row in rows)
    peaks = [peak[part.places[part.active > 0]] for peak, part in parts if part.active.any()]
    every = np.concatenate(peaks)
    on = tuple(
        (target, float(np.quantile(every, 1 - target, method="lower"))) for target in TARGETS
    )
    thresholds = np.unique(np.append(0.0, np.quantile(every, np.linspace(0, 0.999, 99))))
    shares = np.array([(each[:, None] < thresholds).mean(axis=0) for each in peaks])
    return replace(base, on=on), Misses(thresholds, np.round(shares, 6))


def learn_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve if the fitted one is no gain on held-out answers."""
    if len(_Pairs.of(parts)) < FEWEST_PAIRS:
        return survival
    judged = []
    for fold in folds_of(parts):
        held, rest = _Pairs.of(fold), _Pairs.of(without(parts, fold))
        if len(held) and len(rest):
            old, new = (
                rest.chances(curve, held.apart, rest.agreement(curve))
                for curve in (survival, rest.fit(survival))
            )
            judged.append((old, new, held.same, np.ones(len(held))))
    return fit_lengths(parts, survival) if judged and measure_gain(judged).is_one else survival


def fit_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve stretched to the highest likelihood; the base enters as `PRIOR` more pairs."""
    return _Pairs.of(parts).fit(survival)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    apart: FloatArray
    same: FloatArray
    again: float
    """Probability that two answers agree because the action was taken up again."""

    def __len__(self) -> int:
        return len(self.apart)

    @classmethod
    def of(cls, parts: Part) -> _Pairs:
        apart, same = [], []
        for one in parts:
            for first, last in pairwise(one.answers):
                spans = one.windows.span(first.window), one.windows.span(last.window)
                gap = spans[1].start - (spans[0].start + spans[0].end) / 2
                if first.activity and last.activity is not None and 0 < gap <= LONGEST_GAP:
                    is_same = last.activity and same_activity(first.activity, last.activity)
                    apart.append(gap)
                    same.append(float(bool(is_same)))
        return cls(np.array(apart), np.array(same), _recurrence(parts))

    def chances(self, curve: Survival, apart: FloatArray, share: FloatArray | float) -> FloatArray:
        chance = self.again + (1 - self.again) * share * curve.remaining(apart)
        return np.clip(chance, 1e-6, 1 - 1e-6)

    def fit(self, survival: Survival) -> Survival:
        prior, shares = PRIOR / len(self), AGREEMENTS[:, None]
        base = self.chances(survival, self.apart, shares)  # (agreements, pairs)
        yes, no = self.same + prior * base, 1 - self.same + prior * (1 - base)

        def likelihood(stretch: float) -> float:
            chance = self.chances(survival, self.apart / stretch, shares)
            return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

        return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))

    def agreement(self, curve: Survival) -> float:
        chances = self.chances(curve, self.apart, AGREEMENTS[:, None])
        logs = np.log(chances) @ self.same + np.log1p(-chances) @ (1 - self.same)
        return float(AGREEMENTS[np.argmax(logs)])


def _recurrence(parts: Part) -> float:
    """Share of answers that agree with the last but one when the one between differs."""
    found = [0.0]
    for one in parts:
        names = [(each.activity, one.windows.span(each.window).start) for each in one.answers]
        triples = zip(names, names[1:], names[2:], strict=False)
        for (first, begin), (other, _), (last, end) in triples:
            is_near = end - begin <= LONGEST_GAP
            if is_near and first and other and last and not same_activity(first, other):
                found.append(float(same_activity(first, last)))
    return float(np.mean(found))
