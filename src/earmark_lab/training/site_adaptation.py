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
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from earmark.errors import RunError
from earmark.gate.forecast_error import ForecastError
from earmark.gate.gate import Gate, default_gate
from earmark.gate.rates import MOST, Fit, FittedRates
from earmark.gate.survival import Survival
from earmark.text_format import counted
from earmark.timeline import FloatArray
from earmark_lab.training.answer_regression import (
    Fitting,
    Reheard,
    Taught,
    as_before,
    cross_fit,
    hear_again,
    learn_lengths,
    operating_points,
)
from earmark_lab.training.answered_windows import (
    PARTS,
    PRIOR,
    Gain,
    Part,
    TeachingMaterial,
    folds_of,
    measure_gain,
    pieces_of,
    read_answers,
    without,
)

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

Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class RateScale:
    """`log(rate) = intercept + slope * log(base rate)`, in starts a second."""

    intercept: float = 0.0
    slope: float = 1.0

    def applied(self, rates: FittedRates) -> FittedRates:
        fits = (
            Fit(
                fit.length,
                self.intercept + self.slope * fit.intercept,
                tuple(self.slope * weight for weight in fit.weights),
            )
            for fit in rates.fits
        )
        return FittedRates(tuple(fits), rates.half)


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
    made = learn(read_answers(runs, base), base, watch=watch)
    if out is not None and made.gate is not None:
        made.gate.save(out)
    return made


def learn(
    material: TeachingMaterial,
    base: Gate,
    *,
    heard: Sequence[Reheard] | None = None,
    watch: Watch = lambda *_: None,
) -> Adaptation:
    everything = list(material.recordings)
    if (count := sum(len(one.answers) for one in everything)) < FEWEST:
        raise RunError(
            f"{count} windows have an answer that says whether anything is done, and adapting "
            f"takes {FEWEST}: ask more with `earmark caption`, or give more runs"
        )
    reheard = _reheard(everything, base, heard, watch)
    is_cut = [
        one.windows.rates[one.places] >= MOST * one.windows.length * (1 - 1e-9)
        for one in everything
    ]
    capped = float(np.mean(np.concatenate(is_cut)))
    found = [_scaled(everything, base)] if capped <= MOST_CAPPED else []
    headless = (
        ENOUGH if not reheard else "" if has_torch() else "`pip install 'earmark-lab[torch]'`"
    )
    if reheard:
        found.append(_refitted(reheard, base, watch))
    if not headless:
        found += _with_new_heads(reheard, base, watch)
    if not found:
        raise RunError(
            f"the gate expects the most it can ({MOST:g} starts a second) of {capped:.0%} of these "
            f"windows, so its rates cannot be scaled, and fitting them anew takes {ENOUGH}: start "
            "from another gate"
        )
    better = [each for each in found if each.gain.is_one]
    best = max(better or found, key=lambda each: each.gain.mean)
    return _summarised(material, base, best, headless)


def has_torch() -> bool:
    return find_spec("torch") is not None and find_spec("onnx") is not None


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    learnt: str
    gain: Gain
    survival: Survival
    make: Callable[[], Gate]


def _scaled(parts: Part, base: Gate) -> Candidate:
    survival = learn_lengths(parts, base.survival)
    rates = fit_scale(parts, survival).applied(base.rates)
    gain = _judge(parts, base.survival)
    return Candidate("rates scaled", gain, survival, lambda: replace(base, rates=rates))


def _reheard(
    parts: Part, base: Gate, heard: Sequence[Reheard] | None, watch: Watch
) -> Sequence[Reheard]:
    active = [answer.is_active for one in parts for answer in one.answers]
    few = min(sum(active), len(active) - sum(active))
    if len(parts) < FEWEST_RECORDINGS or few < FEWEST_BAGS:
        return ()
    if heard is None:
        heard = hear_again(parts, base, watch)
    return heard if len(heard) >= FEWEST_RECORDINGS else ()


def _refitted(heard: Sequence[Reheard], base: Gate, watch: Watch) -> Candidate:
    watch("fitting rates", 0, 1)
    taught, gain = _cross_fit(heard, base, as_before)
    return Candidate(
        "rates fitted anew", gain, taught.survival, lambda: replace(base, rates=taught.rates)
    )


