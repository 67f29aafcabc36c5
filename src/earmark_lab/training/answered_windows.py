"""Answered windows of runs, and what is fitted to them alone: lengths of actions, scale of rates.

A moment that people marked as missed is a window with activity.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from scipy.stats import t as student

from earmark.captioning.answer_schema import (
    activity_of,
    is_yes_or_no,
    read_activity,
    same_activity,
)
from earmark.captioning.request import Answer
from earmark.errors import RunError
from earmark.gate.gate import Gate
from earmark.gate.lengths import TOLD, ActionLengths
from earmark.gate.listener import INSTEAD
from earmark.gate.rates import MOST, Fit, FittedRates
from earmark.gate.survival import Survival
from earmark.grid import Grid, Windows
from earmark.media import Source
from earmark.run.corrections import Correction, read_corrections, settle
from earmark.run.run import Run
from earmark.timeline import FloatArray, IndexArray

PRIOR = 20.0
"""Weight of the base gate's predictions, in answers; chosen, not fitted."""

PARTS = 5

MOST_FOLDS = 10

CONFIDENCE = 2 / 3
"""That the gain is above 0; chosen after results of the benchmark of adaptation were seen."""

BY_PEOPLE = 4.0
"""Weight of one correction, in answers; chosen, not fitted."""

FEWEST_PAIRS = 30

LONGEST_GAP = 120.0
"""Seconds between neighbouring answers."""

STRETCHES = np.geomspace(1, 16, 33)
"""Never shorter: answers that name one action twice look like short actions."""

AGREEMENTS = np.linspace(0.8, 0.98, 10)
"""Not lower: names that recur now and then would look like one long action, often misnamed."""


@dataclass(frozen=True, slots=True)
class AnsweredWindow:
    window: int
    is_active: bool
    activity: str | None
    """Empty for none, None if unknown."""
    weight: float = 1.0
    is_corrected: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredRecording:
    recording: str
    windows: Windows
    answers: tuple[AnsweredWindow, ...]
    source: Source | None = None
    audio_track: int = 0

    @property
    def places(self) -> IndexArray:
        return np.array([answer.window for answer in self.answers], dtype=np.intp)

    @property
    def active(self) -> FloatArray:
        return np.array([float(answer.is_active) for answer in self.answers])

    @property
    def weight(self) -> FloatArray:
        return np.array([answer.weight for answer in self.answers])

    def lags(self, survival: ActionLengths, width: int = 0) -> tuple[IndexArray, FloatArray]:
        """Steps whose actions may still last in an answered window, and the chance that they do.

        Both `(answers, lags)`, at least `width` wide, the answered step first.
        """
        reach = survival.reach(self.windows.length)
        reach = np.pad(reach, (0, max(0, width - len(reach))))
        steps = self.places[:, None] - np.arange(len(reach))
        return np.maximum(steps, 0), np.where(steps >= 0, reach, 0.0)

    def chances(
        self, rates: FloatArray, survival: ActionLengths, *, least: float = 1e-4
    ) -> FloatArray:
        steps, reach = self.lags(survival)
        chances: FloatArray = -np.expm1(-(rates[steps] * reach).sum(axis=1))
        return chances.clip(least, 1 - least)


Part = list[AnsweredRecording]


@dataclass(frozen=True, slots=True)
class TeachingMaterial:
    recordings: tuple[AnsweredRecording, ...]
    """In order of their ids; each has at least one answer."""
    unlike: int = 0
    """Recordings rated by another frontline, or by the fallback because of silence."""


def read_answers(runs: Sequence[Path], gate: Gate) -> TeachingMaterial:
    """Of two answers about a window the later is used. `RunError` if there are none for `gate`."""
    recordings: dict[str, AnsweredRecording] = {}
    unlike = 0
    for folder in runs:
        with Run(folder) as run:
            track = int(run.plan().get("audio_track", 0))
            for row in run.recordings():
                heard = run.heard(row.id)
                if not heard:
                    continue
                grid = Grid(heard.length)
                told = heard.lengths if getattr(heard.lengths, "origin", TOLD) == TOLD else None
                key = grid.key(gate.frontline(), told, audio_track=track)
                if heard.key != key or INSTEAD in heard.warnings:  # or the fallback rated it
                    unlike += 1
                    continue
                windows = replace(heard, lengths=gate.lengths.curve)
                answers = _answers(run, row.id, windows)
                before = recordings.get(row.id)
                if before and before.windows.length == windows.length:
                    answers = {answer.window: answer for answer in before.answers} | answers
                ordered = tuple(answers[window] for window in sorted(answers))
                recordings[row.id] = AnsweredRecording(row.id, windows, ordered, row.source, track)
    if unlike and not recordings:
        raise RunError(
            f"none of the {unlike} recordings was listened to with this gate: name the one that "
            "was with --gate, or run `earmark caption` with this one first"
        )
    return TeachingMaterial(
        tuple(recordings[key] for key in sorted(recordings) if recordings[key].answers), unlike
    )


