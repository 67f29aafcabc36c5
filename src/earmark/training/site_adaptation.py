"""A gate brought to a site by what was asked and answered there; no marks are needed.

    answers, corrections ──▶ how long actions last ──▶ scale of the rates ──▶ judged on answers
                             (answers that agree)      (windows with and       kept aside: written
                                                        without activity)      only if better

The head stays as it is. Its rates become `exp(intercept) * rate ** slope`, a Poisson regression of
which only whether there was anything is seen (Cox's complementary log-log link): a window is active
with the chance `1 - exp(-expected)`, where `expected` counts the actions that start in it and those
still going. What the base gate says enters as answers of its own, so that few real ones change
little.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from earmark.captioning.activity import same_activity
from earmark.errors import LedgerError
from earmark.gate.fitted_rates import MOST, Fit, FittedRates
from earmark.gate.forecast_error import ForecastError
from earmark.gate.gate import Gate, default_gate
from earmark.gate.survival import Survival
from earmark.timeline import FloatArray
from earmark.training.answered_windows import (
    AnsweredRecording,
    AnsweredWindow,
    TeachingMaterial,
    read_answers,
)

PRIOR = 20.0
"""Answers that the base gate's own word counts as much as; chosen, not fitted."""

FEWEST = 20
"""Answers below which nothing is learnt."""

FEWEST_PAIRS = 30
"""Neighbouring answers below which nothing is learnt of how long actions last."""

FARTHEST = 120.0
"""Seconds between neighbouring answers beyond which that they agree says little."""

PARTS = 5
"""Parts, at least, by which the scatter of a gain is told; a recording is one, or pieces of it."""

MOST_FOLDS = 10

MOST_CAPPED = 0.2
"""Share of the answered windows that may have the highest rate there is: beyond it, what the
regression says is not in the run."""

CONFIDENCE = 0.95
"""That the gain on answers kept aside is one, before a gate is written."""

STRETCHES = np.geomspace(1 / 8, 16, 57)
"""How many times longer actions may last than the base gate says."""

AGREEMENTS = np.linspace(0.3, 0.98, 35)
"""How likely two answers about the same action may be to agree."""

Part = list[AnsweredRecording]


@dataclass(frozen=True, slots=True)
class RateScale:
    """`log(rate) = intercept + slope * log(base rate)`, in starts a second."""

    intercept: float = 0.0
    slope: float = 1.0

    def applied(self, rates: FittedRates) -> FittedRates:
        """The regression that gives the new rates at once."""
        fits = (
            Fit(
                fit.length,
                self.intercept + self.slope * fit.intercept,
                tuple(self.slope * weight for weight in fit.weights),
            )
            for fit in rates.fits
        )
        return FittedRates(tuple(fits), rates.half)


@dataclass(frozen=True, slots=True)
class Gain:
    """How much likelier answers kept aside are by one gate than by another, an answer."""

    old: float = math.nan
    """Mean log-likelihood by the old one, corrections counting more."""
    new: float = math.nan
    low: float = -math.inf
    """The least that the gain is, with `CONFIDENCE`."""

    @property
    def mean(self) -> float:
        """By how much the new one is better."""
        return self.new - self.old

    @property
    def is_one(self) -> bool:
        """Whether it is more than chance."""
        return self.low > 0


@dataclass(frozen=True, slots=True, eq=False)
class Adaptation:
    """What was learnt, and whether it is worth using."""

    answers: int
    """Windows that a model said something about, and no person."""
    corrections: int
    recordings: int
    unlike: int
    """Recordings left out: another frontline rated them."""
    active: float
    """Share of these windows with activity, corrections counting more."""
    expected: float
    """The same as the base gate had it."""
    gain: Gain
    scale: RateScale
    median_before: float
    """Seconds that half of the actions outlast."""
    median: float
    """The same, as learnt; as before where answers that agree do not say otherwise."""
    gate: Gate | None
    """The new gate; None where it does not beat the old one."""


