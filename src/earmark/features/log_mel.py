"""Encoders of log-mel spectra: levels relative to the recent past, and how fast they rise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.floor_mel import RunningMoments
from earmark.features.spectrum import EPSILON, SPECTRA, mel_weights, power_spectra, serial_matmul
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


@dataclass(frozen=True, slots=True)
class Flux(SoundEncoder):
    """Onset strength: the rise of the log-mel spectrum over 10 ms, averaged over the bands.

    Falls count as 0. The value of a step is the maximum of its 10 ms intervals.
    """

    bands: int = 40

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The spectral flux of `sound`; 0 in the first 10 ms."""
        weights, before = mel_weights(self.bands), None
        for power, first in power_spectra(sound):
            levels = np.log(serial_matmul(power.reshape(-1, len(weights)), weights) + EPSILON)
            start = levels[:1] if before is None else before
            rises = np.diff(levels, axis=0, prepend=start).clip(0).mean(axis=1)
            before = levels[-1:]
            yield Track(rises.reshape(-1, SPECTRA).max(axis=1), start=first / CLOCK_RATE)
