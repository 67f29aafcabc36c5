"""What a worn microphone makes of a scene: filters, clothes, wind, gain, suppression and codec."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import minimum_filter1d, uniform_filter1d
from scipy.signal import butter, istft, lfilter, resample_poly, sosfilt, stft

from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray
from earmark_lab.sites.codecs import through
from earmark_lab.sites.physics import coloured, level, log_uniform, wandering

CONTROL = 160
"""Samples between two values of a gain that varies: 10 ms."""

Chain = Callable[[FloatArray, np.random.Generator], FloatArray]


def flat(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A good microphone: noise of its own and nothing else."""
    return samples + _noise(samples, rng, (-85.0, -65.0))


def action_camera(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """High-pass, handling noise, noise suppression, automatic gain, limiter, AAC."""
    samples = high_pass(samples, rng.uniform(80, 200))
    samples = samples + _noise(samples, rng, (-75.0, -58.0)) + rustle(len(samples), rng)
    if rng.random() < 0.6:
        samples = suppress_noise(samples, strength=rng.uniform(0.5, 1.5))
    samples = limit(automatic_gain(samples, rng.uniform(6, 24)), 10 ** (rng.uniform(-12, -3) / 20))
    return through(samples, "aac", int(rng.choice([32_000, 48_000, 64_000])))


def body_camera(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """High-pass, narrow band, strong automatic gain, 8 or 16 kHz, AAC."""
    samples = high_pass(samples, rng.uniform(150, 350))
    samples = samples + _noise(samples, rng, (-70.0, -52.0))
    samples = limit(automatic_gain(samples, rng.uniform(15, 36)), 10 ** (rng.uniform(-10, -3) / 20))
    samples = narrow_band(samples) if rng.random() < 0.5 else samples
    return through(samples, "aac", int(rng.choice([24_000, 32_000])))


def clothed(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Beneath clothes: high frequencies damped, rubbing, Opus."""
    damped = _low_pass(samples, log_uniform(rng, (500, 2500)))
    samples = damped + 10 ** (rng.uniform(-30, -10) / 20) * samples
    samples = samples + rustle(len(samples), rng) + _noise(samples, rng, (-75.0, -60.0))
    return through(samples, "opus", int(rng.choice([12_000, 16_000, 24_000])))


def windy(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Wind on the capsule, and the high-pass filter against it."""
    gust = wandering(len(samples), rng, every=rng.uniform(2, 15), by=rng.uniform(0.6, 1.2))
    blowing = level(coloured(len(samples), rng, (0.97, 0.995))).astype(np.float32)
    blowing = _low_pass(blowing, rng.uniform(150, 500))
    loudness = np.float32(10 ** (rng.uniform(-55, -32) / 20))
    samples = samples + loudness * gust.astype(np.float32) * blowing
    return limit(high_pass(samples, rng.uniform(60, 180)), 0.5) + _noise(samples, rng, (-80, -65))


def telephone(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """8 kHz, automatic gain, Opus at a low rate."""
    samples = samples + _noise(samples, rng, (-70.0, -55.0))
    samples = automatic_gain(high_pass(samples, rng.uniform(150, 300)), rng.uniform(6, 20))
    return through(narrow_band(limit(samples, 0.5)), "opus", int(rng.choice([8_000, 12_000])))


MICROPHONES: dict[str, Chain] = {
    "flat": flat,
    "action-camera": action_camera,
    "body-camera": body_camera,
    "clothed": clothed,
    "windy": windy,
    "telephone": telephone,
}


def high_pass(samples: FloatArray, edge: float) -> FloatArray:
    sections = butter(2, edge, "highpass", fs=SAMPLE_RATE, output="sos")
    passed: FloatArray = sosfilt(sections.astype(np.float32), samples)
    return passed


def _low_pass(samples: FloatArray, edge: float) -> FloatArray:
    sections = butter(2, edge, "lowpass", fs=SAMPLE_RATE, output="sos")
    passed: FloatArray = sosfilt(sections.astype(np.float32), samples)
    return passed


def narrow_band(samples: FloatArray) -> FloatArray:
    """Through a rate of 8 kHz and back."""
    halved = resample_poly(samples, 1, 2)
    back: FloatArray = resample_poly(halved, 2, 1)[: len(samples)]
    return back.astype(np.float32)


def automatic_gain(
    samples: FloatArray, most_db: float, *, target_db: float = -20.0, release: float = 3.0
) -> FloatArray:
    """Raises quiet sound towards `target_db` by at most `most_db`; falls at once, rises slowly."""
    cells = np.pad(samples, (0, -len(samples) % CONTROL)).reshape(-1, CONTROL)
    levels = 10 * np.log10((cells**2).mean(axis=1) + 1e-10)
    keep = float(np.exp(-CONTROL / SAMPLE_RATE / release))
    slow = lfilter([1 - keep], [1.0, -keep], levels, zi=[keep * levels[0]])[0]
    gains = np.clip(target_db - np.maximum(slow, levels - 12), -6.0, most_db)
    gains = uniform_filter1d(gains, 5)
    return (samples * _every_sample(10 ** (gains / 20), len(samples))).astype(np.float32)


def limit(samples: FloatArray, ceiling: float) -> FloatArray:
    limited: FloatArray = ceiling * np.tanh(samples / ceiling)
    return limited


def suppress_noise(samples: FloatArray, *, strength: float, floor: float = 0.1) -> FloatArray:
    """Spectral subtraction of the lowest power of the last 1.5 s in each bin, as cameras do it."""
    _, _, spectra = stft(samples, nperseg=512, noverlap=256)
    power = (np.abs(spectra) ** 2).astype(np.float32)
    noise = minimum_filter1d(uniform_filter1d(power, 5, axis=1), 94, axis=1, origin=46)
    gain = np.maximum(1 - strength * 2 * noise / (power + 1e-12), floor)
    _, restored = istft(spectra * gain, nperseg=512, noverlap=256)
    clean: FloatArray = restored[: len(samples)].astype(np.float32)
    return clean


def rustle(count: int, rng: np.random.Generator) -> FloatArray:
    """Clothes and hands on the microphone: low bursts, a few a minute."""
    noise = np.zeros(count, np.float32)
    loudness = 10 ** (rng.uniform(-65, -38) / 20)
    for first in rng.integers(
        0, count, rng.poisson(rng.uniform(0.5, 5) * count / SAMPLE_RATE / 60)
    ):
        size = min(round(log_uniform(rng, (0.1, 1.5)) * SAMPLE_RATE), count - int(first))
        burst = rng.standard_normal(size, np.float32) * np.hanning(size) * rng.uniform(0.3, 1.5)
        noise[first : first + size] += loudness * burst.astype(np.float32)
    return _low_pass(noise, log_uniform(rng, (300, 1800)))


def _noise(
    samples: FloatArray, rng: np.random.Generator, decibels: tuple[float, float]
) -> FloatArray:
    loudness = np.float32(10 ** (rng.uniform(*decibels) / 20))
    return loudness * rng.standard_normal(len(samples), np.float32)


def _every_sample(values: FloatArray, count: int) -> FloatArray:
    times = np.arange(count, dtype=np.float32) / CONTROL
    return np.interp(times, np.arange(len(values)) + 0.5, values).astype(np.float32)
