"""What was asked and answered in runs, to learn from and to keep aside: was anything done, where.

What people corrected counts more than what a model said. A moment that people marked as missed is a
window with activity; it says nothing of the windows they did not mark.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from earmark.captioning.activity import activity_of, read_activity
from earmark.captioning.request import Answer
from earmark.errors import LedgerError
from earmark.gate.gate import Gate
from earmark.gate.listener import INSTEAD
from earmark.gate.survival import Survival
from earmark.grid import Grid, Windows
from earmark.ledger.corrections import Correction, read_corrections, settle
from earmark.ledger.records import HeardRow
from earmark.ledger.run_reader import Run
from earmark.media import Source
from earmark.timeline import FloatArray, IndexArray

PRIOR = 20.0
"""Answers that the base gate's own word counts as much as; chosen, not fitted."""

PARTS = 5
"""Parts, at least, by which the scatter of a gain is told; a recording is one, or pieces of it."""

MOST_FOLDS = 10

CONFIDENCE = 2 / 3
"""That the gain on answers kept aside is one, before a gate is written: two to one. Five recordings
seldom show more, and the gain is told. Chosen, after turns of the bench were seen."""

BY_PEOPLE = 4.0
"""Answers that one correction counts as much as; chosen, not fitted."""


@dataclass(frozen=True, slots=True)
class AnsweredWindow:
    """What is known of one window."""

    window: int
    """By its place among the recording's windows."""
    is_active: bool
    activity: str | None
    """What is being done, in words; empty for nothing, None where nobody says."""
    weight: float = 1.0
    is_corrected: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredRecording:
    """A recording as the base gate rated it, and what was answered about it, in order of time."""

    recording: str
    windows: Windows
    answers: tuple[AnsweredWindow, ...]
    source: Source | None = None
    """Where it lay when it was heard; None where nobody knows."""
    audio_track: int = 0

    @property
    def places(self) -> IndexArray:
        """The answered windows."""
        return np.array([answer.window for answer in self.answers], dtype=np.intp)

    @property
    def active(self) -> FloatArray:
        """Whether anything is done in each, 1 or 0."""
        return np.array([float(answer.is_active) for answer in self.answers])

    @property
    def weight(self) -> FloatArray:
        """How much each counts."""
        return np.array([answer.weight for answer in self.answers])

    def lags(self, survival: Survival, width: int = 0) -> tuple[IndexArray, FloatArray]:
        """The steps in which actions begin that answered windows may show, and how likely they do.

        Both `(answers, lags)`: a window's last step and those before it, at least `width`. Before
        the recording the chance is 0, and the step its first.
        """
        reach = replace(self.windows, survival=survival).reach
        reach = np.pad(reach, (0, max(0, width - len(reach))))
        steps = self.places[:, None] - np.arange(len(reach))
        return np.maximum(steps, 0), np.where(steps >= 0, reach, 0.0)

    def chances(self, rates: FloatArray, survival: Survival, *, least: float = 1e-4) -> FloatArray:
        """How likely each answered window is to be active by `rates`, kept off 0 and 1."""
        steps, reach = self.lags(survival)
        chances: FloatArray = -np.expm1(-(rates[steps] * reach).sum(axis=1))
        return chances.clip(least, 1 - least)


Part = list[AnsweredRecording]


@dataclass(frozen=True, slots=True)
class TeachingMaterial:
    """All that can be learnt from."""

    recordings: tuple[AnsweredRecording, ...]
    """In order of their ids; each has an answer."""
    unlike: int = 0
    """Recordings left out: another frontline rated them, or its fallback where all is silent."""


def read_answers(runs: Sequence[Path], gate: Gate) -> TeachingMaterial:
    """What the runs in the folders `runs` know of windows that `gate` has rated.

    A recording that several runs hold is one; of two answers about a window the later run's counts.

    Raises:
        LedgerError: a folder holds no run, or no recording was listened to with `gate`.
    """
    found: dict[str, Windows] = {}
    answers: dict[str, dict[int, AnsweredWindow]] = {}
    places: dict[str, tuple[Source, int]] = {}
    unlike = 0
    for folder in runs:
        with Run(folder) as run:
            for row in run.recordings():
                heard = run.heard(row.id)
                if heard is None:
                    continue
                if not _is_rated_by(gate, run, heard):
                    unlike += 1
                    continue
                own = (heard.scores, heard.instants, heard.rates, gate.survival)
                windows = Windows(heard.window, heard.duration, *own, per_call=heard.per_call)
                before = found.get(row.id, windows)
                if (before.length, before.per_call) != (windows.length, windows.per_call):
                    answers.pop(row.id)
                found[row.id] = windows
                places[row.id] = row.source, int(run.plan().get("audio_track", 0))
                answers.setdefault(row.id, {}).update(_answers(run, row.id, windows))
    if unlike and not found:
        raise LedgerError(
            f"none of the {unlike} recordings was listened to with this gate: name the one that "
            "was with --gate, or run `earmark caption` with this one first"
        )
    made = (
        AnsweredRecording(key, found[key], tuple(own[place] for place in sorted(own)), *places[key])
        for key, own in sorted(answers.items())
        if own
    )
    return TeachingMaterial(tuple(made), unlike)


