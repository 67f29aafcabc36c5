"""Sounds made by physical models: impacts, friction, motors, liquids, footsteps, wind and music."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import butter, fftconvolve, lfilter, sosfilt

from earmark.features.encoder import SAMPLE_RATE, STEP
from earmark.timeline import FloatArray

Draw = Callable[[int, np.random.Generator], FloatArray]
"""A sound of so many samples."""


def decibels(samples: FloatArray, size: int = STEP) -> FloatArray:
    """Of every `size` samples; an incomplete last one is left out."""
    cells = samples[: len(samples) // size * size].reshape(-1, size).astype(float)
    levels: FloatArray = 10 * np.log10((cells**2).mean(axis=1) + 1e-12)
    return levels


def reverberate(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Direct sound, then noise that decays over 0.1 to 0.6 s."""
    decay = rng.uniform(0.1, 0.6)
    times = np.arange(round(decay * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * np.exp(-6.9 * times / decay)  # 60 dB down at the end
    tail *= rng.uniform(0.1, 0.5) / np.sqrt((tail**2).sum())
    tail[0] = 1.0
    echo: FloatArray = fftconvolve(samples, tail.astype(np.float32))[: len(samples)]
    return echo.astype(np.float32)


def pass_band(samples: FloatArray, edges: tuple[float, float]) -> FloatArray:
    """`edges` in hertz, of second order."""
    bands = butter(2, edges, "bandpass", fs=SAMPLE_RATE, output="sos")
    passed: FloatArray = sosfilt(bands, samples)
    return passed


def level(samples: FloatArray) -> FloatArray:
    """To a mean square of 1; silence stays silent."""
    return samples / max(float(np.sqrt(np.mean(samples**2))), 1e-9)


def log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))


def blow(rng: np.random.Generator) -> FloatArray:
    """Noise and a few tones that fade within 4 to 120 ms."""
    fades = log_uniform(rng, (0.004, 0.12))
    times = np.arange(round(min(0.5, 6 * fades) * SAMPLE_RATE)) / SAMPLE_RATE
    noise = banded(len(times), rng) if rng.random() < 0.5 else rng.standard_normal(len(times))
    pitches = np.array([[log_uniform(rng, (150, 6000))] for _ in range(4)])
    tones = (rng.uniform(0.3, 1, (4, 1)) * np.sin(2 * np.pi * pitches * times)).sum(axis=0)
    struck: FloatArray = level(noise) + rng.uniform(0, 1.5) * level(tones)
    return struck * np.exp(-times / fades)


def coloured(
    count: int, rng: np.random.Generator, colours: tuple[float, float] = (0, 0.97)
) -> FloatArray:
    noise: FloatArray = lfilter([1.0], [1.0, -rng.uniform(*colours)], rng.standard_normal(count))
    return noise


def banded(count: int, rng: np.random.Generator) -> FloatArray:
    """Steady noise of a random frequency band: saws, vacuum cleaners, water."""
    edges = rng.uniform(50, 1500), rng.uniform(2500, 7700)
    return pass_band(rng.standard_normal(count), edges)


def motor(count: int, rng: np.random.Generator) -> FloatArray:
    """Harmonics of a tone that varies a little, and noise: drills, engines, hums."""
    tone = rng.uniform(20, 400) * wandering(count, rng, every=rng.uniform(3, 30), by=0.1)
    phase = 2 * np.pi * np.cumsum(tone) / SAMPLE_RATE
    falls = rng.uniform(0.2, 1.4)
    sound = sum(
        rng.uniform(0.2, 1) / k**falls * np.sin(k * phase + rng.uniform(0, 6.3))
        for k in range(1, int(rng.integers(4, 24)))
    )
    return level(sound) + rng.uniform(0.1, 1.5) * level(coloured(count, rng))


def pulsing(count: int, rng: np.random.Generator) -> FloatArray:
    """Noise that swells 0.4 to 14 times a second: grinders, pumps, washing machines."""
    times = np.arange(count) / SAMPLE_RATE
    beat = 1 + rng.uniform(0.2, 0.98) * np.sin(2 * np.pi * log_uniform(rng, (0.4, 14)) * times)
    return banded(count, rng) * beat


def gusts(count: int, rng: np.random.Generator) -> FloatArray:
    """Low-frequency noise whose level varies slowly: wind, traffic."""
    low = coloured(count, rng, (0.9, 0.995))
    return low * wandering(count, rng, every=rng.uniform(1, 6), by=rng.uniform(0.4, 1.2))


