"""Onsets: how fast the log-mel spectrum rises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.spectrum import EPSILON, SPECTRA, mel_weights, power_spectra, serial_matmul
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, Track


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