def adapt(runs: Sequence[Path], *, gate: Gate | None = None, out: Path | None = None) -> Adaptation:
    """Learn from the answers and corrections of `runs`, and judge on those kept aside.

    Args:
        runs: Folders of runs that were listened to with `gate`.
        gate: The base; the one that comes with earmark if not given.
        out: Where the new gate is written, if it beats the base; else nothing is.

    Raises:
        LedgerError: no run in a folder, none listened to with `gate`, or too few answers.
    """
    base = gate or default_gate()
    made = learn(read_answers(runs, base), base)
    if out is not None and made.gate is not None:
        made.gate.save(out)
    return made


def learn(material: TeachingMaterial, base: Gate) -> Adaptation:
    """What `material` teaches `base`, and whether that is better on what is kept aside.

    Raises:
        LedgerError: too few answers, or rates that stand at the highest there is.
    """
    everything = list(material.recordings)
    if (count := sum(len(one.answers) for one in everything)) < FEWEST:
        raise LedgerError(
            f"{count} windows have an answer that says whether anything is done, and adapting "
            f"takes {FEWEST}: ask more with `earmark caption`, or give more runs"
        )
    if (capped := _capped(everything)) > MOST_CAPPED:
        raise LedgerError(
            f"the gate expects the most it can ({MOST:g} starts a second) of {capped:.0%} of these "
            "windows, so its rates cannot be scaled: start from another gate"
        )
    gain = _judge(everything, base.survival)
    survival = _learn_lengths(everything, base.survival) or base.survival
    scale = fit_scale(everything, survival)
    return _summarised(material, base, gain, scale, survival)


def fit_scale(parts: Part, survival: Survival) -> RateScale:
    """The scale under which the answers of `parts` are likeliest, held back by the base gate.

    The base is `PRIOR` answers, spread over the windows asked, each as likely to be active as it
    says.
    """
    active, weight = _facts(parts)
    rows, reach, steps = _lags(parts, survival)
    prior = PRIOR / len(active)
    base = _chance(RateScale(), *_lags(parts, parts[0].windows.survival))
    yes, no = weight * active + prior * base, weight * (1 - active) + prior * (1 - base)
    seen = rows > 0
    centre = float(np.log((rows / steps[:, None])[seen]).mean())

    def scale_of(values: FloatArray) -> RateScale:
        return RateScale(float(values[0] + (1 - values[1]) * centre), float(values[1]))

    def cost(values: FloatArray) -> float:
        chance = _chance(scale_of(values), rows, reach, steps)
        return float(-(yes @ np.log(chance) + no @ np.log1p(-chance)) / (yes + no).sum())

    # A chance that is all but 0 or 1 is flat: begin where the cost is least on a coarse grid.
    starts = [np.array(pair) for pair in product(np.arange(-6.0, 4.0), (0.25, 0.5, 1.0, 2.0))]
    first = min(starts, key=cost)
    found = minimize(cost, first, method="L-BFGS-B", bounds=[(-8.0, 4.0), (0.1, 4.0)])
    return scale_of(found.x)


