"""Rates and lengths of actions fitted to answers, and judged on recordings they were not fitted on.

    answers of all but one part ──▶ scores ──▶ rates ──▶ likelihood of that part's answers
                                      └── by a scorer fitted without the window's own part

The scorer is the gate's own, or a head fitted to the same answers (`earmark.training.site_head`).
Then the rates are fitted on scores of heads that were fitted without the recording, and judged on
recordings that neither were fitted on.
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

from earmark.captioning.activity import same_activity
from earmark.errors import MediaError
from earmark.evaluation.paper.operating_points import TARGETS
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
from earmark.timeline import FloatArray, Track
from earmark.training.answered_windows import (
    PRIOR,
    AnsweredRecording,
    Part,
    folds_of,
    measure_gain,
    without,
)

RIDGE = 20.0
"""Penalty on a squared weight of the rates, in answers; columns are scaled to unit spread."""

NEUTRAL = np.array([1 / 3, 1.0, 1.0, 1.0, 0.0, 0.0])
"""Weights of the columns of `describe` that the penalty draws towards: rates in proportion to the
score (the first column adds three logarithms of it), independent of time. A base trained on only
one kind of recording may have weights fitted to noise, so those are not used."""

LEAST, FURTHEST = 1e-4, 12.0
"""Limits to which the expected actions of a window are clipped; its chance is then near 0 or 1."""

FEWEST_PAIRS = 30
"""Least number of pairs of neighbouring answers to learn lengths from."""

LONGEST_GAP = 120.0
"""Longest gap in seconds between neighbouring answers that are used: beyond it, agreement says
little."""

STRETCHES = np.geomspace(1, 16, 33)
"""Factors by which actions may last longer than by the base gate. Never shorter: answers that give
one action two names look like short actions."""

AGREEMENTS = np.linspace(0.8, 0.98, 10)
"""Probabilities tried for two answers about the same action to agree. With lower ones, names that
recur now and then would look like one long action that is often misnamed."""


@dataclass(frozen=True, slots=True, eq=False)
class Reheard:
    """A recording listened to again, with its answers."""

    part: AnsweredRecording
    features: FloatArray
    """`(steps, channels)`, float16 to halve the memory: an hour of 16 channels is 3 MB."""
    scores: FloatArray
    """Scores of the base gate, at 25 Hz."""

    def pool(self, scores: FloatArray) -> WindowScores:
        """Largest and mean of `scores` in each window."""
        windows = self.part.windows
        return Grid(windows.length).pool(Track(scores), windows.duration)[0]


def hear_again(
    parts: Sequence[AnsweredRecording],
    gate: Gate,
    watch: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Reheard]:
    """Listen again to the recordings of `parts`; those that cannot be used are left out.

    Left out are recordings that moved, changed or cannot be read, and windows off the grid.
    """
    found = []
    for done, part in enumerate(parts):
        watch("listening again", done, len(parts))
        if part.source is None or part.windows.per_call != 1:
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
"""Gives the scores of a recording, at 25 Hz."""

Fitting = Callable[[Sequence[Reheard]], Scoring]
"""Fits a scorer to recordings."""


def as_before(training: Sequence[Reheard]) -> Scoring:  # noqa: ARG001 - nothing is learnt from them
    """A scorer that gives the base gate's scores, whatever the recordings."""
    return lambda one: one.scores


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    """Scorer, rates and lengths fitted to all answers, and predictions for held-out recordings."""

    scoring: Scoring
    rates: FittedRates
    survival: Survival
    crossed: list[Scored]
    """Each recording with the scores of a scorer fitted without it."""
    held: dict[str, FloatArray]
    """Chances of the answered windows by recording, from scorer and rates fitted without it."""


def cross_fit(heard: Sequence[Reheard], gate: Gate, fitting: Fitting, *, folds: int) -> Taught:
    """Scorer, rates and lengths fitted to `heard`, and to all but each of `folds` parts of it.

    `fitting` is called without each part, without each pair of parts, and once with all.
    """
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
    """Input of the regression for one recording: its answers and its new scores."""

    one: Reheard
    scores: FloatArray

    @property
    def pooled(self) -> WindowScores:
        """Largest and mean of the new scores in each window."""
        return self.one.pool(self.scores)