def _answers(run: Run, recording: str, windows: Windows) -> dict[int, AnsweredWindow]:
    answers: dict[int, AnsweredWindow] = {}
    for span, answer in run.captions(recording):
        window = windows.window_at(span.start)
        activity = _activity(answer)
        is_window = window < len(windows) and abs(windows.span(window).end - span.end) < 0.1
        if activity is not None and is_window:
            answers[window] = AnsweredWindow(window, bool(activity), activity)
    for correction in settle(read_corrections(run, recording)):
        middle = (correction.span.start + correction.span.end - windows.length) / 2
        window = max(windows.window_at(middle), 0)
        if correction.verdict in ("right", "wrong") and is_yes_or_no(correction.caption):
            continue  # about an answer to `find`, which does not say whether anything is done
        if window < len(windows):
            answers[window] = _corrected(correction, window, answers.get(window))
    return answers


def _activity(answer: Answer) -> str | None:
    """None for an answer to the user's own schema."""
    if answer.data is not None:
        return activity_of(answer.data)
    read: str = read_activity(answer.text)["activity"]
    return read


def _corrected(
    correction: Correction, window: int, before: AnsweredWindow | None
) -> AnsweredWindow:
    answered: str | None = before.activity if before else None
    if answered is None and correction.verdict != "missed":
        answered = str(read_activity(correction.caption)["activity"])
    is_active, activity = bool(answered), answered
    if correction.verdict == "wrong":
        is_active, activity = not answered, None if not answered else ""
    elif correction.verdict == "reworded":
        activity = str(read_activity(correction.text)["activity"])
        is_active = bool(activity)
    elif correction.verdict == "missed":
        is_active, activity = True, correction.text or None
    return AnsweredWindow(window, is_active, activity, BY_PEOPLE, is_corrected=True)


@dataclass(frozen=True, slots=True)
class Gain:
    """Difference in log-likelihood of held-out answers between two gates, in nats an answer."""

    old: float = math.nan
    new: float = math.nan
    low: float = -math.inf

    @property
    def mean(self) -> float:
        return self.new - self.old

    @property
    def is_one(self) -> bool:
        return self.low > 0


def measure_gain(parts: Iterable[tuple[FloatArray, FloatArray, FloatArray, FloatArray]]) -> Gain:
    """Of `parts`: chances by the old gate and the new, whether they came true, and weights.

    The standard error is between whole parts, because errors within one are correlated.
    """
    rows = []
    for old, new, true, weight in parts:
        logs = (weight @ (true * np.log(p) + (1 - true) * np.log1p(-p)) for p in (old, new))
        rows.append((*logs, weight.sum()))
    olds, news, sizes = np.array(rows, dtype=float).T
    sums, count, total = news - olds, len(rows), float(sizes.sum())
    mean, low = float(sums.sum()) / total, -math.inf
    if count > 1:
        scatter = math.sqrt(count / (count - 1) * float(((sums - mean * sizes) ** 2).sum())) / total
        low = mean - float(student.ppf(CONFIDENCE, count - 1)) * scatter
    return Gain(float(olds.sum()) / total, float(news.sum()) / total, low)


def folds_of(parts: Part) -> list[Part]:
    """Folds of whole recordings, ordered by hash of their ids; a single one is cut in time."""
    if len(parts) == 1:
        return pieces_of(parts, PARTS)
    order = sorted(parts, key=lambda part: hashlib.sha256(part.recording.encode()).hexdigest())
    count = min(MOST_FOLDS, len(order))
    return [order[first::count] for first in range(count)]


def pieces_of(parts: Part, count: int) -> list[Part]:
    """Each recording cut in time into `count` pieces; with a count of 1 all are one piece."""
    if count == 1:
        return [parts]
    return [
        [replace(part, answers=tuple(part.answers[position] for position in positions.tolist()))]
        for part in parts
        for positions in np.array_split(np.arange(len(part.answers)), count)
        if len(positions)
    ]


def without(parts: Part, fold: Part) -> Part:
    held_out = {(part.recording, answer.window) for part in fold for answer in part.answers}
    rest = (
        replace(
            part,
            answers=tuple(a for a in part.answers if (part.recording, a.window) not in held_out),
        )
        for part in parts
    )
    return [part for part in rest if part.answers]


