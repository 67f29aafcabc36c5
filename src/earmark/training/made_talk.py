"""Synthetic talk to train the context: that somebody speaks near the wearer is not yet work.

Annotated recordings hold little talk, and talk changes all the time, as work does. The difference
is how: in a voice, which moves from vowel to vowel, one band rises while another falls; when things
knock together, all bands rise at once.

    blows   ▁▁▇▃▁▁▁▇▃▁▁      talk   ▁▂▅▇▅▂▁▄▆▇▃   low
            ▁▁▇▄▁▁▁▇▄▁▁             ▁▇▃▁▂▆▂▁▇▁▅   high
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.signal import lfilter

from earmark.timeline import FloatArray
from earmark.training.augmentation import level, log_uniform

SAMPLE_RATE = 16_000

TALK = (5.0, 180.0)
"""Shortest and longest talk in seconds, drawn evenly on a logarithmic scale."""

SILENCE = (5.0, 120.0)
"""Seconds between talks, drawn likewise."""

LOUDER = (8.0, 52.0)
"""Level of talk in decibels above the quiet moments of a recording, drawn evenly."""

HIGHEST = 5_000.0
"""Highest harmonic of a voice in hertz; above there are only hisses."""

_HOP = 80
"""Samples between two values of mouth and pitch: 5 ms."""

_WIDTHS, _WEIGHTS = (70.0, 110.0, 160.0), (1.0, 0.6, 0.35)
"""Widths of the three formants in hertz, and their strengths."""


def talk_over(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    """A copy of `samples` with talk added at random times, whatever else is heard."""
    cells = samples[: len(samples) // _HOP * _HOP].reshape(-1, _HOP)
    quiet = float(np.sqrt(np.quantile((cells**2).mean(axis=1), 0.05)))
    mixed, time = samples.copy(), rng.uniform(0, 30)
    while (first := round(time * SAMPLE_RATE)) < len(samples) - 5 * SAMPLE_RATE:
        place = slice(first, first + round(log_uniform(rng, TALK) * SAMPLE_RATE))
        voices = talk(len(mixed[place]), rng)
        mixed[place] += quiet * 10 ** (rng.uniform(*LOUDER) / 20) * level(voices)
        time = place.stop / SAMPLE_RATE + log_uniform(rng, SILENCE)
    return mixed


def talk(count: int, rng: np.random.Generator) -> FloatArray:
    """`count` samples of two people who take turns: vowels, hisses and pauses."""
    mouth = _Mouth.shut(count // _HOP + 2)
    pitches = log_uniform(rng, (85, 260)), log_uniform(rng, (85, 260))
    pace, size = rng.uniform(3, 6.5), log_uniform(rng, (0.85, 1.2))
    time = 0.0
    while time < count / SAMPLE_RATE:
        time = _speak(mouth, rng, time, pitch=pitches[rng.integers(2)], pace=pace, size=size)
        time += log_uniform(rng, (0.15, 0.8) if rng.random() < 0.6 else (0.8, 6.0))
    voiced = level(_voice(mouth, count, falls=rng.uniform(0.5, 1.1)))
    return voiced + 0.5 * _hiss(mouth, count, rng)


@dataclass(frozen=True, slots=True, eq=False)
class _Mouth:
    """Parameters of a voice over time, a value every `_HOP` samples."""

    voice: FloatArray
    """Level of the tones."""
    breath: FloatArray
    """Level of the hisses."""
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
    """Write 2 to 25 syllables to `mouth` from `time` on; returns their end. The pitch falls."""
    syllables = int(rng.integers(2, 26))
    loud, pitch = np.exp(rng.normal(0, 0.25)), pitch * np.exp(rng.normal(0, 0.08))
    for place in range(syllables):
        begin, time = time, time + rng.lognormal(-np.log(pace), 0.25)
        opens = begin + (rng.uniform(0.03, 0.12) if rng.random() < 0.75 else 0.0)
        _consonant(mouth, _steps(begin, opens), loud, rng)
        _vowel(mouth, _steps(opens, time), loud, pitch * (1.12 - 0.25 * place / syllables), rng)
        mouth.formants[:, _steps(begin, time)] *= size
    return time


def _consonant(mouth: _Mouth, place: slice, loud: float, rng: np.random.Generator) -> None:
    """Write a consonant: a hiss, a stop with a burst at its end, or a murmur."""
    kind, count = rng.random(), len(mouth.breath[place])
    if kind < 0.45:
        mouth.breath[place] += loud * rng.uniform(0.05, 0.5) * _swell(count)
    elif kind < 0.65:
        burst = slice(place.stop - max(1, count // 4), place.stop)
        mouth.breath[burst] += loud * rng.uniform(0.3, 0.9)
    else:
        mouth.voice[place] += 0.25 * loud
    mouth.sharpness[place] = rng.uniform(0, 1)


def _vowel(
    mouth: _Mouth, place: slice, loud: float, pitch: float, rng: np.random.Generator
) -> None:
    """Write a vowel whose formants and pitch change a little."""
    count = len(mouth.voice[place])
    course = np.linspace(0, 1, count)
    mouth.voice[place] += loud * rng.uniform(0.4, 1) * _swell(count)
    first, glide = rng.uniform(280, 850), 0.12 * rng.standard_normal() * course
    second = max(rng.uniform(800, 2400), first + 250)
    third = np.full(count, rng.uniform(2300, 3200))
    mouth.formants[:, place] = first * (1 + glide), second * (1 - glide), third
    mouth.pitch[place] = pitch * np.exp(rng.normal(0, 0.06) + rng.normal(0, 0.08) * course)


def _voice(mouth: _Mouth, count: int, *, falls: float) -> FloatArray:
    """The tones of a voice: harmonics of its pitch, with levels set by the formants."""
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
    """The hisses of a voice: noise of high and of middle frequencies."""
    noise = rng.standard_normal(count)
    high = level(np.diff(noise, prepend=0.0))
    middle = level(lfilter([1.0, 0.0, -1.0], [1.0, -1.2, 0.6], noise))
    sharp = _every_sample(mouth.sharpness, count)
    breath: FloatArray = _every_sample(_smooth(mouth.breath), count)
    return breath * (sharp * high + (1 - sharp) * middle)


def _steps(begin: float, end: float) -> slice:
    return slice(round(begin * SAMPLE_RATE / _HOP), round(end * SAMPLE_RATE / _HOP))


def _swell(count: int) -> FloatArray:
    """Factors that rise from near 0 to 1 and fall again, `(count,)`."""
    swell: FloatArray = np.sqrt(np.sin(np.pi * (np.arange(count) + 0.5) / max(1, count)))
    return swell


def _smooth(values: FloatArray) -> FloatArray:
    """Moving means of five values; beyond both ends the last value is repeated."""
    smooth: FloatArray = np.convolve(np.pad(values, 2, mode="edge"), np.full(5, 0.2), "valid")
    return smooth


def _every_sample(values: FloatArray, count: int) -> FloatArray:
    """`values`, one every `_HOP` samples, interpolated linearly to `count` samples."""
    begins = values[:-1, None].astype(np.float32)
    ramp = np.arange(_HOP, dtype=np.float32) / _HOP
    lines: FloatArray = begins + np.diff(values)[:, None].astype(np.float32) * ramp
    return lines.ravel()[:count]