def fit_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve stretched to how far apart answers that agree lie in `parts`."""
    apart, same = _pairs(parts)
    prior = PRIOR / len(apart)
    base = survival.remaining(apart)
    share = AGREEMENTS[:, None]  # (agreements, pairs) below
    yes, no = same + prior * share * base, 1 - same + prior * (1 - share * base)

    def likelihood(stretch: float) -> float:
        chance = np.clip(share * survival.remaining(apart / stretch), 1e-6, 1 - 1e-6)
        return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

    return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))


def _pairs(parts: Part) -> tuple[FloatArray, FloatArray]:
    """Seconds from inside an active window to the next answer, and whether that says the same."""
    apart, same = [], []
    for one in parts:
        for first, last in zip(one.answers, one.answers[1:], strict=False):
            spans = one.windows.span(first.window), one.windows.span(last.window)
            gap = spans[1].start - (spans[0].start + spans[0].end) / 2
            if first.activity and last.activity is not None and 0 < gap <= FARTHEST:
                apart.append(gap)
                same.append(float(_agree(first, last)))
    return np.array(apart), np.array(same)


def _agree(first: AnsweredWindow, last: AnsweredWindow) -> bool:
    return bool(first.activity and last.activity) and same_activity(
        str(first.activity), str(last.activity)
    )


def _learn_lengths(parts: Part, survival: Survival) -> Survival | None:
    """The lengths learnt; None where there are too few pairs, or no better on those kept aside."""
    if len(_pairs(parts)[0]) < FEWEST_PAIRS:
        return None
    old: list[float] = []
    new: list[float] = []
    held: list[float] = []
    for fold in _folds(parts):
        rest = _without(parts, fold)
        apart, same = _pairs(fold)
        if not len(apart) or not len(_pairs(rest)[0]):
            continue
        held.append(len(apart))
        for curve, into in ((survival, old), (fit_lengths(rest, survival), new)):
            likely = _agreement(rest, curve) * curve.remaining(apart)
            into.append(_log_likelihood(np.clip(likely, 1e-6, 1 - 1e-6), same, np.ones(len(same))))
    is_better = _gain(old, new, held).is_one if len(held) > 1 else False
    return fit_lengths(parts, survival) if is_better else None


def _agreement(parts: Part, curve: Survival) -> float:
    """How likely two answers about the same action are to agree, if actions last as `curve`."""
    apart, same = _pairs(parts)
    chances = np.clip(AGREEMENTS[:, None] * curve.remaining(apart), 1e-6, 1 - 1e-6)
    return float(AGREEMENTS[np.argmax(np.log(chances) @ same + np.log1p(-chances) @ (1 - same))])


def _judge(parts: Part, survival: Survival) -> Gain:
    """How likely the answers of each fold are by the base, and by what the others taught."""
    old, new, held = [], [], []
    folds = _folds(parts)
    for fold in folds:
        rest = _without(parts, fold)
        lasting = _learn_lengths(rest, survival) or survival
        scale = fit_scale(rest, lasting)
        for piece in _pieces(fold, math.ceil(PARTS / len(folds))):
            active, weight = _facts(piece)
            before = _chance(RateScale(), *_lags(piece, survival))
            after = _chance(scale, *_lags(piece, lasting))
            old.append(_log_likelihood(before, active, weight))
            new.append(_log_likelihood(after, active, weight))
            held.append(float(weight.sum()))
    return _gain(old, new, held)


def _gain(old: Sequence[float], new: Sequence[float], held: Sequence[float]) -> Gain:
    """The gain an answer over parts that hold `held` each, and what it is at least.

    A ratio estimate whose scatter is that of whole parts: what lies together errs together.
    """
    sums, sizes = np.array(new) - np.array(old), np.array(held, dtype=float)
    count, total = len(sums), float(sizes.sum())
    mean = float(sums.sum()) / total
    low = -math.inf
    if count > 1:
        scatter = math.sqrt(count / (count - 1) * float(((sums - mean * sizes) ** 2).sum())) / total
        low = mean - float(student.ppf(CONFIDENCE, count - 1)) * scatter
    return Gain(float(np.sum(old)) / total, float(np.sum(new)) / total, low)


def _folds(parts: Part) -> list[Part]:
    """Whole recordings, in an order that says nothing of them; of a single one pieces of time."""
    if len(parts) == 1:
        return _pieces(parts, PARTS)
    order = sorted(parts, key=lambda one: hashlib.sha256(one.recording.encode()).hexdigest())
    count = min(MOST_FOLDS, len(order))
    return [order[first::count] for first in range(count)]


def _pieces(parts: Part, count: int) -> list[Part]:
    """Each recording in `count` pieces of time with as many answers; empty ones are left out."""
    if count == 1:
        return [parts]
    return [
        [replace(one, answers=tuple(one.answers[place] for place in places.tolist()))]
        for one in parts
        for places in np.array_split(np.arange(len(one.answers)), count)
        if len(places)
    ]


def _without(parts: Part, fold: Part) -> Part:
    """All answers but those of `fold`."""
    held = {(one.recording, answer.window) for one in fold for answer in one.answers}
    rest = (
        replace(one, answers=tuple(a for a in one.answers if (one.recording, a.window) not in held))
        for one in parts
    )
    return [one for one in rest if one.answers]


def _facts(parts: Part) -> tuple[FloatArray, FloatArray]:
    """Of every answer whether there is activity, 1 or 0, and how much it counts."""
    answers = [answer for one in parts for answer in one.answers]
    active = np.array([float(answer.is_active) for answer in answers])
    return active, np.array([answer.weight for answer in answers])


def _lags(parts: Part, survival: Survival) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What `_chance` reads: base rates, reach and seconds of a step.

    Base rates of each answered window's last step and of those before it, `(answers, steps)`, with
    0 before the recording; the chance that an action of each still touches it, likewise; and the
    seconds of one step, an answer.
    """
    reaches = [replace(one.windows, survival=survival).reach for one in parts]
    width = max(map(len, reaches))
    rows, chances, steps = [], [], []
    for one, reach in zip(parts, reaches, strict=True):
        places = np.array([answer.window for answer in one.answers])
        padded = np.concatenate([np.zeros(width), one.windows.rates])
        rows.append(padded[places[:, None] + width - np.arange(width)])
        chances.append(np.tile(np.pad(reach, (0, width - len(reach))), (len(places), 1)))
        steps.append(np.full(len(places), one.windows.step))
    return np.concatenate(rows), np.concatenate(chances), np.concatenate(steps)


