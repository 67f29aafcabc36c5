"""Alters sound as other rooms and microphones would: level, filter, noise, reverberation."""

from __future__ import annotations

import numpy as np
from scipy.signal import butter, fftconvolve, sosfilt

from earmark.timeline import FloatArray


def alter(samples: FloatArray, sample_rate: int, *, seed: int) -> FloatArray:
    """`samples` as another device in another room might have recorded them; the same length.

    Each change has its own probability: reverberation 0.5, a microphone's filter 0.7, noise 0.7,
    the quantisation of a speech codec 0.3. The level always changes, by -12 to 6 dB.
    """
    rng = np.random.default_rng(seed)
    altered = np.asarray(samples, dtype=np.float32)
    if rng.random() < 0.5:
        altered = reverberate(altered, sample_rate, rng)
    if rng.random() < 0.7:
        altered = filtered(altered, sample_rate, rng)
    if rng.random() < 0.7:
        altered = noisy(altered, rng)
    if rng.random() < 0.3:
        altered = companded(altered)
    gain = 10.0 ** (rng.uniform(-12.0, 6.0) / 20)
    clipped: FloatArray = np.clip(altered * np.float32(gain), -1.0, 1.0)
    return clipped


def reverberate(samples: FloatArray, sample_rate: int, rng: np.random.Generator) -> FloatArray:
    """`samples` in a room: direct sound, then noise that decays over 0.1 to 0.6 s."""
    decay = rng.uniform(0.1, 0.6)
    times = np.arange(round(decay * sample_rate)) / sample_rate
    tail = rng.standard_normal(len(times)) * np.exp(-6.9 * times / decay)  # 60 dB down at the end
    tail *= rng.uniform(0.1, 0.5) / np.sqrt((tail**2).sum())
    tail[0] = 1.0
    echo: FloatArray = fftconvolve(samples, tail.astype(np.float32))[: len(samples)]
    return echo.astype(np.float32)


def filtered(samples: FloatArray, sample_rate: int, rng: np.random.Generator) -> FloatArray:
    """`samples` through a microphone without the lowest and the highest frequencies."""
    edges = rng.uniform(20.0, 250.0), min(rng.uniform(3_000.0, 7_500.0), 0.47 * sample_rate)
    return pass_band(samples, edges, sample_rate).astype(np.float32)


def pass_band(samples: FloatArray, edges: tuple[float, float], sample_rate: int) -> FloatArray:
    """`samples` through a band-pass between `edges` in hertz, of second order at either edge."""
    bands = butter(2, edges, "bandpass", fs=sample_rate, output="sos")
    passed: FloatArray = sosfilt(bands, samples)
    return passed


def noisy(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """`samples` with steady noise, white to brown, 5 to 30 dB below their mean level."""
    white = rng.standard_normal(len(samples)).astype(np.float32)
    colour = rng.uniform(0.0, 0.95)
    noise = sosfilt(np.array([[1.0, 0, 0, 1.0, -colour, 0]]), white)
    level = np.sqrt(np.mean(samples**2)) * 10.0 ** (-rng.uniform(5.0, 30.0) / 20)
    mixed: FloatArray = samples + noise * (level / max(float(noise.std()), 1e-9))
    return mixed.astype(np.float32)


def companded(samples: FloatArray) -> FloatArray:
    """`samples` through eight-bit mu-law, the coarsest codec a recorder is likely to use."""
    loud = np.sign(samples) * np.log1p(255 * np.abs(samples.clip(-1, 1))) / np.log(256)
    steps = np.round(loud * 127) / 127
    coarse: FloatArray = np.sign(steps) * np.expm1(np.abs(steps) * np.log(256)) / 255
    return coarse.astype(np.float32)


def level(samples: FloatArray) -> FloatArray:
    """`samples` scaled to a mean square of 1; silence stays silent."""
    return samples / max(float(np.sqrt(np.mean(samples**2))), 1e-9)


def log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    """A random number between `bounds`, drawn evenly on a logarithmic scale."""
    return float(np.exp(rng.uniform(*np.log(bounds))))
