"""Log-mel spectra, each channel measured against its own recent past: the gate's input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder, as_track
from earmark.features.spectrum import QUIET, mel_weights, on_one_thread, power_spectra
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray, Track


@dataclass(frozen=True, slots=True)
class LogMel(SoundEncoder):
    """Log-mel energies, less each channel's running mean, over its running spread.

    The running values look back over `memory` seconds with exponentially fading weight, so rooms,
    microphones and drifting noise cancel and the features need one pass and constant memory. At
    the beginning the weights are those of what has been heard so far.
    """

    bands: int = 64
    memory: float = 30.0
    """Seconds after which a moment has faded to 1/e of its weight."""
    least_spread: float = 0.5
    """Natural-log units; a channel calmer than this is not blown up."""

    @property
    def channels(self) -> int:
        """One a band."""
        return self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The normalised log-mel spectra of `sound`."""
        weights = mel_weights(self.bands)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            levels = np.log(on_one_thread(power.mean(axis=1), weights) + QUIET)  # (steps, bands)
            mean, square = past.advance(levels)
            spread = np.sqrt(np.maximum(square - mean**2, self.least_spread**2))
            yield as_track(((levels - mean) / spread).astype(np.float32), first)


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

    def advance(self, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean and the mean square at every row of `levels`, which follow the last ones."""
        both = np.concatenate([levels, levels**2], axis=1).astype(float)
        faded = np.concatenate(
            [
                self._filter(both[start : start + self._stride])
                for start in range(0, len(both), self._stride)
            ]
        )
        count = self._steps + np.arange(1, len(levels) + 1)
        self._steps += len(levels)
        faded /= (1 - self._keep**count)[:, None]  # the weights so far, so that they sum to 1
        mean, square = np.split(faded, 2, axis=1)
        return mean, square

    def _filter(self, rows: FloatArray) -> FloatArray:
        """`y[n] = keep * y[n-1] + (1 - keep) * x[n]`, as a sum with weights `keep ** -n`."""
        weights = self._keep ** np.arange(1.0, len(rows) + 1)[:, None]
        filtered: FloatArray = weights * (
            self._last + np.cumsum(rows * ((1 - self._keep) / weights), axis=0)
        )
        self._last = filtered[-1]
        return filtered
