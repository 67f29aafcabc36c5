"""Synthetic sounds with talk over them, to train the detector: talk alone, or work in talk.

Whether a step is one or the other is known from the levels of the two before they are mixed:

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
from scipy.signal import resample_poly

from earmark.evaluation.annotations.actions import Action
from earmark.features.encoder import STEP, SoundEncoder
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, FloatArray
from earmark.training.augmentation import filtered, level, log_uniform, reverberate
from earmark.training.dataset import TalkMixture, as_features
from earmark.training.made_talk import LOUDER, SAMPLE_RATE, talk

UNKNOWN, OTHER, ALONE, WORK = -1, 0, 1, 2
"""Labels of a step: not used; no talk; talk alone; work in talk."""

STRETCH = (20.0, 180.0)
"""Shortest and longest stretch of talk in seconds, drawn evenly on a logarithmic scale."""

SILENCE = (3.0, 40.0)
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
        first = place.stop + round(log_uniform(rng, SILENCE) * CLOCK_RATE)
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
