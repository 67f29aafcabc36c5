"""Synthetic talk: syllables with formants, in the pauses and turns of people who speak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from earmark.features.encoder import SAMPLE_RATE
from earmark.timeline import FloatArray
from earmark_lab.sites.physics import level, log_uniform

LONGEST = 120
"""Seconds of talk that are made."""

HIGHEST = 5_000.0
"""Harmonic of a voice, in hertz."""

HOP = 80
"""Samples: 5 ms."""

_WIDTHS, _WEIGHTS = (70.0, 110.0, 160.0), (1.0, 0.6, 0.35)
"""Widths of the three formants in hertz, and their strengths."""


def talk(count: int, rng: np.random.Generator) -> FloatArray:
    mouth = _Mouth.shut(count // HOP + 2)
    pitches = log_uniform(rng, (85, 260)), log_uniform(rng, (85, 260))
    pace, size = rng.uniform(3, 6.5), log_uniform(rng, (0.85, 1.2))
    time = 0.0
    while time < count / SAMPLE_RATE:
        time = _speak(mouth, rng, time, pitch=pitches[rng.integers(2)], pace=pace, size=size)
        time += log_uniform(rng, (0.15, 0.8) if rng.random() < 0.6 else (0.8, 6.0))
    voiced = level(_voice(mouth, count, falls=rng.uniform(0.5, 1.1)))
    return voiced + 0.5 * _hiss(mouth, count, rng)


def conversation(count: int, rng: np.random.Generator) -> FloatArray:
    """Long talk from two minutes of it, which start elsewhere each time they come again."""
    spoken = talk(min(count, LONGEST * SAMPLE_RATE), rng).astype(np.float32)
    turns = [np.roll(spoken, int(rng.integers(len(spoken)))) for _ in range(count // len(spoken))]
    return np.concatenate([spoken, *turns])[:count]


@dataclass(frozen=True, slots=True, eq=False)
class _Mouth:
    """A value every `HOP` samples."""

    voice: FloatArray
    breath: FloatArray
    sharpness: FloatArray
    """Share of high frequencies in the hisses, 0 to 1."""
    pitch: FloatArray
    """Hertz."""
    formants: FloatArray
    """Hertz, a row for each of the three."""

    @classmethod
    def shut(cls, steps: int) -> _Mouth:
        voice, breath, sharpness = np.zeros((3, steps))
        formants = np.repeat([[500.0], [1500.0], [2500.0]], steps, axis=1)
        return cls(voice, breath, sharpness, np.full(steps, 120.0), formants)


def _speak(
    mouth: _Mouth, rng: np.random.Generator, time: float, *, pitch: float, pace: float, size: float
) -> float:
    """2 to 25 syllables from `time` on; returns their end. The pitch falls."""
    syllables = int(rng.integers(2, 26))
    loud, pitch = np.exp(rng.normal(0, 0.25)), pitch * np.exp(rng.normal(0, 0.08))
    for syllable in range(syllables):
        begin, time = time, time + rng.lognormal(-np.log(pace), 0.25)
        opens = begin + (rng.uniform(0.03, 0.12) if rng.random() < 0.75 else 0.0)
        _consonant(mouth, _steps(begin, opens), loud, rng)
        _vowel(mouth, _steps(opens, time), loud, pitch * (1.12 - 0.25 * syllable / syllables), rng)
        mouth.formants[:, _steps(begin, time)] *= size
    return time


def _consonant(mouth: _Mouth, steps: slice, loud: float, rng: np.random.Generator) -> None:
    kind, count = rng.random(), len(mouth.breath[steps])
    if kind < 0.45:
        mouth.breath[steps] += loud * rng.uniform(0.05, 0.5) * _swell(count)
    elif kind < 0.65:
        burst = slice(steps.stop - max(1, count // 4), steps.stop)
        mouth.breath[burst] += loud * rng.uniform(0.3, 0.9)
    else:
        mouth.voice[steps] += 0.25 * loud
    mouth.sharpness[steps] = rng.uniform(0, 1)


def _vowel(
    mouth: _Mouth, steps: slice, loud: float, pitch: float, rng: np.random.Generator
) -> None:
    count = len(mouth.voice[steps])
    course = np.linspace(0, 1, count)
    mouth.voice[steps] += loud * rng.uniform(0.4, 1) * _swell(count)
    first, glide = rng.uniform(280, 850), 0.12 * rng.standard_normal() * course
    second = max(rng.uniform(800, 2400), first + 250)
    third = np.full(count, rng.uniform(2300, 3200))
    mouth.formants[:, steps] = first * (1 + glide), second * (1 - glide), third
    mouth.pitch[steps] = pitch * np.exp(rng.normal(0, 0.06) + rng.normal(0, 0.08) * course)


def _voice(mouth: _Mouth, count: int, *, falls: float) -> FloatArray:
    pitch = _smooth(mouth.pitch)
    phase = 2 * np.pi * np.cumsum(_every_sample(pitch, count), dtype=float) / SAMPLE_RATE
    turn = np.exp(1j * phase).astype(np.complex64)
    tone, sound = turn.copy(), np.zeros(count, np.float32)
    for harmonic in range(1, int(HIGHEST / pitch.min())):
        passed = sum(
            weight / (1 + ((harmonic * pitch - formant) / width) ** 2)
            for formant, width, weight in zip(mouth.formants, _WIDTHS, _WEIGHTS, strict=True)
        )
        loud = _smooth(mouth.voice * (passed + 0.02)) / harmonic**falls
        sound += _every_sample(loud, count) * tone.imag
        tone *= turn
    return sound.astype(float)


def _hiss(mouth: _Mouth, count: int, rng: np.random.Generator) -> FloatArray:
    noise = rng.standard_normal(count)
    high = level(np.diff(noise, prepend=0.0))
    middle = level(lfilter([1.0, 0.0, -1.0], [1.0, -1.2, 0.6], noise))
    sharp = _every_sample(mouth.sharpness, count)
    breath: FloatArray = _every_sample(_smooth(mouth.breath), count)
    return breath * (sharp * high + (1 - sharp) * middle)


def _steps(begin: float, end: float) -> slice:
    return slice(round(begin * SAMPLE_RATE / HOP), round(end * SAMPLE_RATE / HOP))


def _swell(count: int) -> FloatArray:
    return np.sqrt(np.sin(np.pi * (np.arange(count) + 0.5) / max(1, count)))


def _smooth(values: FloatArray) -> FloatArray:
    return np.convolve(np.pad(values, 2, mode="edge"), np.full(5, 0.2), "valid")


def _every_sample(values: FloatArray, count: int) -> FloatArray:
    begins = values[:-1, None].astype(np.float32)
    ramp = np.arange(HOP, dtype=np.float32) / HOP
    lines: FloatArray = begins + np.diff(values)[:, None].astype(np.float32) * ramp
    return lines.ravel()[:count]
