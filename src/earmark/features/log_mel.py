"""An encoder of log-mel spectra: levels relative to the recent past."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.floor_mel import RunningMoments
from earmark.features.spectrum import EPSILON, mel_weights, power_spectra, serial_matmul
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, Track


@dataclass(frozen=True, slots=True)
class LogMel(SoundEncoder):
    """Log-mel energies, minus each channel's moving mean, divided by its moving spread.

    The weights of the past decay exponentially with the time constant `memory`, so that rooms,
    microphones and drifting noise cancel, in one pass and constant memory. At the beginning the
    weights are normalised over the sound so far.
    """

    bands: int = 64
    memory: float = 30.0
    """Time constant in seconds: the weight decays to 1/e."""
    least_spread: float = 0.5
    """Natural-log units; smaller spreads are raised to this before dividing."""

    @property
    def channels(self) -> int:
        """One per band."""
        return self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The normalised log-mel spectra of `sound`."""
        weights = mel_weights(self.bands)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            levels = np.log(serial_matmul(power.mean(axis=1), weights) + EPSILON)  # (steps, bands)
            rows = past.normalise(levels, self.least_spread).astype(np.float32)
            yield Track(rows, start=first / CLOCK_RATE)
