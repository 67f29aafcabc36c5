"""Rates by level: absolute, and the same however loud the recording is."""

from __future__ import annotations

import numpy as np
import pytest

from earmark import Budget, Track
from earmark.features.encoder import SAMPLE_RATE
from earmark.gate.frontline import energy_frontline
from earmark.gate.rates import WindowScores
from earmark.grid import Grid
from earmark.media import Sound
from earmark.selection import Coverage

BURSTS = (100.0, 301.0, 470.0)
MINUTES = 10


def noise(minutes: float = MINUTES) -> np.ndarray:
    """Steady noise at -60 dB of full scale."""
    drawn = np.random.default_rng(0).standard_normal(round(60 * minutes) * SAMPLE_RATE)
    return (1e-3 * drawn).astype(np.float32)


def with_bursts(times=BURSTS, *, level: float = 0.1) -> np.ndarray:
    """The same with a second of loud noise at each of `times`."""
    samples = noise()
    for time in times:
        first = round(time * SAMPLE_RATE)
        samples[first : first + SAMPLE_RATE] *= level / 1e-3
    return samples


def windows_of(samples: np.ndarray, *, length: float = 4.0):
    """What the frontline makes of a sound."""
    line = energy_frontline()
    tracks = list(line.scorer(line.encoder.encode([Sound(samples, 0.0, SAMPLE_RATE)])))
    track = Track(np.concatenate([each.values for each in tracks]))
    duration = len(samples) / SAMPLE_RATE
    grid = Grid(length)
    return grid.score(track, duration, rates=line.rates, lengths=line.lengths.usual)


@pytest.mark.parametrize("length", [1.0, 2.0, 4.0, 8.0])
def test_three_bursts_in_a_quiet_recording_are_about_three_actions(length):
    windows = windows_of(with_bursts(), length=length)
    assert 2 < windows.rates.sum() < 4.5
    loudest = {int(time // length) for time in BURSTS}
    assert set(np.argsort(windows.rates)[-3:].tolist()) == loudest


@pytest.mark.parametrize("samples", [np.zeros(600 * SAMPLE_RATE, dtype=np.float32), noise()])
@pytest.mark.parametrize("gain", [1.0, 100.0])
def test_silence_and_steady_noise_hold_nothing_however_loud(samples, gain):
    windows = windows_of(np.float32(gain) * samples)
    assert 0 < windows.rates.sum() < 0.1
    (bought,) = Coverage().solve_many([windows], budget=Budget(price=0.05))
    assert len(bought) == 0


def test_the_same_sound_twelve_decibels_softer_has_the_same_rates():
    loud = windows_of(with_bursts())
    soft = windows_of(np.float32(10 ** (-12 / 20)) * with_bursts())
    np.testing.assert_allclose(soft.rates, loud.rates, rtol=1e-3)


def test_a_louder_window_is_never_rated_lower():
    rates = [
        windows_of(with_bursts([200.0], level=level)).rates[50]
        for level in (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.5)
    ]
    assert rates == sorted(rates) and rates[-1] > 20 * rates[0]


def test_half_a_minute_of_drilling_stands_out_of_two_quiet_minutes():
    windows = windows_of(with_bursts(200.0 + np.arange(30)))
    assert windows.rates[50:57].min() > 100 * np.median(windows.rates)


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_there_is_a_rate_a_window(count):
    levels = np.linspace(0.01, 0.02, count)
    rates = energy_frontline().rates(WindowScores(4.0, 2 * levels, levels))
    assert len(rates) == count and np.all(rates > 0)