def _chance(scale: RateScale, rows: FloatArray, reach: FloatArray, steps: FloatArray) -> FloatArray:
    """How likely each answered window is to be active, kept off 0 and 1."""
    logs = np.log(np.maximum(rows / steps[:, None], 1e-12))
    rates = np.minimum(np.exp(np.clip(scale.intercept + scale.slope * logs, -40, 40)), MOST)
    expected = np.where(rows > 0, steps[:, None] * rates * reach, 0.0).sum(axis=1)
    chance: FloatArray = np.clip(1 - np.exp(-expected), 1e-4, 1 - 1e-4)
    return chance


def _capped(parts: Part) -> float:
    """Share of the answered windows whose rate is cut to `MOST`."""
    found = [
        one.windows.rates[answer.window] >= MOST * one.windows.step * (1 - 1e-9)
        for one in parts
        for answer in one.answers
    ]
    return float(np.mean(found))


def _log_likelihood(chance: FloatArray, active: FloatArray, weight: FloatArray) -> float:
    return float(weight @ (active * np.log(chance) + (1 - active) * np.log1p(-chance)))


def _summarised(
    material: TeachingMaterial, base: Gate, gain: Gain, scale: RateScale, survival: Survival
) -> Adaptation:
    parts = list(material.recordings)
    active, weight = _facts(parts)
    corrected = sum(answer.is_corrected for one in parts for answer in one.answers)
    before = _chance(RateScale(), *_lags(parts, base.survival))
    made = Adaptation(
        answers=len(active) - corrected,
        corrections=corrected,
        recordings=len(parts),
        unlike=material.unlike,
        active=float(active @ weight / weight.sum()),
        expected=float(before @ weight / weight.sum()),
        gain=gain,
        scale=scale,
        median_before=base.survival.median,
        median=survival.median,
        gate=None,
    )
    return replace(made, gate=_gate(base, made, survival)) if gain.is_one else made


def _gate(base: Gate, made: Adaptation, survival: Survival) -> Gate:
    """The base gate with rates and lengths as learnt, and a card that says from what.

    How far the forecasts of the new rates are off nobody has measured.
    """
    learnt = {
        "answers": made.answers,
        "corrections": made.corrections,
        "recordings": made.recordings,
        "intercept": made.scale.intercept,
        "slope": made.scale.slope,
        "median": made.median,
        "gain": made.gain.mean,
    }
    card = replace(
        base.card,
        data=f"{base.card.data}; rates adapted to {made.answers} answers and {made.corrections} "
        f"corrections in {made.recordings} recordings",
        settings={
            **base.card.settings,
            "adapted": [*base.card.settings.get("adapted", ()), learnt],
        },
        honesty=(),
    )
    return replace(
        base,
        card=card,
        rates=made.scale.applied(base.rates),
        survival=survival,
        error=ForecastError(),
    )
