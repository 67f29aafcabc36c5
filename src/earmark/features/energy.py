from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import STEP, SoundEncoder, cut_cells
from earmark.features.spectrum import decibels
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray, Track


@dataclass(frozen=True, slots=True)
class Energy(SoundEncoder):
    """Short-term energy: the root mean square of each step, full scale 1."""

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        for piece in cut_cells(sound):
            yield Track(rms(piece.samples), start=piece.first / CLOCK_RATE)


@dataclass(frozen=True, slots=True)
class EnergyVariance(SoundEncoder):
    """The variance of the level in dB over the seconds around each step."""

    around: float = 1.0
    """Seconds, centred on the step."""
    floor_db: float = -70.0
    """Lower levels are raised to this, so that numerical silence has no variance."""

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        side = max(1, round(self.around * CLOCK_RATE / 2))
        for piece in cut_cells(sound, before=side * STEP, after=side * STEP):
            levels = np.maximum(decibels(rms(piece.samples)), self.floor_db)
            around = np.lib.stride_tricks.sliding_window_view(levels, 2 * side + 1)
            yield Track(around.var(axis=1).astype(np.float32), start=piece.first / CLOCK_RATE)


def rms(samples: FloatArray) -> FloatArray:
    steps = samples.reshape(-1, STEP)
    return np.sqrt(np.einsum("ij,ij->i", steps, steps) / STEP)
