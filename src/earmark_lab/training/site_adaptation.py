"""Adapts a gate to a site from the answers of runs made there; needs no annotations.

    answers, corrections ──▶ how long actions last ──▶ scale of the rates ──▶ judged on held-out
                             (answers that agree)      (windows with and       answers: written
                                                        without activity)      only if better
                                   many answers ──▶ all rates, a head ──────▶ likewise

With few answers the rates become `exp(intercept) * rate ** slope`, fitted by a Poisson regression
that only observes whether there was any action (Cox's complementary log-log link): a window is
active with the chance `1 - exp(-expected)`, where `expected` is the number of actions that start in
it or still last. The base gate's predictions enter as additional answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from earmark.errors import MediaError, RunError
from earmark.gate.episodes import Misses, OperatingPoints
from earmark.gate.forecast_error import ForecastError
from earmark.gate.gate import Gate, default_gate
from earmark.gate.lengths import LengthModel, Lengths
from earmark.gate.rates import MOST, RISING, Fit, FittedRates, WindowScores, describe, nearest
from earmark.gate.survival import Survival
from earmark.grid import Grid
from earmark.media import Meter, open_recording
from earmark.media.source import is_remote
from earmark.text_format import counted
from earmark.timeline import FloatArray, Track
from earmark_lab.experiments.operating_points import TARGETS
from earmark_lab.metrics.statistics import LEAST_SPREAD
from earmark_lab.training.answered_windows import (
    PARTS,
    AnsweredRecording,
    Gain,
    Part,
    TeachingMaterial,
    base_chances,
    facts_of,
    fit_scale,
    folds_of,
    lags_of,
    learn_lengths,
    measure_gain,
    pieces_of,
    read_answers,
    scaled_chances,
    weigh,
    without,
)
from earmark_lab.training.dataset import Watch

FEWEST = 20

FEWEST_BAGS, FEWEST_RECORDINGS = 20, 3
"""Active and idle windows each, and recordings, for more than a scale."""

ENOUGH = (
    f"{FEWEST_BAGS} active and {FEWEST_BAGS} idle windows in {FEWEST_RECORDINGS} recordings that "
    "are where they were"
)

HEAD_FOLDS = 5

MOST_CAPPED = 0.2
"""Share of the answered windows with rates cut to `MOST`: these cannot be scaled."""

RIDGE = 20.0
"""In answers; columns are scaled to unit spread."""

NEUTRAL = np.array([1 / 3, 1.0, 1.0, 1.0, 0.0, 0.0])
"""The penalty draws the weights of `describe` towards rates in proportion to the score."""

LEAST, FURTHEST = 1e-4, 12.0
"""Bounds of expected actions in a window."""


@dataclass(frozen=True, slots=True, eq=False)
class Adaptation:
    answers: int
    """By a model, not corrected."""
    corrections: int
    recordings: int
    unlike: int
    active: float
    """Share of the answered windows, weighted: corrections count more."""
    expected: float
    gain: Gain
    learnt: str
    headless: str
    """What is missing to fit a head, as text; empty if one was tried."""
    median_before: float
    """Seconds."""
    median: float
    gate: Gate | None
    """None if it is not better than the base."""

    @property
    def teachers(self) -> str:
        answers, corrections, recordings = (
            counted(getattr(self, f"{name}s"), name)
            for name in ("answer", "correction", "recording")
        )
        return f"{answers} and {corrections} in {recordings}"


def adapt(
    runs: Sequence[Path],
    *,
    gate: Gate | None = None,
    out: Path | None = None,
    watch: Watch = lambda *_: None,
) -> Adaptation:
    """`gate` is the one the runs were made with, None for the built-in one.

    The new one is written to `out` only if it is better on held-out answers.
    """
    base = gate or default_gate()
    adaptation = learn(read_answers(runs, base), base, watch=watch)
    if out is not None and adaptation.gate is not None:
        adaptation.gate.save(out)
    return adaptation


def learn(
    material: TeachingMaterial,
    base: Gate,
    *,
    heard: Sequence[Reheard] | None = None,
    watch: Watch = lambda *_: None,
) -> Adaptation:
    """`heard` are the recordings of `material` with their sound; None listens to them again."""
    parts = list(material.recordings)
    active = [answer.is_active for part in parts for answer in part.answers]
    if len(active) < FEWEST:
        raise RunError(
            f"{len(active)} windows have an answer that says whether anything is done, and "
            f"adapting takes {FEWEST}: ask more with `earmark caption`, or give more runs"
        )
    fewer = min(sum(active), len(active) - sum(active))
    if len(parts) < FEWEST_RECORDINGS or fewer < FEWEST_BAGS:
        heard = ()
    elif heard is None:
        heard = hear_again(parts, base, watch)
    is_cut = [
        part.windows.rates[part.places] >= MOST * part.windows.length * (1 - 1e-9) for part in parts
    ]
    capped = float(np.mean(np.concatenate(is_cut)))
    candidates = [_scale(parts, base)] if capped <= MOST_CAPPED else []
    headless = ENOUGH
    if len(heard) >= FEWEST_RECORDINGS:
        has_torch = find_spec("torch") is not None and find_spec("onnx") is not None
        headless = "" if has_torch else "`pip install 'earmark-lab[torch]'`"
        watch("fitting rates", 0, 1)
        taught = cross_fit(heard, base, as_before)
        candidates.append(Candidate("rates fitted anew", taught.gain, taught.refitted(base)))
    if not headless:
        candidates += _fit_heads(heard, base, watch)
    if not candidates:
        raise RunError(
            f"the gate expects the most it can ({MOST:g} starts a second) of {capped:.0%} of these "
            f"windows, so its rates cannot be scaled, and fitting them anew takes {ENOUGH}: start "
            "from another gate"
        )
    better = [candidate for candidate in candidates if candidate.gain.is_one]
    best = max(better or candidates, key=lambda candidate: candidate.gain.mean)
    return _summarise(material, base, best, headless)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    learnt: str
    gain: Gain
    gate: Gate


def known_lengths(survival: Survival) -> LengthModel:
    """Rates fitted together with `survival` hold unchanged at its median."""
    median = survival.median
    return LengthModel(Lengths((median,), (1.0,), reference=median, origin="from answers"))


def _scale(parts: Part, base: Gate) -> Candidate:
    curve = base.lengths.curve
    survival = learn_lengths(parts, curve)
    rates = fit_scale(parts, survival).applied(base.rates)
    judged, folds = [], folds_of(parts)
    for fold in folds:
        rest = without(parts, fold)
        lasting = learn_lengths(rest, curve)
        scale = fit_scale(rest, lasting)
        for piece in pieces_of(fold, math.ceil(PARTS / len(folds))):
            new = scaled_chances(scale, *lags_of(piece, lasting))
            judged.append((base_chances(piece, curve), new, *facts_of(piece)))
    gate = replace(base, rates=rates, hedge=None, lengths=known_lengths(survival))
    return Candidate("rates scaled", measure_gain(judged), gate)


def _fit_heads(heard: Sequence[Reheard], base: Gate, watch: Watch) -> Iterator[Candidate]:
    from earmark_lab.training.site_head import POOLINGS, SiteHead, fit_context, with_head  # PyTorch

    channels = int(base.card.settings.get("context_channels") or base.card.channels)
    folds = min(HEAD_FOLDS, len(heard))
    done, total = 0, len(POOLINGS) * (folds * (folds + 1) // 2 + 1)

    def fit_head(training: Sequence[Reheard], pooling: str) -> SiteHead:
        nonlocal done
        watch("fitting a head", done, total)
        done += 1
        return fit_context(training, channels, POOLINGS[pooling])

    for pooling in POOLINGS:
        taught = cross_fit(heard, base, partial(fit_head, pooling=pooling))
        assert isinstance(taught.scoring, SiteHead)
        points, misses = operating_points(taught.crossed, base.points)
        gate = replace(with_head(base, taught.scoring), points=points, misses=misses)
        learnt = f"head (windows pooled by {pooling}) and rates fitted anew"
        yield Candidate(learnt, taught.gain, taught.refitted(gate))


def _summarise(
    material: TeachingMaterial, base: Gate, best: Candidate, headless: str
) -> Adaptation:
    """The gate has no forecast errors: those of the new rates were not measured."""
    parts = list(material.recordings)
    active, weight = facts_of(parts)
    corrected = sum(answer.is_corrected for part in parts for answer in part.answers)
    adaptation = Adaptation(
        answers=len(active) - corrected,
        corrections=corrected,
        recordings=len(parts),
        unlike=material.unlike,
        active=float(active @ weight / weight.sum()),
        expected=float(base_chances(parts, base.lengths.curve) @ weight / weight.sum()),
        gain=best.gain,
        learnt=best.learnt,
        headless=headless,
        median_before=base.lengths.usual.median,
        median=best.gate.lengths.usual.median,
        gate=None,
    )
    if not best.gain.is_one:
        return adaptation
    names = ("learnt", "answers", "corrections", "recordings", "median")
    facts = {name: getattr(adaptation, name) for name in names} | {"gain": best.gain.mean}
    before = base.card.settings
    card = replace(
        best.gate.card,
        data=f"{base.card.data}; {best.learnt} by {adaptation.teachers}",
        settings={**before, "adapted": [*before.get("adapted", ()), facts]},
        honesty=(),
    )
    return replace(adaptation, gate=replace(best.gate, card=card, error=ForecastError()))


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
    parts: Sequence[AnsweredRecording], gate: Gate, watch: Watch = lambda *_: None
) -> list[Reheard]:
    """Recordings that moved, changed or cannot be read are left out, and so are addresses."""
    recordings = []
    for done, part in enumerate(parts):
        watch("listening again", done, len(parts))
        if part.source is None or any(map(is_remote, part.source.uris)):
            continue  # a run may come from anybody: no address that it names is asked
        with suppress(MediaError, OSError):
            recording = open_recording(part.source, audio_track=part.audio_track)
            if recording.key == part.recording:  # else it has changed since
                tracks = gate.encoder()(recording, meter=Meter())
                rows = np.concatenate([track.values for track in tracks]).astype(np.float32)
                rows = rows if rows.ndim == 2 else rows[:, None]
                scores = gate.scorer.score_whole(rows)
                recordings.append(Reheard(part, rows.astype(np.float16), scores))
    return recordings


Scoring = Callable[[Reheard], FloatArray]

Fitting = Callable[[Sequence[Reheard]], Scoring]


def as_before(_training: Sequence[Reheard]) -> Scoring:
    return lambda recording: recording.scores


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    recording: Reheard
    scores: FloatArray

    @property
    def pooled(self) -> WindowScores:
        return self.recording.pool(self.scores)


@dataclass(frozen=True, slots=True, eq=False)
class Taught:
    scoring: Scoring
    rates: FittedRates
    survival: Survival
    crossed: list[Scored]
    """By a scorer fitted without the recording."""
    gain: Gain
    """Of scorer and rates fitted without the recording."""

    def refitted(self, gate: Gate) -> Gate:
        return replace(gate, rates=self.rates, hedge=None, lengths=known_lengths(self.survival))


def cross_fit(heard: Sequence[Reheard], gate: Gate, fitting: Fitting) -> Taught:
    """Judged on recordings that neither scorer nor rates were fitted on.

    recordings of all but one fold ──▶ scores ──▶ rates ──▶ likelihood of that fold's answers
                                         └── by a scorer fitted without the window's own fold
    """
    count = min(HEAD_FOLDS, len(heard))
    folds = [list(heard[first::count]) for first in range(count)]

    @cache
    def fit_without(left_out: frozenset[int]) -> Scoring:
        rest = [fold for number, fold in enumerate(folds) if number not in left_out]
        return fitting([recording for fold in rest for recording in fold])

    def crossed(held_out: frozenset[int]) -> list[Scored]:
        return [
            Scored(recording, fit_without(held_out | {number})(recording))
            for number, fold in enumerate(folds)
            for recording in fold
            if number not in held_out
        ]

    def fit_rows(rows: Sequence[Scored]) -> tuple[FittedRates, Survival]:
        survival = learn_lengths([row.recording.part for row in rows], gate.lengths.curve)
        return fit_weights(rows, gate.rates, survival), survival

    chances = {}
    for number, fold in enumerate(folds):
        rates, survival = fit_rows(crossed(frozenset({number})))
        for recording in fold:
            scored = Scored(recording, fit_without(frozenset({number}))(recording))
            part = recording.part
            chances[part.recording] = part.chances(rates(scored.pooled), survival)
    judged = []
    for part in (recording.part for recording in heard):
        old = part.chances(part.windows.rates, gate.lengths.curve)
        judged.append((old, chances[part.recording], part.active, part.weight))
    rows = crossed(frozenset())
    return Taught(fit_without(frozenset()), *fit_rows(rows), rows, measure_gain(judged))


def fit_weights(rows: Sequence[Scored], base: FittedRates, survival: Survival) -> FittedRates:
    """The rates of highest likelihood, with a penalty towards `NEUTRAL`.

    Expected actions of an answer are `sum over lags of span * exp(log(base rate) + x @ added)`.
    Weights of `RISING` columns stay above 0.
    """
    parts = [row.recording.part for row in rows]
    lags = max(part.lags(survival)[0].shape[1] for part in parts)
    equations = [_equations(row, base, survival, lags) for row in rows]
    x, base_logs, span, before = (
        np.concatenate(columns) for columns in zip(*equations, strict=True)
    )
    yes, no = weigh(parts, before)
    count, is_lag = float((yes + no).sum()), span > 0
    centre, spread = x[is_lag].mean(axis=0), np.maximum(x[is_lag].std(axis=0), LEAST_SPREAD)
    z = (x - centre) / spread
    weights = np.array(nearest(base.fits, parts[0].windows.length).weights)

    def cost(added: FloatArray) -> tuple[float, FloatArray]:
        logs = base_logs + added[0] + z @ added[1:]
        is_cut = logs > math.log(MOST)
        starts = span * np.exp(np.minimum(logs, math.log(MOST)))
        expected = np.clip(starts.sum(axis=1), LEAST, FURTHEST)
        chance = -np.expm1(-expected)
        off = (weights - NEUTRAL) * spread + added[1:]
        value = no @ expected - yes @ np.log(chance) + RIDGE * off @ off / 2
        slope = no - yes * np.exp(-expected) / chance
        moved = np.where(is_cut, 0.0, starts) * slope[:, None]
        slopes = np.concatenate([[moved.sum()], np.einsum("al,alc->c", moved, z) + RIDGE * off])
        return float(value) / count, slopes / count

    share = float(np.clip(yes.sum() / (yes + no).sum(), 0.01, 0.99))
    seconds, usual = float(span.sum(axis=1).mean()), float(base_logs[is_lag].mean())
    level = math.log(-math.log1p(-share) / seconds) - usual
    neutral = np.concatenate([[level], (NEUTRAL - weights) * spread])
    lowest = -weights * spread
    least = [low if column in RISING else -np.inf for column, low in enumerate(lowest)]
    bounds = [(low, np.inf) for low in (-np.inf, *least)]
    solutions = [
        minimize(cost, start, jac=True, method="L-BFGS-B", bounds=bounds)
        for start in (np.zeros(len(weights) + 1), neutral)
    ]
    best = min(solutions, key=lambda solution: float(solution.fun)).x
    added = best[1:] / spread
    intercept = float(best[0] - added @ centre)
    fits = (
        Fit(
            fit.length,
            fit.intercept + intercept,
            tuple((np.array(fit.weights) + added).tolist()),
        )
        for fit in base.fits
    )
    return FittedRates(tuple(fits), base.half)


def _equations(
    row: Scored, rates: FittedRates, survival: Survival, lags: int
) -> tuple[FloatArray, ...]:
    """Columns, `(answers, lags, columns)`, log base rates, seconds with reach, base chances."""
    part = row.recording.part
    steps, reach = part.lags(survival, lags)
    fit = nearest(rates.fits, part.windows.length)
    x = describe(row.pooled, half=rates.half)[steps]
    logs = fit.intercept + x @ np.array(fit.weights)
    pooled = row.recording.pool(row.recording.scores)
    return x, logs, part.windows.length * reach, part.chances(rates(pooled), survival, least=1e-3)


def operating_points(
    rows: Sequence[Scored], base: OperatingPoints
) -> tuple[OperatingPoints, Misses]:
    parts = ((row.pooled.peak, row.recording.part) for row in rows)
    peaks = [peak[part.places[part.active > 0]] for peak, part in parts if part.active.any()]
    every = np.concatenate(peaks)
    on = tuple(
        (target, float(np.quantile(every, 1 - target, method="lower"))) for target in TARGETS
    )
    thresholds = np.unique(np.append(0.0, np.quantile(every, np.linspace(0, 0.999, 99))))
    shares = np.array([(values[:, None] < thresholds).mean(axis=0) for values in peaks])
    return replace(base, on=on), Misses(thresholds, np.round(shares, 6))