def _with_new_heads(heard: Sequence[Reheard], base: Gate, watch: Watch) -> Iterator[Candidate]:
    from earmark_lab.training.site_head import POOLINGS, SiteHead, fit_context, with_head  # PyTorch

    channels = int(base.card.settings.get("context_channels") or base.card.channels)
    folds = min(HEAD_FOLDS, len(heard))
    done, total = 0, len(POOLINGS) * (folds * (folds + 1) // 2 + 1)

    def fitting(training: Sequence[Reheard], pooling: str) -> SiteHead:
        nonlocal done
        watch("fitting a head", done, total)
        done += 1
        return fit_context(training, channels, POOLINGS[pooling])

    def make(taught: Taught) -> Gate:
        assert isinstance(taught.scoring, SiteHead)
        points, misses = operating_points(taught.crossed, base.points)
        made = with_head(base, taught.scoring)
        made = replace(made, points=points, misses=misses)
        return replace(made, rates=taught.rates)

    for pooling in POOLINGS:
        taught, gain = _cross_fit(heard, base, partial(fitting, pooling=pooling))
        learnt = f"head (windows pooled by {pooling}) and rates fitted anew"
        yield Candidate(learnt, gain, taught.survival, partial(make, taught))


def _cross_fit(heard: Sequence[Reheard], base: Gate, fitting: Fitting) -> tuple[Taught, Gain]:
    taught = cross_fit(heard, base, fitting, folds=min(HEAD_FOLDS, len(heard)))
    judged = []
    for part in (one.part for one in heard):
        old, new = part.chances(part.windows.rates, base.survival), taught.held[part.recording]
        judged.append((old, new, part.active, part.weight))
    return taught, measure_gain(judged)


def fit_scale(parts: Part, survival: Survival) -> RateScale:
    """The base gate is a prior of `PRIOR` answers, spread evenly over the answered windows."""
    active, weight = _facts(parts)
    rows, reach, steps = _lags(parts, survival)
    prior = PRIOR / len(active)
    base = _base_chances(parts, parts[0].windows.survival)
    yes, no = weight * active + prior * base, weight * (1 - active) + prior * (1 - base)
    seen = rows > 0
    centre = float(np.log((rows / steps[:, None])[seen]).mean())

    def scale_of(values: FloatArray) -> RateScale:
        return RateScale(float(values[0] + (1 - values[1]) * centre), float(values[1]))

    def cost(values: FloatArray) -> float:
        chance = _chance(scale_of(values), rows, reach, steps)
        return float(-(yes @ np.log(chance) + no @ np.log1p(-chance)) / (yes + no).sum())

    # The cost is flat where chances are close to 0 or 1, so start at the best point of a grid.
    starts = [np.array(pair) for pair in product(np.arange(-6.0, 4.0), (0.25, 0.5, 1.0, 2.0))]
    first = min(starts, key=cost)
    found = minimize(cost, first, method="L-BFGS-B", bounds=[(-8.0, 4.0), (0.1, 4.0)])
    return scale_of(found.x)


def _judge(parts: Part, survival: Survival) -> Gain:
    judged, folds = [], folds_of(parts)
    for fold in folds:
        rest = without(parts, fold)
        lasting = learn_lengths(rest, survival)
        scale = fit_scale(rest, lasting)
        for piece in pieces_of(fold, math.ceil(PARTS / len(folds))):
            new = _chance(scale, *_lags(piece, lasting))
            judged.append((_base_chances(piece, survival), new, *_facts(piece)))
    return measure_gain(judged)


def _facts(parts: Part) -> tuple[FloatArray, FloatArray]:
    active = np.concatenate([one.active for one in parts])
    return active, np.concatenate([one.weight for one in parts])


def _base_chances(parts: Part, survival: Survival) -> FloatArray:
    return np.concatenate([one.chances(one.windows.rates, survival) for one in parts])


def _lags(parts: Part, survival: Survival) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Base rates and reach, `(answers, lags)`, and seconds of a step."""
    width = max(one.lags(survival)[0].shape[1] for one in parts)
    lags = [one.lags(survival, width) for one in parts]
    pairs = list(zip(parts, lags, strict=True))
    rows = [np.where(reach > 0, one.windows.rates[at], 0.0) for one, (at, reach) in pairs]
    steps = [np.full(len(one.answers), one.windows.length) for one in parts]
    reaches = [reach for _, reach in lags]
    return np.concatenate(rows), np.concatenate(reaches), np.concatenate(steps)


def _chance(scale: RateScale, rows: FloatArray, reach: FloatArray, steps: FloatArray) -> FloatArray:
    logs = np.log(np.maximum(rows / steps[:, None], 1e-12))
    rates = np.minimum(np.exp(np.clip(scale.intercept + scale.slope * logs, -40, 40)), MOST)
    expected = np.where(rows > 0, steps[:, None] * rates * reach, 0.0).sum(axis=1)
    chance: FloatArray = np.clip(1 - np.exp(-expected), 1e-4, 1 - 1e-4)
    return chance


def _summarised(
    material: TeachingMaterial, base: Gate, best: Candidate, headless: str
) -> Adaptation:
    parts = list(material.recordings)
    active, weight = _facts(parts)
    corrected = sum(answer.is_corrected for one in parts for answer in one.answers)
    before = _base_chances(parts, base.survival)
    made = Adaptation(
        answers=len(active) - corrected,
        corrections=corrected,
        recordings=len(parts),
        unlike=material.unlike,
        active=float(active @ weight / weight.sum()),
        expected=float(before @ weight / weight.sum()),
        gain=best.gain,
        learnt=best.learnt,
        headless=headless,
        median_before=base.survival.median,
        median=best.survival.median,
        gate=None,
    )
    return replace(made, gate=_gate(base, made, best)) if best.gain.is_one else made


def _gate(base: Gate, made: Adaptation, best: Candidate) -> Gate:
    """Without forecast errors: those of the new rates were not measured."""
    names = ("learnt", "answers", "corrections", "recordings", "median")
    facts = {name: getattr(made, name) for name in names} | {"gain": made.gain.mean}
    gate, before = best.make(), base.card.settings
    card = replace(
        gate.card,
        data=f"{base.card.data}; {made.learnt} by {made.teachers}",
        settings={**before, "adapted": [*before.get("adapted", ()), facts]},
        honesty=(),
    )
    return replace(gate, card=card, survival=best.survival, error=ForecastError())