def learn_lengths(parts: Part, survival: Survival) -> Survival:
    """`survival` stretched to the highest likelihood; unchanged if no gain on held-out answers."""
    pairs = AnswerPairs.of(parts)
    if len(pairs) < FEWEST_PAIRS:
        return survival
    judged = []
    for fold in folds_of(parts):
        held_out, rest = AnswerPairs.of(fold), AnswerPairs.of(without(parts, fold))
        if len(held_out) and len(rest):
            old, new = (
                rest.chances(curve, held_out.apart, rest.agreement(curve))
                for curve in (survival, rest.fit(survival))
            )
            judged.append((old, new, held_out.same, np.ones(len(held_out))))
    return pairs.fit(survival) if judged and measure_gain(judged).is_one else survival


@dataclass(frozen=True, slots=True, eq=False)
class AnswerPairs:
    """Neighbouring answers that name an activity."""

    apart: FloatArray
    """Seconds."""
    same: FloatArray
    """1 if they agree, else 0."""
    again: float
    """Probability that two answers agree because the action was taken up again."""

    def __len__(self) -> int:
        return len(self.apart)

    @classmethod
    def of(cls, parts: Part) -> AnswerPairs:
        apart, same = [], []
        for part in parts:
            for first, last in pairwise(part.answers):
                spans = part.windows.span(first.window), part.windows.span(last.window)
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
        """The base curve enters as `PRIOR` more pairs."""
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
    agreements = [0.0]
    for part in parts:
        names = [
            (answer.activity, part.windows.span(answer.window).start) for answer in part.answers
        ]
        triples = zip(names, names[1:], names[2:], strict=False)
        for (first, begin), (other, _), (last, end) in triples:
            is_near = end - begin <= LONGEST_GAP
            if is_near and first and other and last and not same_activity(first, other):
                agreements.append(float(same_activity(first, last)))
    return float(np.mean(agreements))


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


def fit_scale(parts: Part, survival: Survival) -> RateScale:
    """The base gate is a prior of `PRIOR` answers, spread evenly over the answered windows."""
    rows, reach, steps = lags_of(parts, survival)
    yes, no = weigh(parts, base_chances(parts, parts[0].windows.lengths))
    centre = float(np.log((rows / steps[:, None])[rows > 0]).mean())

    def scale_of(values: FloatArray) -> RateScale:
        return RateScale(float(values[0] + (1 - values[1]) * centre), float(values[1]))

    def cost(values: FloatArray) -> float:
        chance = scaled_chances(scale_of(values), rows, reach, steps)
        return float(-(yes @ np.log(chance) + no @ np.log1p(-chance)) / (yes + no).sum())

    # The cost is flat where chances are close to 0 or 1, so start at the best point of a grid.
    starts = [np.array(pair) for pair in product(np.arange(-6.0, 4.0), (0.25, 0.5, 1.0, 2.0))]
    first = min(starts, key=cost)
    best = minimize(cost, first, method="L-BFGS-B", bounds=[(-8.0, 4.0), (0.1, 4.0)])
    return scale_of(best.x)


def facts_of(parts: Part) -> tuple[FloatArray, FloatArray]:
    active = np.concatenate([part.active for part in parts])
    return active, np.concatenate([part.weight for part in parts])


def weigh(parts: Part, predicted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights of active and of idle answers, with the base gate's predictions as `PRIOR` more."""
    active, weight = facts_of(parts)
    prior = PRIOR / len(active)
    yes = weight * active + prior * predicted
    return yes, weight * (1 - active) + prior * (1 - predicted)


def base_chances(parts: Part, survival: ActionLengths) -> FloatArray:
    return np.concatenate([part.chances(part.windows.rates, survival) for part in parts])


def lags_of(parts: Part, survival: Survival) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Base rates and reach, `(answers, lags)`, and seconds of a step."""
    width = max(part.lags(survival)[0].shape[1] for part in parts)
    lags = [part.lags(survival, width) for part in parts]
    pairs = list(zip(parts, lags, strict=True))
    rows = [np.where(reach > 0, part.windows.rates[at], 0.0) for part, (at, reach) in pairs]
    steps = [np.full(len(part.answers), part.windows.length) for part in parts]
    reaches = [reach for _, reach in lags]
    return np.concatenate(rows), np.concatenate(reaches), np.concatenate(steps)


def scaled_chances(
    scale: RateScale, rows: FloatArray, reach: FloatArray, steps: FloatArray
) -> FloatArray:
    logs = np.log(np.maximum(rows / steps[:, None], 1e-12))
    rates = np.minimum(np.exp(np.clip(scale.intercept + scale.slope * logs, -40, 40)), MOST)
    expected = np.where(rows > 0, steps[:, None] * rates * reach, 0.0).sum(axis=1)
    chance: FloatArray = np.clip(1 - np.exp(-expected), 1e-4, 1 - 1e-4)
    return chance
