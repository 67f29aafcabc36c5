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
from scipy.signal import resample_poly

from earmark.features.encoder import SAMPLE_RATE, STEP, SoundEncoder
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray, Track
from earmark_lab.annotations.actions import Action
from earmark_lab.sites.physics import decibels, level, log_uniform, pass_band, reverberate
from earmark_lab.sites.talk import HOP, talk

TALK = (5.0, 180.0)
"""Seconds, drawn evenly on a logarithmic scale."""

SILENCE = (5.0, 120.0)
"""Seconds between talks, drawn likewise."""

LOUDER = (8.0, 52.0)
"""Decibels above the quiet moments of a recording, drawn evenly."""

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
    cells = samples[: len(samples) // HOP * HOP].reshape(-1, HOP)
    quiet = float(np.sqrt(np.quantile((cells**2).mean(axis=1), 0.05)))
    mixed, time = samples.copy(), rng.uniform(0, 30)
    while (first := round(time * SAMPLE_RATE)) < len(samples) - 5 * SAMPLE_RATE:
        part = slice(first, first + round(log_uniform(rng, TALK) * SAMPLE_RATE))
        voices = talk(len(mixed[part]), rng)
        mixed[part] += quiet * 10 ** (rng.uniform(*LOUDER) / 20) * level(voices)
        time = part.stop / SAMPLE_RATE + log_uniform(rng, SILENCE)
    return mixed


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


def encoded(samples: FloatArray, encoder: SoundEncoder) -> FloatArray:
    sound = Sound(samples.clip(-1, 1).astype(np.float32), 0.0, SAMPLE_RATE)
    return as_features(encoder.encode([sound]))


def as_features(tracks: Iterable[Track]) -> FloatArray:
    rows = np.concatenate([track.values for track in tracks])
    return (rows if rows.ndim == 2 else rows[:, None]).astype(np.float16)