def drops(count: int, rng: np.random.Generator) -> FloatArray:
    """Many small clicks over a hiss: rain."""
    falls = round(count / SAMPLE_RATE * rng.uniform(10, 400))
    clicks = np.zeros(count)
    clicks[rng.integers(0, count, falls)] = rng.exponential(1.0, falls)
    edges = rng.uniform(300, 2000), rng.uniform(3000, 7500)
    wet = pass_band(clicks, edges)
    return rng.uniform(0.1, 1.5) * level(wet) + level(banded(count, rng))


def footsteps(count: int, rng: np.random.Generator) -> FloatArray:
    """A burst of noise about twice a second, with a stop now and then."""
    steps = np.zeros(count)
    stride, fades = rng.uniform(0.45, 0.65), rng.uniform(0.015, 0.07)
    size = round(0.25 * SAMPLE_RATE)
    burst = banded(size, rng) * np.exp(-np.arange(size) / SAMPLE_RATE / fades)
    time = rng.uniform(0, 1)
    while (at := round(time * SAMPLE_RATE)) < count - size:
        steps[at : at + size] += rng.uniform(0.5, 1.2) * burst
        time += stride * rng.uniform(0.93, 1.07)
        time += rng.uniform(1, 6) if rng.random() < 0.01 else 0.0
    return level(steps) + 0.05 * level(coloured(count, rng))


TOOLS: tuple[Draw, ...] = (banded, coloured, motor, pulsing)
AMBIENCE: tuple[Draw, ...] = (*TOOLS, gusts, drops, footsteps)


def wandering(count: int, rng: np.random.Generator, *, every: float, by: float) -> FloatArray:
    """Factors around 1; `by` is the spread of their logarithm."""
    knots = np.exp(by * rng.standard_normal(max(4, int(count / SAMPLE_RATE / every) + 4)))
    positions = np.linspace(0, len(knots) - 1, count)
    return np.interp(positions, np.arange(len(knots)), knots)


