"""Synthetic talk, and synthetic sounds with talk over them: that somebody speaks is not yet work.

    blows   ▁▁▇▃▁▁▁▇▃▁▁      talk   ▁▂▅▇▅▂▁▄▆▇▃   low
            ▁▁▇▄▁▁▁▇▄▁▁             ▁▇▃▁▂▆▂▁▇▁▅   high

Labels follow from the levels of sounds and talk before they are mixed:

    sounds  ▁▁▁▁▁▇▅▁▁▁▁▁▁▁▂▁
    talk    ▁▅▂▆▃▅▁▆▂▅▁▁▇▇▇▇
    label   ·ttt?ww?ttt?  ??    talk, work in talk, unknown if the talk drowns the sound
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, percentile_filter
from scipy.signal import butter, fftconvolve, lfilter, resample_poly, sosfilt

from earmark.features.encoder import STEP, SoundEncoder
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark_lab.annotations.actions import Action

SAMPLE_RATE = 16_000

TALK = (5.0, 180.0)
"""Seconds, drawn evenly on a logarithmic scale."""

SILENCE = (5.0, 120.0)
"""Seconds between talks, drawn likewise."""

LOUDER = (8.0, 52.0)
"""Decibels above the quiet moments of a recording, drawn evenly."""

HIGHEST = 5_000.0
"""Harmonic of a voice, in hertz."""

_HOP = 80
"""Samples: 5 ms."""

_WIDTHS, _WEIGHTS = (70.0, 110.0, 160.0), (1.0, 0.6, 0.35)
"""Widths of the three formants in hertz, and their strengths."""

UNKNOWN, OTHER, ALONE, WORK = -1, 0, 1, 2
"""Of a step: not used; no talk; talk alone; work in talk."""

STRETCH = (20.0, 180.0)
"""Seconds of talk, drawn evenly on a logarithmic scale."""

BETWEEN = (3.0, 40.0)
"""Seconds between stretches, drawn likewise."""

THROUGHOUT = 0.5
"""Share of the recordings."""

LOUDEST = 0.25

STANDS_OUT = 8.0
"""Decibels above the quiet around a sound."""

HEARD, DROWNED = -3.0, -12.0
"""Decibels of a sound relative to talk."""

AROUND = CLOCK_RATE

MADE_UP = 0.2


@dataclass(frozen=True, slots=True, eq=False)
class TalkMixture:
    features: FloatArray
    labels: NDArray[np.int8]


def talk_over(samples: FloatArray, rng: np.random.Generator) -> FloatArray:
    cells = samples[: len(samples) // _HOP * _HOP].reshape(-1, _HOP)
    quiet = float(np.sqrt(np.quantile((cells**2).mean(axis=1), 0.05)))
    mixed, time = samples.copy(), rng.uniform(0, 30)
    while (first := round(time * SAMPLE_RATE)) < len(samples) - 5 * SAMPLE_RATE:
        part = slice(first, first + round(log_uniform(rng, TALK) * SAMPLE_RATE))
        voices = talk(len(mixed[part]), rng)
        mixed[part] += quiet * 10 ** (rng.uniform(*LOUDER) / 20) * level(voices)
        time = part.stop / SAMPLE_RATE + log_uniform(rng, SILENCE)
    return mixed


def talk(count: int, rng: np.random.Generator) -> FloatArray:
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
    """A value every `_HOP` samples."""

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
    return slice(round(begin * SAMPLE_RATE / _HOP), round(end * SAMPLE_RATE / _HOP))


def _swell(count: int) -> FloatArray:
    return np.sqrt(np.sin(np.pi * (np.arange(count) + 0.5) / max(1, count)))


def _smooth(values: FloatArray) -> FloatArray:
    return np.convolve(np.pad(values, 2, mode="edge"), np.full(5, 0.2), "valid")


def _every_sample(values: FloatArray, count: int) -> FloatArray:
    begins = values[:-1, None].astype(np.float32)
    ramp = np.arange(_HOP, dtype=np.float32) / _HOP
    lines: FloatArray = begins + np.diff(values)[:, None].astype(np.float32) * ramp
    return lines.ravel()[:count]


@dataclass(frozen=True, slots=True, eq=False)
class Voices:
    clips: Sequence[Sequence[FloatArray]]
    """Samples of each person's clips, without silence at their ends, at equal levels."""

    @property
    def digest(self) -> str:
        digest = hashlib.sha256()
        for clip in chain.from_iterable(self.clips):
            digest.update(clip.tobytes())
        return digest.hexdigest()

    def talk(self, count: int, rng: np.random.Generator) -> FloatArray:
        """One to three people who take turns in a room, their voices made deeper or higher."""
        people = [self._person(rng) for _ in range(rng.integers(1, 4))]
        spoken, person, calm = np.zeros(count, np.float32), people[0], rng.random()
        first = round(rng.uniform(0, 2) * SAMPLE_RATE)
        while first < count - SAMPLE_RATE // 2:
            person = people[int(rng.integers(len(people)))] if rng.random() < 0.3 else person
            clips, pitch, gain = person
            clip = resample_poly(clips[int(rng.integers(len(clips)))], 16, pitch)[: count - first]
            spoken[first : first + len(clip)] += gain * clip
            first += len(clip) + round(_pause(calm, rng) * SAMPLE_RATE)
        spoken = reverberate(spoken, rng) if rng.random() < 0.5 else spoken
        if rng.random() >= 0.4:
            return spoken
        edges = rng.uniform(20.0, 250.0), rng.uniform(3_000.0, 7_500.0)
        return pass_band(spoken, edges).astype(np.float32)

    def _person(self, rng: np.random.Generator) -> tuple[Sequence[FloatArray], int, float]:
        """Clips, a change of pitch in sixteenths, and a gain."""
        clips = self.clips[int(rng.integers(len(self.clips)))]
        return clips, int(rng.integers(13, 21)), 10 ** (rng.uniform(-4, 4) / 20)


