"""Recordings made up for the context: sounds that last for seconds are work, for minutes are not.

Marked recordings hold few tools that run by themselves: what they teach is that work changes from
one thing to the next. A drill in a quiet room does not, and neither does rain; what tells the two
apart is how long they last.

    made   ▁▁▇▇▇▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▁▁▁▇▇▇▇▇▇▁▁
    work     ───                     ──────
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.signal import lfilter

from earmark.evaluation.annotations.actions import Action
from earmark.features.encoder import SoundEncoder
from earmark.media import Sound
from earmark.timeline import FloatArray
from earmark.training.augmentation import level, log_uniform, pass_band
from earmark.training.dataset import TrainingRecording
from earmark.training.made_talk import SAMPLE_RATE, talk_over

LENGTH = 600
"""Seconds of one recording."""

LASTS = (2.0, 45.0)
"""Seconds that work lasts, shortest and longest: drawn evenly on a logarithmic scale."""

GOES_ON = (90.0, 240.0)
"""Seconds that ambience lasts."""

BETWEEN = (8.0, 90.0)
"""Seconds between two sounds."""

WORK = 0.65
"""Share of the sounds that are work."""

TALKS = 2
"""Times that a recording is heard with talk over it, beside once without."""

Draw = Callable[[int, np.random.Generator], FloatArray]
"""So many samples of a sound, at whatever level."""


@cache
def make_recording(encoder: SoundEncoder, seed: int) -> TrainingRecording:
    """Ten minutes of sustained sounds over a room's noise, and which of them are work.

    Made once a process: it takes seconds, and every training wants the same.
    """
    rng = np.random.default_rng(seed)
    room = 10 ** (rng.uniform(-65, -42) / 20)
    samples = room * level(coloured(LENGTH * SAMPLE_RATE, rng))
    actions, time = [], rng.uniform(5, 40)
    while time < LENGTH - 5:
        is_work = rng.random() < WORK
        lasts = log_uniform(rng, LASTS) if is_work else rng.uniform(*GOES_ON)
        end = min(time + lasts, LENGTH)
        kinds, louder = (TOOLS, (12, 36)) if is_work else (AMBIENCE, (0, 32))
        place = slice(round(time * SAMPLE_RATE), round(end * SAMPLE_RATE))
        sound = kinds[rng.integers(len(kinds))](place.stop - place.start, rng)
        gain = room * 10 ** (rng.uniform(*louder) / 20)
        ramp = rng.uniform(0.02, 0.3) if is_work else rng.uniform(0.3, 5.0)
        samples[place] += gain * faded(level(sound), ramp)
        actions += [Action(time, end)] if is_work else []
        time = end + log_uniform(rng, BETWEEN)
    return as_recording(f"made-{seed}", samples, actions, encoder, rng)


def as_recording(
    name: str,
    samples: FloatArray,
    actions: Sequence[Action],
    encoder: SoundEncoder,
    rng: np.random.Generator,
    *,
    talks: int = TALKS,
) -> TrainingRecording:
    """What `encoder` hears of samples that were made up, as they are and with talk over them."""
    over = [talk_over(samples, rng) for _ in range(talks)]
    takes = tuple(_heard(each, encoder) for each in (samples, *over))
    return TrainingRecording(name, len(samples) / SAMPLE_RATE, takes, tuple(actions))


def _heard(samples: FloatArray, encoder: SoundEncoder) -> FloatArray:
    sound = Sound(samples.clip(-1, 1).astype(np.float32), 0.0, SAMPLE_RATE)
    rows = np.concatenate([track.values for track in encoder.encode([sound])])
    heard: FloatArray = (rows if rows.ndim == 2 else rows[:, None]).astype(np.float16)
    return heard


def coloured(count: int, rng: np.random.Generator) -> FloatArray:
    """Steady noise, from white to brown."""
    noise: FloatArray = lfilter([1.0], [1.0, -rng.uniform(0, 0.97)], rng.standard_normal(count))
    return noise


def banded(count: int, rng: np.random.Generator) -> FloatArray:
    """Steady noise of some of the frequencies: saws, vacuum cleaners, water."""
    edges = rng.uniform(50, 1500), rng.uniform(2500, 7700)
    return pass_band(rng.standard_normal(count), edges, SAMPLE_RATE)


def motor(count: int, rng: np.random.Generator) -> FloatArray:
    """Harmonics of a tone that wanders a little, and noise: drills, engines, hums."""
    tone = rng.uniform(20, 400) * _wandering(count, rng, every=rng.uniform(3, 30), by=0.1)
    phase = 2 * np.pi * np.cumsum(tone) / SAMPLE_RATE
    falls = rng.uniform(0.2, 1.4)
    sound = sum(
        rng.uniform(0.2, 1) / k**falls * np.sin(k * phase + rng.uniform(0, 6.3))
        for k in range(1, int(rng.integers(4, 24)))
    )
    mixed: FloatArray = level(sound) + rng.uniform(0.1, 1.5) * level(coloured(count, rng))
    return mixed


def pulsing(count: int, rng: np.random.Generator) -> FloatArray:
    """Noise that swells and falls some times a second: grinders, pumps, washing machines."""
    times = np.arange(count) / SAMPLE_RATE
    beat = 1 + rng.uniform(0.2, 0.98) * np.sin(2 * np.pi * log_uniform(rng, (0.4, 14)) * times)
    swelling: FloatArray = banded(count, rng) * beat
    return swelling


def gusts(count: int, rng: np.random.Generator) -> FloatArray:
    """Low noise whose level wanders: wind, traffic."""
    low: FloatArray = lfilter([1.0], [1.0, -rng.uniform(0.9, 0.995)], rng.standard_normal(count))
    return low * _wandering(count, rng, every=rng.uniform(1, 6), by=rng.uniform(0.4, 1.2))


def drops(count: int, rng: np.random.Generator) -> FloatArray:
    """Many small clicks over a hiss: rain."""
    falls = round(count / SAMPLE_RATE * rng.uniform(10, 400))
    clicks = np.zeros(count)
    clicks[rng.integers(0, count, falls)] = rng.exponential(1.0, falls)
    edges = rng.uniform(300, 2000), rng.uniform(3000, 7500)
    wet = pass_band(clicks, edges, SAMPLE_RATE)
    rain: FloatArray = rng.uniform(0.1, 1.5) * level(wet) + level(banded(count, rng))
    return rain


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
    walked: FloatArray = level(steps) + 0.05 * level(coloured(count, rng))
    return walked


TOOLS: tuple[Draw, ...] = (banded, coloured, motor, pulsing)
AMBIENCE: tuple[Draw, ...] = (*TOOLS, gusts, drops, footsteps)


def _wandering(count: int, rng: np.random.Generator, *, every: float, by: float) -> FloatArray:
    """A factor around 1 that goes up and down about `every` so many seconds."""
    knots = np.exp(by * rng.standard_normal(max(4, int(count / SAMPLE_RATE / every) + 4)))
    places = np.linspace(0, len(knots) - 1, count)
    factors: FloatArray = np.interp(places, np.arange(len(knots)), knots)
    return factors


def faded(samples: FloatArray, ramp: float) -> FloatArray:
    """`samples` with `ramp` seconds of rise and fall, half of them at most."""
    size = max(1, min(round(ramp * SAMPLE_RATE), len(samples) // 2))
    rise = np.minimum(np.arange(len(samples)) / size, 1.0)
    faded: FloatArray = samples * rise * rise[::-1]
    return faded
