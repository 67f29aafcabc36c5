"""Answers kept aside, and how much likelier they are by one gate than by another."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from earmark.timeline import FloatArray
from earmark.training.answered_windows import AnsweredRecording

PRIOR = 20.0
"""Answers that the base gate's own word counts as much as; chosen, not fitted."""

PARTS = 5
"""Parts, at least, by which the scatter of a gain is told; a recording is one, or pieces of it."""

MOST_FOLDS = 10

CONFIDENCE = 2 / 3
"""That the gain on answers kept aside is one, before a gate is written: two to one. Five recordings
seldom show more, and the gain is told. Chosen, after turns of the bench were seen."""

Part = list[AnsweredRecording]


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