def _pause(calm: float, rng: np.random.Generator) -> float:
    """Seconds; people who are `calm`, 0 to 1, make fewer long pauses."""
    drawn = rng.random()
    if drawn < 0.45:
        return float(rng.uniform(0.02, 0.25))
    return log_uniform(rng, (0.2, 1.2) if drawn < 0.55 + 0.4 * calm else (1.0, 6.0))


def mix_talk(
    samples: FloatArray,
    actions: Sequence[Action],
    encoder: SoundEncoder,
    voices: Voices,
    rng: np.random.Generator,
) -> TalkMixture:
    quiet = max(10 ** (float(np.quantile(decibels(samples), 0.05)) / 20), 1e-4)
    spoken, talked = np.zeros(len(samples)), np.zeros(len(samples) // STEP, dtype=bool)
    throughout = rng.random() < THROUGHOUT
    first = 0 if throughout else round(rng.uniform(0, 30) * CLOCK_RATE)
    while first < len(talked) - 3 * CLOCK_RATE:
        lasts = len(talked) if throughout else round(log_uniform(rng, STRETCH) * CLOCK_RATE)
        steps = slice(first, min(first + lasts, len(talked)))
        span = slice(steps.start * STEP, steps.stop * STEP)
        draw = talk if rng.random() < MADE_UP else voices.talk
        gain = min(quiet * 10 ** (rng.uniform(*LOUDER) / 20), LOUDEST)
        spoken[span] = gain * level(draw(span.stop - span.start, rng))
        talked[steps] = True
        first = steps.stop + round(log_uniform(rng, BETWEEN) * CLOCK_RATE)
    labels = label(decibels(samples), decibels(spoken), talked, actions)
    return TalkMixture(encoded(samples + spoken, encoder)[: len(labels)], labels)


def label(
    sounds: FloatArray, voices: FloatArray, talked: NDArray[np.bool_], actions: Sequence[Action]
) -> NDArray[np.int8]:
    seconds = sounds[: len(sounds) // CLOCK_RATE * CLOCK_RATE].reshape(-1, CLOCK_RATE)
    quiet = percentile_filter(seconds.min(axis=1), 10, size=30, mode="nearest")
    floor = np.interp(np.arange(len(sounds)) / CLOCK_RATE, np.arange(len(quiet)) + 0.5, quiet)
    busy = np.zeros(len(sounds), dtype=bool)
    for action in actions:
        busy[int(action.start * CLOCK_RATE) : int(action.end * CLOCK_RATE) + 1] = True
    above = np.where(sounds > floor + STANDS_OUT, sounds - maximum_filter1d(voices, 3), -np.inf)
    work, sound = (maximum_filter1d(steps, AROUND) for steps in (busy & (above > HEARD), above))
    faint = maximum_filter1d(voices, 2 * AROUND + 1) < floor + 3
    labels = np.where(talked, ALONE, OTHER).astype(np.int8)
    labels[talked & ((sound > DROWNED) | busy | faint)] = UNKNOWN
    labels[work] = OTHER
    labels[work & talked] = WORK
    return labels


def decibels(samples: FloatArray, size: int = STEP) -> FloatArray:
    """Of every `size` samples; an incomplete last one is left out."""
    cells = samples[: len(samples) // size * size].reshape(-1, size).astype(float)
    levels: FloatArray = 10 * np.log10((cells**2).mean(axis=1) + 1e-12)
    return levels


def encoded(samples: FloatArray, encoder: SoundEncoder) -> FloatArray:
    sound = Sound(samples.clip(-1, 1).astype(np.float32), 0.0, SAMPLE_RATE)
    return as_features(encoder.encode([sound]))


def as_features(tracks: Iterable[Track]) -> FloatArray:
    rows = np.concatenate([track.values for track in tracks])
    return (rows if rows.ndim == 2 else rows[:, None]).astype(np.float16)


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