def fit_weights(rows: Sequence[Scored], base: FittedRates, survival: Survival) -> FittedRates:
    """The rates of highest likelihood given the answers, with a penalty towards `NEUTRAL`.

    A Poisson regression that only observes whether there was any action: a window is active with
    the chance `1 - exp(-expected)`, where `expected` is the number of actions that start in it or
    still last. The same change is added to the weights for each window length.
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
    """Columns of `describe` for answered windows and those before, `(answers, lags, columns)`."""
    base: FloatArray
    """Logarithm of the base rate a second of each, `(answers, lags)`."""
    span: FloatArray
    """Seconds of a window times the chance that its actions still last; 0 before the start."""
    yes: FloatArray
    """Weight of active answers, by answer, with the prior's share."""
    no: FloatArray
    """Weight of idle answers, likewise."""
    centre: FloatArray
    spread: FloatArray
    weights: FloatArray
    """Weights of the base; the penalty is on their sum with what is added."""

    @classmethod
    def of(cls, rows: Sequence[Scored], rates: FittedRates, survival: Survival) -> _Regression:
        """The equations of `rows`; the prior is the base's `rates` with the base gate's scores."""
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
        """The values to add to the intercept and to each weight.

        Weights of `RISING` stay at 0 or above: a higher score never lowers the rate.
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
        """The change of intercept with which constant rates give the share of active answers."""
        share = float(np.clip(self.yes.sum() / (self.yes + self.no).sum(), 0.01, 0.99))
        seconds = float(self.span.sum(axis=1).mean())
        usual = self.base[self.span > 0].mean()
        return math.log(-math.log1p(-share) / seconds) - float(usual)

    def cost(self, added: FloatArray) -> tuple[float, FloatArray]:
        """Penalised negative log-likelihood an answer, and its gradient, for scaled columns."""
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
    """Operating points by recall of active answered windows: those whose peak score reaches them.

    Also the share of such windows that each threshold misses in each recording.
    """
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
    """How long actions last, from how far apart agreeing answers are.

    The base curve itself with too few pairs, or without gain on held-out answers.
    """
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
    """The base curve, stretched by the factor of highest likelihood given the answers of `parts`.

    The base enters as `PRIOR` more pairs, spread evenly. Needs at least one pair.
    """
    return _Pairs.of(parts).fit(survival)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Answers about active windows, each with the next answer of its recording."""

    apart: FloatArray
    """Seconds from the middle of the window to the next answer, `(pairs,)`."""
    same: FloatArray
    """Whether the two agree, 1 or 0, `(pairs,)`."""
    again: float
    """Probability that two answers agree because the action was taken up again."""

    def __len__(self) -> int:
        return len(self.apart)

    @classmethod
    def of(cls, parts: Part) -> _Pairs:
        """The pairs of `parts` at most `LONGEST_GAP` apart."""
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
        """Probability that answers `apart` agree, if the lengths of actions follow `curve`.

        `share` is the probability to agree about the same action.
        """
        chance = self.again + (1 - self.again) * share * curve.remaining(apart)
        return np.clip(chance, 1e-6, 1 - 1e-6)

    def fit(self, survival: Survival) -> Survival:
        """The curve of `fit_lengths`."""
        prior, shares = PRIOR / len(self), AGREEMENTS[:, None]
        base = self.chances(survival, self.apart, shares)  # (agreements, pairs)
        yes, no = self.same + prior * base, 1 - self.same + prior * (1 - base)

        def likelihood(stretch: float) -> float:
            chance = self.chances(survival, self.apart / stretch, shares)
            return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

        return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))

    def agreement(self, curve: Survival) -> float:
        """The likeliest of `AGREEMENTS`, if the lengths of actions follow `curve`."""
        chances = self.chances(curve, self.apart, AGREEMENTS[:, None])
        logs = np.log(chances) @ self.same + np.log1p(-chances) @ (1 - self.same)
        return float(AGREEMENTS[np.argmax(logs)])


def _recurrence(parts: Part) -> float:
    """Share of answers that agree with the last but one where the answer between them differs.

    Then the action ended and was taken up again: a cook washes, puts away and washes. Without this,
    repeated actions would look like one long action. One disagreement is added, so the share is 0
    if there are no such answers.
    """
    found = [0.0]
    for one in parts:
        names = [(each.activity, one.windows.span(each.window).start) for each in one.answers]
        triples = zip(names, names[1:], names[2:], strict=False)
        for (first, begin), (other, _), (last, end) in triples:
            is_near = end - begin <= LONGEST_GAP
            if is_near and first and other and last and not same_activity(first, other):
                found.append(float(same_activity(first, last)))
    return float(np.mean(found))
