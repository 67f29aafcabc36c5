"""An encoder over log-mel spectra: levels against the recent past."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.floor_mel import RunningMoments
from earmark.features.spectrum import POWER_FLOOR, mel_weights, power_spectra, serial_matmul
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, Track


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
        """One per band."""
        return self.bands

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The normalised log-mel spectra of `sound`."""
        weights = mel_weights(self.bands)
        past = RunningMoments(self.memory, self.bands)
        for power, first in power_spectra(sound):
            levels = np.log(
                serial_matmul(power.mean(axis=1), weights) + POWER_FLOOR
            )  # (steps, bands)
            rows = past.normalise(levels, self.least_spread).astype(np.float32)
            yield Track(rows, start=first / CLOCK_RATE)
