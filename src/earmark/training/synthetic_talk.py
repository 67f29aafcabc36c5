"""Synthetic talk, and synthetic sounds with talk over them: that somebody speaks is not yet work.

Annotated recordings hold little talk, and talk changes all the time, as work does. The difference
is how: in a voice, which moves from vowel to vowel, one band rises while another falls; when things
knock together, all bands rise at once.

    blows   ▁▁▇▃▁▁▁▇▃▁▁      talk   ▁▂▅▇▅▂▁▄▆▇▃   low
            ▁▁▇▄▁▁▁▇▄▁▁             ▁▇▃▁▂▆▂▁▇▁▅   high

The detector of talk is trained on steps that are talk alone, or work in talk. Which of them a step
is, is known from the levels of sounds and talk before they are mixed:

    sounds  ▁▁▁▁▁▇▅▁▁▁▁▁▁▁▂▁
    talk    ▁▅▂▆▃▅▁▆▂▅▁▁▇▇▇▇
    label   ·ttt?ww?ttt?  ??    talk, work in talk, unknown where the talk drowns the sound
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, percentile_filter
from scipy.signal import lfilter, resample_poly

from earmark.evaluation.annotations.actions import Action
from earmark.features.encoder import STEP, SoundEncoder
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray
from earmark.training.augmentation import filtered, level, log_uniform, reverberate
from earmark.training.dataset import TalkMixture, as_features

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

UNKNOWN, OTHER, ALONE, WORK = -1, 0, 1, 2
"""Labels of a step: not used; no talk; talk alone; work in talk."""

STRETCH = (20.0, 180.0)
"""Shortest and longest stretch of talk in seconds, drawn evenly on a logarithmic scale."""

BETWEEN = (3.0, 40.0)
"""Seconds between stretches, drawn likewise."""

THROUGHOUT = 0.5
"""Share of the recordings that are talk from beginning to end."""

LOUDEST = 0.25
"""Most that talk may reach, of full scale."""

STANDS_OUT = 8.0
"""Decibels above the quiet around it from which on a sound is heard without talk."""

HEARD, DROWNED = -3.0, -12.0
"""Decibels of a sound relative to talk: from the first on it is heard, below the second not."""

AROUND = CLOCK_RATE
"""Steps around a sound that belong to it."""

MADE_UP = 0.2
"""Share of the stretches whose talk is synthetic."""


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
    return np.sqrt(np.sin(np.pi * (np.arange(count) + 0.5) / max(1, count)))


def _smooth(values: FloatArray) -> FloatArray:
    """Moving means of five values; beyond both ends the last value is repeated."""
    return np.convolve(np.pad(values, 2, mode="edge"), np.full(5, 0.2), "valid")


def _every_sample(values: FloatArray, count: int) -> FloatArray:
    """`values`, one every `_HOP` samples, interpolated linearly to `count` samples."""
    begins = values[:-1, None].astype(np.float32)
    ramp = np.arange(_HOP, dtype=np.float32) / _HOP
    lines: FloatArray = begins + np.diff(values)[:, None].astype(np.float32) * ramp
    return lines.ravel()[:count]


@dataclass(frozen=True, slots=True, eq=False)
class Voices:
    """Spoken words and sentences of some people, of which talk is made."""

    clips: Sequence[Sequence[FloatArray]]
    """Samples of each person's clips, without silence at their ends, at equal levels."""

    @property
    def digest(self) -> str:
        """A hash of the samples."""
        found = hashlib.sha256()
        for clip in (each for person in self.clips for each in person):
            found.update(clip.tobytes())
        return found.hexdigest()

    def talk(self, count: int, rng: np.random.Generator) -> FloatArray:
        """`count` samples of one to three people who take turns, in a room of their own.

        Their voices are made deeper or higher, so that there are more of them.
        """
        people = [self._person(rng) for _ in range(rng.integers(1, 4))]
        said, person, calm = np.zeros(count, np.float32), people[0], rng.random()
        first = round(rng.uniform(0, 2) * SAMPLE_RATE)
        while first < count - SAMPLE_RATE // 2:
            person = people[int(rng.integers(len(people)))] if rng.random() < 0.3 else person
            clips, pitch, gain = person
            clip = resample_poly(clips[int(rng.integers(len(clips)))], 16, pitch)[: count - first]
            said[first : first + len(clip)] += gain * clip
            first += len(clip) + round(_pause(calm, rng) * SAMPLE_RATE)
        said = reverberate(said, SAMPLE_RATE, rng) if rng.random() < 0.5 else said
        return filtered(said, SAMPLE_RATE, rng) if rng.random() < 0.4 else said

    def _person(self, rng: np.random.Generator) -> tuple[Sequence[FloatArray], int, float]:
        """The clips of somebody, a change of pitch in sixteenths, and a gain."""
        clips = self.clips[int(rng.integers(len(self.clips)))]
        return clips, int(rng.integers(13, 21)), 10 ** (rng.uniform(-4, 4) / 20)