def faded(samples: FloatArray, ramp: float) -> FloatArray:
    size = max(1, min(round(ramp * SAMPLE_RATE), len(samples) // 2))
    rise = np.minimum(np.arange(len(samples)) / size, 1.0)
    return samples * rise * rise[::-1]


def impacts(count: int, rng: np.random.Generator) -> FloatArray:
    """An object of 5 to 14 modes, struck one to six times a second."""
    strikes = np.zeros(count, np.float32)
    gap = SAMPLE_RATE / log_uniform(rng, (1.0, 6.0))
    times = np.arange(max(1, int(count / gap))) * gap * rng.uniform(0.8, 1.0)
    times = times + rng.normal(0, 0.08, len(times)) * gap
    strikes[np.clip(times.astype(int), 0, count - 1)] = rng.uniform(0.3, 1.0, len(times))
    struck: FloatArray = fftconvolve(strikes, modes(rng))[:count]
    return struck


def modes(rng: np.random.Generator) -> FloatArray:
    """The response to one strike: decaying tones over a click; higher modes decay sooner."""
    lowest, decay = log_uniform(rng, (120, 1500)), log_uniform(rng, (0.01, 0.25))
    ratios = 1 + np.cumsum(rng.uniform(0.2, 1.6, int(rng.integers(4, 14))))
    pitches = np.minimum(lowest * np.concatenate([[1.0], ratios]), 7500.0)[:, None]
    times = np.arange(round(min(0.8, 5 * decay) * SAMPLE_RATE)) / SAMPLE_RATE
    damping = np.exp(-times * (pitches / lowest) ** rng.uniform(0.2, 0.9) / decay)
    tones = np.sin(2 * np.pi * pitches * times) * damping * rng.uniform(0.2, 1, (len(pitches), 1))
    click = rng.standard_normal(len(times)) * np.exp(-times / 0.003)
    response: FloatArray = level(tones.sum(axis=0)) + rng.uniform(0.1, 1.0) * level(click)
    return response


def friction(count: int, rng: np.random.Generator) -> FloatArray:
    """Strokes of rubbing, sawing or scraping: noise and resonances that follow the speed."""
    times = np.arange(count) / SAMPLE_RATE
    pace = log_uniform(rng, (0.6, 5.0)) * wandering(count, rng, every=1.0, by=0.1)
    speed = np.abs(np.sin(np.pi * np.cumsum(pace) / SAMPLE_RATE + rng.uniform(0, 3)))
    rough = pass_band(
        rng.standard_normal(count), (log_uniform(rng, (200, 1500)), rng.uniform(2500, 7500))
    )
    squeal = np.sin(2 * np.pi * log_uniform(rng, (300, 3000)) * times + 3 * np.cumsum(rough) / 1e4)
    stroke: FloatArray = speed ** rng.uniform(0.7, 2.0)
    return stroke * (level(rough) + rng.uniform(0, 0.8) * squeal)


def loaded_motor(count: int, rng: np.random.Generator) -> FloatArray:
    """A motor that slows down and grows louder whenever the tool bites."""
    load = wandering(count, rng, every=rng.uniform(0.4, 3.0), by=0.5)
    load /= load.max()
    tone = log_uniform(rng, (60, 500)) * (1 - rng.uniform(0.05, 0.4) * load)
    phase = 2 * np.pi * np.cumsum(tone) / SAMPLE_RATE
    falls = rng.uniform(0.3, 1.3)
    whine = sum(
        rng.uniform(0.3, 1) / k**falls * np.sin(k * phase)
        for k in range(1, int(rng.integers(4, 14)))
    )
    cut: FloatArray = level(np.asarray(whine)) + load * level(banded(count, rng)) * rng.uniform(
        0.3, 2
    )
    return cut * (0.5 + load)


def liquid(count: int, rng: np.random.Generator) -> FloatArray:
    """Bubbles, which ring at a pitch that rises as they shrink, over a hiss: pouring, rinsing."""
    sound = rng.uniform(0.0, 0.6) * level(banded(count, rng))
    many = log_uniform(rng, (4, 150)) / 12
    for _ in range(12):
        pitch, decay = log_uniform(rng, (350, 4500)), log_uniform(rng, (0.004, 0.04))
        times = np.arange(round(5 * decay * SAMPLE_RATE)) / SAMPLE_RATE
        ring = np.sin(2 * np.pi * pitch * times * (1 + 0.1 * times / decay)) * np.exp(
            -times / decay
        )
        births = np.zeros(count)
        born = rng.integers(0, count, rng.poisson(many * count / SAMPLE_RATE))
        births[born] = rng.exponential(1.0, len(born))
        sound += fftconvolve(births, ring)[:count]
    return sound


def handling(count: int, rng: np.random.Generator) -> FloatArray:
    """A camera worn by somebody at work: noise that follows movements, rubbing, soft blows."""
    moves = wandering(count, rng, every=rng.uniform(0.3, 2.0), by=rng.uniform(0.2, 0.8))
    sound = level(coloured(count, rng)) * moves
    rubbing = wandering(count, rng, every=rng.uniform(0.1, 0.4), by=1.0)
    sound += rng.uniform(0, 1.5) * level(coloured(count, rng, (0.8, 0.98)) * rubbing)
    strikes = np.zeros(count)
    struck = rng.integers(0, count, rng.poisson(rng.uniform(0.2, 2.0) * count / SAMPLE_RATE))
    strikes[struck] = rng.exponential(1.0, len(struck))
    return sound + rng.uniform(0, 1.0) * level(fftconvolve(strikes, modes(rng))[:count])


def music(count: int, rng: np.random.Generator) -> FloatArray:
    """Notes of a scale over a beat, as from a radio."""
    beat = 60 / rng.uniform(70, 150)
    sound = np.zeros(count, np.float32)
    scale = (
        110 * 2 ** (np.array([0, 2, 4, 5, 7, 9, 11, 12, 14, 16]) / 12) * log_uniform(rng, (1, 3))
    )
    size = round(beat * 2 * SAMPLE_RATE)
    times = np.arange(size) / SAMPLE_RATE
    decay = np.exp(-times / rng.uniform(0.15, 0.8))
    notes = [
        decay * sum(np.sin(2 * np.pi * k * pitch * times) / k**1.3 for k in range(1, 6))
        for pitch in scale
    ]
    drum = 2 * np.exp(-times / 0.05) * rng.standard_normal(size)
    for first in range(0, count - size, round(beat * SAMPLE_RATE)):
        sound[first : first + size] += notes[int(rng.integers(len(notes)))]
        sound[first : first + size] += drum * float(rng.random() < 0.7)
    return sound
