"""Answered windows of runs; a moment that people marked as missed is one with activity."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from earmark.captioning.answer_schema import activity_of, is_yes_or_no, read_activity
from earmark.captioning.request import Answer
from earmark.errors import RunError
from earmark.gate.gate import Gate
from earmark.gate.listener import INSTEAD
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

    def lags(self, survival: Survival, width: int = 0) -> tuple[IndexArray, FloatArray]:
        """Steps whose actions may still last in an answered window, and the chance that they do.

        Both `(answers, lags)`, at least `width` wide, the answered step first.
        """
        reach = replace(self.windows, survival=survival).reach
        reach = np.pad(reach, (0, max(0, width - len(reach))))
        steps = self.places[:, None] - np.arange(len(reach))
        return np.maximum(steps, 0), np.where(steps >= 0, reach, 0.0)

    def chances(self, rates: FloatArray, survival: Survival, *, least: float = 1e-4) -> FloatArray:
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
    found: dict[str, AnsweredRecording] = {}
    unlike = 0
    for folder in runs:
        with Run(folder) as run:
            track = int(run.plan().get("audio_track", 0))
            for row in run.recordings():
                heard = run.heard(row.id)
                if not heard:
                    continue
                grid = Grid(heard.length)
                key = grid.key(gate.frontline(), audio_track=track)
                if heard.key != key or INSTEAD in heard.warnings:  # or the fallback rated it
                    unlike += 1
                    continue
                windows = replace(heard, survival=gate.survival)
                known = _answers(run, row.id, windows)
                before = found.get(row.id)
                if before and before.windows.length == windows.length:
                    known = {one.window: one for one in before.answers} | known
                answers = tuple(known[place] for place in sorted(known))
                found[row.id] = AnsweredRecording(row.id, windows, answers, row.source, track)
    if unlike and not found:
        raise RunError(
            f"none of the {unlike} recordings was listened to with this gate: name the one that "
            "was with --gate, or run `earmark caption` with this one first"
        )
    return TeachingMaterial(
        tuple(found[key] for key in sorted(found) if found[key].answers), unlike
    )


def _answers(run: Run, recording: str, windows: Windows) -> dict[int, AnsweredWindow]:
    found: dict[int, AnsweredWindow] = {}
    for span, answer in run.captions(recording):
        place = windows.window_at(span.start)
        activity = _activity(answer)
        is_window = place < len(windows) and abs(windows.span(place).end - span.end) < 0.1
        if activity is not None and is_window:
            found[place] = AnsweredWindow(place, bool(activity), activity)
    for one in settle(read_corrections(run, recording)):
        middle = (one.span.start + one.span.end - windows.length) / 2
        place = max(windows.window_at(middle), 0)
        if one.verdict in ("right", "wrong") and is_yes_or_no(one.caption):
            continue  # about an answer to `find`, which does not say whether anything is done
        if place < len(windows):
            found[place] = _corrected(one, place, found.get(place))
    return found


def _activity(answer: Answer) -> str | None:
    """None for an answer to the user's own schema."""
    if answer.data is not None:
        return activity_of(answer.data)
    read: str = read_activity(answer.text)["activity"]
    return read


def _corrected(one: Correction, place: int, before: AnsweredWindow | None) -> AnsweredWindow:
    answered: str | None = before.activity if before else None
    if answered is None and one.verdict != "missed":
        answered = str(read_activity(one.caption)["activity"])
    is_active, activity = bool(answered), answered
    if one.verdict == "wrong":
        is_active, activity = not answered, None if not answered else ""
    elif one.verdict == "reworded":
        activity = str(read_activity(one.text)["activity"])
        is_active = bool(activity)
    elif one.verdict == "missed":
        is_active, activity = True, one.text or None
    return AnsweredWindow(place, is_active, activity, BY_PEOPLE, is_corrected=True)


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
    order = sorted(parts, key=lambda one: hashlib.sha256(one.recording.encode()).hexdigest())
    count = min(MOST_FOLDS, len(order))
    return [order[first::count] for first in range(count)]


def pieces_of(parts: Part, count: int) -> list[Part]:
    """Each recording cut in time into `count` pieces; with a count of 1 all are one piece."""
    if count == 1:
        return [parts]
    return [
        [replace(one, answers=tuple(one.answers[place] for place in places.tolist()))]
        for one in parts
        for places in np.array_split(np.arange(len(one.answers)), count)
        if len(places)
    ]


def without(parts: Part, fold: Part) -> Part:
    held = {(one.recording, answer.window) for one in fold for answer in one.answers}
    rest = (
        replace(one, answers=tuple(a for a in one.answers if (one.recording, a.window) not in held))
        for one in parts
    )
    return [one for one in rest if one.answers]