def _is_rated_by(gate: Gate, run: Run, heard: HeardRow) -> bool:
    grid = Grid(heard.window, "grid" if heard.per_call == 1 else "free")
    track = int(run.plan().get("audio_track", 0))
    is_own = INSTEAD not in heard.warnings  # what looked where nothing was heard rates otherwise
    return is_own and heard.key == grid.key(gate.frontline(), audio_track=track)


def _answers(run: Run, recording: str, windows: Windows) -> Mapping[int, AnsweredWindow]:
    """The windows of one recording that somebody has said something about, by place."""
    found: dict[int, AnsweredWindow] = {}
    for span, kept in run.captions(recording):
        place = windows.window_at(span.start)
        activity = _activity(kept.answer)
        is_window = place < len(windows) and abs(windows.span(place).end - span.end) < 0.1
        if activity is not None and is_window:
            found[place] = AnsweredWindow(place, bool(activity), activity)
    for one in settle(read_corrections(run, recording)):
        middle = (one.span.start + one.span.end - windows.length) / 2
        place = max(windows.window_at(middle), windows.per_call - 1)
        if place < len(windows):
            found[place] = _corrected(one, place, found.get(place))
    return found


def _activity(answer: Answer) -> str | None:
    """What is being done; read from the words where no activity was asked for.

    An answer to a schema of the user's own does not say.
    """
    if answer.data is not None:
        return activity_of(answer.data)
    read: str = read_activity(answer.text)["activity"]
    return read


def _corrected(one: Correction, place: int, before: AnsweredWindow | None) -> AnsweredWindow:
    """What a person says of a window, in place of what a model said `before`.

    What was right is as it was said; what was wrong is the other way round; what is put better is
    read from the better words.
    """
    said: str | None = before.activity if before else None
    if said is None and one.verdict != "missed":
        said = str(read_activity(one.caption)["activity"])
    is_active, activity = bool(said), said
    if one.verdict == "wrong":
        is_active, activity = not said, None if not said else ""
    elif one.verdict == "reworded":
        activity = str(read_activity(one.text)["activity"])
        is_active = bool(activity)
    elif one.verdict == "missed":
        is_active, activity = True, one.text or None
    return AnsweredWindow(place, is_active, activity, BY_PEOPLE, is_corrected=True)


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


def measure_gain(parts: Sequence[tuple[float, float, float]]) -> Gain:
    """The gain an answer over `parts`, and what it is at least.

    Of each part: the log-likelihood by the old and by the new one, and how much it holds. A ratio
    estimate whose scatter is that of whole parts: what lies together errs together.
    """
    old, new, sizes = np.array(parts, dtype=float).T
    sums, count, total = new - old, len(parts), float(sizes.sum())
    mean, low = float(sums.sum()) / total, -math.inf
    if count > 1:
        scatter = math.sqrt(count / (count - 1) * float(((sums - mean * sizes) ** 2).sum())) / total
        low = mean - float(student.ppf(CONFIDENCE, count - 1)) * scatter
    return Gain(float(old.sum()) / total, float(new.sum()) / total, low)


def folds_of(parts: Part) -> list[Part]:
    """Whole recordings, in an order that says nothing of them; of a single one pieces of time."""
    if len(parts) == 1:
        return pieces_of(parts, PARTS)
    order = sorted(parts, key=lambda one: hashlib.sha256(one.recording.encode()).hexdigest())
    count = min(MOST_FOLDS, len(order))
    return [order[first::count] for first in range(count)]


def pieces_of(parts: Part, count: int) -> list[Part]:
    """Each recording in `count` pieces of time with as many answers; empty ones are left out."""
    if count == 1:
        return [parts]
    return [
        [replace(one, answers=tuple(one.answers[place] for place in places.tolist()))]
        for one in parts
        for places in np.array_split(np.arange(len(one.answers)), count)
        if len(places)
    ]


def without(parts: Part, fold: Part) -> Part:
    """All answers but those of `fold`."""
    held = {(one.recording, answer.window) for one in fold for answer in one.answers}
    rest = (
        replace(one, answers=tuple(a for a in one.answers if (one.recording, a.window) not in held))
        for one in parts
    )
    return [one for one in rest if one.answers]


def log_likelihood(chance: FloatArray, active: FloatArray, weight: FloatArray) -> float:
    """Of what is `active`, 1 or 0, if each has that chance."""
    return float(weight @ (active * np.log(chance) + (1 - active) * np.log1p(-chance)))
