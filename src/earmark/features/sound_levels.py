"""Encoders of sound levels; `FloorMel`, levels above the noise floor, is the default."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import PositiveFloat, PositiveInt

from earmark.features.encoder import STEP, SoundEncoder, cut_cells
from earmark.features.spectrum import (
    EPSILON,
    SPECTRA,
    decibels,
    mel_weights,
    power_spectra,
    serial_matmul,
)
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

FINE_BANDS = 64  # their logarithms are averaged into `FloorMel.bands`; a tone fills only one


@dataclass(frozen=True, slots=True)
class FloorMel(SoundEncoder):
    """Levels above the noise floor, then levels relative to the recent past, in a few bands each.

    The floor of a band is the quietest second so far, and rises slowly: a louder place becomes the
    new floor after some minutes, while half a minute of drilling does not:

        level  ▁▁▁▂▇▇▇▇▇▂▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅
        floor  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▅

    The recent past is a running mean and spread, as in `LogMel`. One pass and constant memory.
    """

    bands: PositiveInt = 8
    rise: float = 0.02
    """Natural-log units per second while the level is above the floor."""
    memory: PositiveFloat = 30.0
    """Time constant in seconds of the recent past."""
    least_spread: PositiveFloat = 0.5
    """Natural-log units."""

    @property
    def channels(self) -> int:
        return 2 * self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        if FINE_BANDS % self.bands:
            raise ValueError(f"floor-mel has bands that divide {FINE_BANDS}, not {self.bands}")
        weights = mel_weights(FINE_BANDS)
        floor = NoiseFloor(self.rise * HOP)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            fine = np.log(serial_matmul(power.mean(axis=1), weights) + EPSILON)
            levels = fine.reshape(len(fine), self.bands, -1).mean(axis=2)
            rows = [levels - floor.advance(levels), past.normalise(levels, self.least_spread)]
            values = np.concatenate(rows, axis=1).astype(np.float32)
            yield Track(values, start=first / CLOCK_RATE)


class RunningMoments:
    """Exponential moving mean of a signal and of its square; keeps its state between blocks."""

    def __init__(self, memory: float, bands: int) -> None:
        self._keep = float(np.exp(-1.0 / (memory * CLOCK_RATE)))
        self._stride = max(1, round(memory * CLOCK_RATE))  # weights within one stride span 1 to e
        self._last = np.zeros(2 * bands)
        self._steps = 0

    def normalise(self, levels: FloatArray, least_spread: float) -> FloatArray:
        both = np.concatenate([levels, levels**2], axis=1).astype(float)
        faded = np.empty_like(both)
        for first in range(0, len(both), self._stride):
            # y[n] = keep * y[n-1] + (1 - keep) * x[n], as a sum with weights keep ** -n.
            rows = both[first : first + self._stride]
            weights = self._keep ** np.arange(1.0, len(rows) + 1)[:, None]
            sums = self._last + np.cumsum(rows * ((1 - self._keep) / weights), axis=0)
            faded[first : first + self._stride] = weights * sums
            self._last = faded[first + len(rows) - 1].copy()
        count = self._steps + np.arange(1, len(levels) + 1)
        self._steps += len(levels)
        faded /= (1 - self._keep**count)[:, None]  # divide by the sum of the weights so far
        mean, square = np.split(faded, 2, axis=1)
        spread = np.sqrt(np.maximum(square - mean**2, least_spread**2))
        return np.asarray((levels - mean) / spread)


class NoiseFloor:
    """The lowest one-second mean level so far, rising by `rise` per step; keeps its state."""

    def __init__(self, rise: float) -> None:
        self._rise = rise
        self._last: FloatArray | None = None
        self._before = np.zeros((0, 0))

    def advance(self, levels: FloatArray) -> FloatArray:
        if self._last is None:
            self._before = np.repeat(levels[:1].astype(float), CLOCK_RATE - 1, axis=0)
            self._last = np.full(levels.shape[1], np.inf)
        joined = np.concatenate([self._before, levels])
        self._before = joined[-(CLOCK_RATE - 1) :]
        seconds = np.lib.stride_tricks.sliding_window_view(joined, CLOCK_RATE, axis=0).mean(axis=2)
        climb = self._rise * np.arange(1, len(levels) + 1)[:, None]
        # floor[n] = min(second[n], floor[n - 1] + rise), as a running minimum less the climb.
        lowest = np.minimum.accumulate(np.concatenate([self._last[None], seconds - climb]), axis=0)
        floor: FloatArray = lowest[1:] + climb
        self._last = floor[-1]
        return floor


@dataclass(frozen=True, slots=True)
class LogMel(SoundEncoder):
    """Log-mel energies, minus each channel's moving mean, divided by its moving spread.

    The weights of the past decay exponentially with the time constant `memory`, so that rooms,
    microphones and drifting noise cancel, in one pass and constant memory. At the beginning the
    weights are normalised over the sound so far.
    """

    bands: PositiveInt = 64
    memory: PositiveFloat = 30.0
    """Time constant in seconds."""
    least_spread: PositiveFloat = 0.5
    """Natural-log units."""

    @property
    def channels(self) -> int:
        return self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        weights = mel_weights(self.bands)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            levels = np.log(serial_matmul(power.mean(axis=1), weights) + EPSILON)  # (steps, bands)
            rows = past.normalise(levels, self.least_spread).astype(np.float32)
            yield Track(rows, start=first / CLOCK_RATE)


@dataclass(frozen=True, slots=True)
class Flux(SoundEncoder):
    """Onset strength: the rise of the log-mel spectrum over 10 ms, averaged over the bands.

    Falls count as 0. The value of a step is the maximum of its 10 ms intervals.
    """

    bands: PositiveInt = 40

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """0 in the first 10 ms."""
        weights, before = mel_weights(self.bands), None
        for power, first in power_spectra(sound):
            levels = np.log(serial_matmul(power.reshape(-1, len(weights)), weights) + EPSILON)
            start = levels[:1] if before is None else before
            rises = np.diff(levels, axis=0, prepend=start).clip(0).mean(axis=1)
            before = levels[-1:]
            yield Track(rises.reshape(-1, SPECTRA).max(axis=1), start=first / CLOCK_RATE)


@dataclass(frozen=True, slots=True)
class Energy(SoundEncoder):
    """Short-term energy: the root mean square of each step, full scale 1."""

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        for piece in cut_cells(sound):
            yield Track(rms(piece.samples), start=piece.first / CLOCK_RATE)


@dataclass(frozen=True, slots=True)
class EnergyVariance(SoundEncoder):
    """The variance of the level in dB over the seconds around each step."""

    around: PositiveFloat = 1.0
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