def _pause(calm: float, rng: np.random.Generator) -> float:
    """Seconds between two clips; people who are `calm`, 0 to 1, make fewer long pauses."""
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
    """`samples` with stretches of talk over them, and what each step is."""
    quiet = max(10 ** (float(np.quantile(decibels(samples), 0.05)) / 20), 1e-4)
    said, talked = np.zeros(len(samples)), np.zeros(len(samples) // STEP, dtype=bool)
    throughout = rng.random() < THROUGHOUT
    first = 0 if throughout else round(rng.uniform(0, 30) * CLOCK_RATE)
    while first < len(talked) - 3 * CLOCK_RATE:
        lasts = len(talked) if throughout else round(log_uniform(rng, STRETCH) * CLOCK_RATE)
        place = slice(first, min(first + lasts, len(talked)))
        span = slice(place.start * STEP, place.stop * STEP)
        draw = talk if rng.random() < MADE_UP else voices.talk
        gain = min(quiet * 10 ** (rng.uniform(*LOUDER) / 20), LOUDEST)
        said[span] = gain * level(draw(span.stop - span.start, rng))
        talked[place] = True
        first = place.stop + round(log_uniform(rng, BETWEEN) * CLOCK_RATE)
    labels = label(decibels(samples), decibels(said), talked, actions)
    return TalkMixture(encoded(samples + said, encoder)[: len(labels)], labels)


def label(
    sounds: FloatArray, voices: FloatArray, talked: NDArray[np.bool_], actions: Sequence[Action]
) -> NDArray[np.int8]:
    """The label of each step by the levels of sounds and talk, in decibels."""
    seconds = sounds[: len(sounds) // CLOCK_RATE * CLOCK_RATE].reshape(-1, CLOCK_RATE)
    quiet = percentile_filter(seconds.min(axis=1), 10, size=30, mode="nearest")
    floor = np.interp(np.arange(len(sounds)) / CLOCK_RATE, np.arange(len(quiet)) + 0.5, quiet)
    busy = np.zeros(len(sounds), dtype=bool)
    for each in actions:
        busy[int(each.start * CLOCK_RATE) : int(each.end * CLOCK_RATE) + 1] = True
    above = np.where(sounds > floor + STANDS_OUT, sounds - maximum_filter1d(voices, 3), -np.inf)
    work, sound = (maximum_filter1d(each, AROUND) for each in (busy & (above > HEARD), above))
    faint = maximum_filter1d(voices, 2 * AROUND + 1) < floor + 3
    labels = np.where(talked, ALONE, OTHER).astype(np.int8)
    labels[talked & ((sound > DROWNED) | busy | faint)] = UNKNOWN
    labels[work] = OTHER
    labels[work & talked] = WORK
    return labels


def decibels(samples: FloatArray, size: int = STEP) -> FloatArray:
    """The level of every `size` samples, by default a step; an incomplete last one is left out."""
    cells = samples[: len(samples) // size * size].reshape(-1, size).astype(float)
    levels: FloatArray = 10 * np.log10((cells**2).mean(axis=1) + 1e-12)
    return levels


def encoded(samples: FloatArray, encoder: SoundEncoder) -> FloatArray:
    """Features of `samples`, `(steps, channels)`, float16."""
    sound = Sound(samples.clip(-1, 1).astype(np.float32), 0.0, SAMPLE_RATE)
    return as_features(encoder.encode([sound]))
