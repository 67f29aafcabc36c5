"""Draws training examples: stretches of recordings, and what each objective wants of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray
from earmark.training.dataset import TrainingRecording
from earmark.training.objectives import Targets


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Crops of one length with their targets."""

    features: Tensor
    """`(batch, steps, channels)`; zeros where a recording is shorter than the crop."""
    targets: Targets


class Crops:
    """Draws crops at random, every second of sound as likely as any other.

    The draws depend on the recordings, the settings and the seed, and not on the objective.
    """

    def __init__(
        self,
        recordings: Sequence[TrainingRecording],
        *,
        crop: float,
        batch: int,
        seed: int,
        clock_rate: int = CLOCK_RATE,
    ) -> None:
        self._recordings = list(recordings)
        self._steps = round(crop * clock_rate)
        self._batch = batch
        self.rng = np.random.default_rng(seed)
        lengths = np.array([len(heard.takes[0]) for heard in self._recordings], dtype=float)
        self._chances = lengths / lengths.sum()
        self._bounds = [_bounds(heard, clock_rate) for heard in self._recordings]

    def draw(self) -> Batch:
        """The next batch."""
        chosen = self.rng.choice(len(self._recordings), self._batch, p=self._chances)
        features, begins = [], []
        for which in chosen.tolist():
            takes = self._recordings[which].takes
            take = takes[int(self.rng.integers(len(takes)))]
            begin = int(self.rng.integers(0, max(1, len(take) - self._steps + 1)))
            features.append(take[begin : begin + self._steps])
            begins.append(begin)
        bounds = [self._bounds[which] - begin for which, begin in zip(chosen, begins, strict=True)]
        return lay_out(features, bounds, steps=self._steps)


def _bounds(heard: TrainingRecording, clock_rate: int) -> IndexArray:
    """First step and step after the last of each action, `(actions, 2)`; never empty ones."""
    times = np.array([(action.start, action.end) for action in heard.actions]).reshape(-1, 2)
    bounds: IndexArray = np.rint(times * clock_rate).astype(np.intp)
    bounds[:, 1] = np.maximum(bounds[:, 1], bounds[:, 0] + 1)
    return bounds


def lay_out(features: Sequence[FloatArray], bounds: Sequence[IndexArray], *, steps: int) -> Batch:
    """A batch of crops of at most `steps` rows; `bounds` are actions in steps of each crop.

    An action that the edge of a crop cuts off counts as one to be heard only where at least half
    of it is in sight (of a crop's length, if it is longer than that); what is in sight of it is
    never taken for silence, and its start counts where the start is in sight.
    """
    batch, channels = len(features), features[0].shape[1]
    rows = np.zeros((batch, steps, channels), dtype=np.float32)
    heard = np.zeros((batch, steps), dtype=bool)
    for place, crop in enumerate(features):
        rows[place, : len(crop)] = crop
        heard[place, : len(crop)] = True
    which = np.repeat(np.arange(batch), [len(each) for each in bounds])
    ends = np.concatenate([*bounds, np.zeros((0, 2), dtype=np.intp)])
    limit = heard.sum(axis=1)[which]
    low, high = ends[:, 0].clip(0), np.minimum(ends[:, 1], limit)
    seen = high - low
    counts = seen >= 0.5 * np.minimum(ends[:, 1] - ends[:, 0], steps)
    starts = (ends[:, 0] >= 0) & (ends[:, 0] < limit)
    inside, _ = _ranges(which * steps + low, np.maximum(seen, 0))
    active = np.zeros(batch * steps, dtype=bool)
    active[inside] = True
    inside, owner = _ranges((which * steps + low)[counts & (seen > 0)], seen[counts & (seen > 0)])
    return Batch(
        torch.from_numpy(rows),
        Targets(
            heard=torch.from_numpy(heard),
            active=torch.from_numpy(active.reshape(batch, steps)),
            inside=torch.from_numpy(inside),
            owner=torch.from_numpy(owner),
            starts=torch.from_numpy((which * steps + ends[:, 0])[starts]),
        ),
    )


def _ranges(first: IndexArray, count: IndexArray) -> tuple[IndexArray, IndexArray]:
    """All of `first[i], first[i] + 1, ...`, `count[i]` of each, and the `i` each belongs to."""
    owner = np.repeat(np.arange(len(first)), count)
    begun = np.cumsum(count) - count
    return np.arange(len(owner)) - begun[owner] + first[owner], owner
