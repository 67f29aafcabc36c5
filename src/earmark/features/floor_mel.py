"""The default encoder: log-mel levels against the noise floor and the recent past."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.spectrum import POWER_FLOOR, mel_weights, power_spectra, serial_matmul
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

FINE_BANDS = 64
"""Mel bands whose logarithms are averaged into `FloorMel.bands`: a tone fills only one of them."""


@dataclass(frozen=True, slots=True)
class FloorMel(SoundEncoder):
    """Levels above the noise floor, then levels against the recent past; a few bands of each.

    The floor of a band is the quietest second heard so far, and rises slowly, so that a louder
    place becomes the new floor after some minutes while half a minute of drilling does not:

        level  ▁▁▁▂▇▇▇▇▇▂▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅
        floor  ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▅

    The recent past is a running mean and spread, as in `LogMel`. One pass and constant memory.
    """

    bands: int = 8
    rise: float = 0.02
    """Natural-log units a second by which the floor rises where nothing holds it down."""
    memory: float = 30.0
    """Seconds after which a moment of the recent past has faded to 1/e of its weight."""
    least_spread: float = 0.5
    """Natural-log units; a band calmer than this is not blown up."""

    @property
    def channels(self) -> int:
        """Two per band."""
        return 2 * self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The levels of `sound` above its floor, beside those against its recent past."""
        weights = mel_weights(FINE_BANDS)
        floor = NoiseFloor(self.rise * HOP)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            fine = np.log(serial_matmul(power.mean(axis=1), weights) + POWER_FLOOR)  # (steps, FINE)
            levels = fine.reshape(len(fine), self.bands, -1).mean(axis=2)
            rows = [levels - floor.advance(levels), past.normalise(levels, self.least_spread)]
            values = np.concatenate(rows, axis=1).astype(np.float32)
            yield Track(values, start=first / CLOCK_RATE)


class RunningMoments:
    """Exponentially fading mean of a signal and of its square, carried from block to block.

    A first-order filter, written out: importing a library's costs more time than an hour of sound
    takes to filter.
    """

    def __init__(self, memory: float, bands: int) -> None:
        self._keep = float(np.exp(-1.0 / (memory * CLOCK_RATE)))
        self._stride = max(1, round(memory * CLOCK_RATE))  # weights within one stride span 1 to e
        self._last = np.zeros(2 * bands)
        self._steps = 0

    def normalise(self, levels: FloatArray, least_spread: float) -> FloatArray:
        """`levels`, which follow the last ones, less their mean, over their spread."""
        both = np.concatenate([levels, levels**2], axis=1).astype(float)
        starts = range(0, len(both), self._stride)
        faded = np.concatenate([self._filter(both[one : one + self._stride]) for one in starts])
        count = self._steps + np.arange(1, len(levels) + 1)
        self._steps += len(levels)
        faded /= (1 - self._keep**count)[:, None]  # the weights so far, so that they sum to 1
        mean, square = np.split(faded, 2, axis=1)
        spread = np.sqrt(np.maximum(square - mean**2, least_spread**2))
        return np.asarray((levels - mean) / spread)

    def _filter(self, rows: FloatArray) -> FloatArray:
        """`y[n] = keep * y[n-1] + (1 - keep) * x[n]`, as a sum with weights `keep ** -n`."""
        weights = self._keep ** np.arange(1.0, len(rows) + 1)[:, None]
        filtered: FloatArray = weights * (
            self._last + np.cumsum(rows * ((1 - self._keep) / weights), axis=0)
        )
        self._last = filtered[-1]
        return filtered


class NoiseFloor:
    """The lowest level of a second so far, raised by `rise` a step; carried from block to block."""

    def __init__(self, rise: float) -> None:
        self._rise = rise
        self._last: FloatArray | None = None
        self._before = np.zeros((0, 0))

    def advance(self, levels: FloatArray) -> FloatArray:
        """The floor at every row of `levels`, which follow the last ones.

        Before the beginning the first row is taken to have lasted.
        """
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
