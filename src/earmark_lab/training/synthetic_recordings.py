"""Synthetic recordings to train the context: steady sounds, and annotated actions far apart.

A drill does not change, and neither does rain; the difference is how long they last.

    made   ▁▁▇▇▇▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▁▁▁▇▇▇▇▇▇▁▁
    work     ───                     ──────

In a quiet shift an action is a single sound:

    bouts  ▁▁▁▁▁▁▁▅▃▆▂▅▇▃▅▁▁▁▁▁▁▁▁▁▁▁▃▁▁▁▁
    alone  ▁▁▁▁▁▁▁▁▆▁▁▁▁▁▁▁▁▁▁▁▁▁▅▅▁▁▁▁▁▁▁
    work           ─              ──
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from earmark.features.encoder import SoundEncoder
from earmark.gate.frontline import encoder_named
from earmark.gate.listener import LEVEL_HOP
from earmark.media import Recording, open_recording
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray
from earmark_lab.annotations.actions import Action, Annotations, find_media
from earmark_lab.training.dataset import Material, TrainingRecording, group
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_sound import (
    SAMPLE_RATE,
    TalkMixture,
    Voices,
    decibels,
    encoded,
    level,
    log_uniform,
    mix_talk,
    pass_band,
    talk_over,
)

LENGTH = 600
"""Seconds."""

LASTS = (2.0, 45.0)
"""Seconds of work, drawn evenly on a logarithmic scale."""

GOES_ON = (90.0, 240.0)
"""Seconds of ambience, drawn evenly."""

BETWEEN = (8.0, 90.0)
"""Seconds between two sounds, drawn evenly on a logarithmic scale."""

WORK = 0.65

TALKS = 2

ROOM = 300
"""Seconds of a room with talk."""

LONE_LENGTH = 240
"""Seconds."""

LONE_LASTS = (0.5, 20.0)
"""Seconds of an action that is used."""

HEARD = 10.0
"""Decibels above the 10 % quantile of its recording's level that an action must reach."""

FROM_EACH = 8

OF_EACH = 24

PEOPLE = 32

ACTIONS = (2.0, 6.4)
"""Fewest and most in a recording, drawn evenly on a logarithmic scale and rounded."""

IN_TALK = (8.0, 24.0)

ALONE = "_alone"

APART = 8.0
"""Least seconds between two of them."""

Draw = Callable[[int, np.random.Generator], FloatArray]


@cache
def make_recording(
    encoder: SoundEncoder, seed: int, voices: Voices | None = None
) -> TrainingRecording:
    """Ten minutes; its actions are the sounds that are work. `voices` give it a `with_talk`."""
    rng = np.random.default_rng(seed)
    room = 10 ** (rng.uniform(-65, -42) / 20)
    samples = room * level(coloured(LENGTH * SAMPLE_RATE, rng))
    actions, time = [], rng.uniform(5, 40)
    while time < LENGTH - 5:
        is_work = rng.random() < WORK
        lasts = log_uniform(rng, LASTS) if is_work else rng.uniform(*GOES_ON)
        end = min(time + lasts, LENGTH)
        kinds, louder = (TOOLS, (12, 36)) if is_work else (AMBIENCE, (0, 32))
        part = slice(round(time * SAMPLE_RATE), round(end * SAMPLE_RATE))
        sound = kinds[rng.integers(len(kinds))](part.stop - part.start, rng)
        gain = room * 10 ** (rng.uniform(*louder) / 20)
        ramp = rng.uniform(0.02, 0.3) if is_work else rng.uniform(0.3, 5.0)
        samples[part] += gain * faded(level(sound), ramp)
        actions += [Action(time, end)] if is_work else []
        time = end + log_uniform(rng, BETWEEN)
    takes = encode_takes(samples, encoder, rng, talks=0 if voices else TALKS)
    talk = mix_talk(samples, actions, encoder, voices, rng) if voices else None
    return TrainingRecording(f"made-{seed}", float(LENGTH), takes, tuple(actions), talk)


def encode_takes(
    samples: FloatArray, encoder: SoundEncoder, rng: np.random.Generator, *, talks: int
) -> tuple[FloatArray, ...]:
    with_talk = [talk_over(samples, rng) for _ in range(talks)]
    return tuple(encoded(take, encoder) for take in (samples, *with_talk))


@cache
def make_room(encoder: SoundEncoder, seed: int, voices: Voices) -> TalkMixture:
    """Five minutes with talk and, in two of three, blows at random times."""
    rng = np.random.default_rng((seed, 1))
    room = 10 ** (rng.uniform(-70, -40) / 20)
    samples = room * level(coloured(ROOM * SAMPLE_RATE, rng))
    actions, time = [], rng.uniform(2, 30)
    while seed % 3 and time < ROOM - 30:
        gain, gap = room * 10 ** (rng.uniform(22, 52) / 20), log_uniform(rng, (0.15, 1.5))
        begin, struck = time, blow(rng)
        for _ in range(rng.integers(1, 9)):
            first = round(time * SAMPLE_RATE)
            samples[first : first + len(struck)] += min(gain * rng.uniform(0.5, 1.2), 0.5) * struck
            time += gap * rng.uniform(0.7, 1.4)
        actions.append(Action(begin, time))
        time += log_uniform(rng, (4, 40))
    return mix_talk(samples, actions, encoder, voices, rng)


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
    tone = rng.uniform(20, 400) * _wandering(count, rng, every=rng.uniform(3, 30), by=0.1)
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
    return low * _wandering(count, rng, every=rng.uniform(1, 6), by=rng.uniform(0.4, 1.2))


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


def _wandering(count: int, rng: np.random.Generator, *, every: float, by: float) -> FloatArray:
    """Factors around 1; `by` is the spread of their logarithm."""
    knots = np.exp(by * rng.standard_normal(max(4, int(count / SAMPLE_RATE / every) + 4)))
    positions = np.linspace(0, len(knots) - 1, count)
    return np.interp(positions, np.arange(len(knots)), knots)


def faded(samples: FloatArray, ramp: float) -> FloatArray:
    size = max(1, min(round(ramp * SAMPLE_RATE), len(samples) // 2))
    rise = np.minimum(np.arange(len(samples)) / size, 1.0)
    return samples * rise * rise[::-1]


def gather_lone(
    annotations: Annotations,
    media: Path | Sequence[Path],
    settings: Settings,
    *,
    cache: Path,
    length: int = LONE_LENGTH,
    talks: int = TALKS,
    voices: Voices | None = None,
) -> Material:
    """One recording for each person with audible actions, stored in `cache`."""
    encoder = encoder_named(settings.encoder)
    if not (settings.made and settings.context_channels and isinstance(encoder, SoundEncoder)):
        return {}
    folders = [media] if isinstance(media, Path) else list(media)
    sources = find_media(folders, wanted=annotations.recordings)
    talks, digest = (0, voices.digest) if voices else (talks, "")
    material = {}
    for person, names in list(group(annotations.recordings).items())[:PEOPLE]:
        marked = [(open_recording(sources[name]), annotations.recordings[name]) for name in names]
        parts = [(each.key, [(a.start, a.end) for a in actions]) for each, actions in marked]
        choices = repr((person, parts, encoder, length, ACTIONS, talks, IN_TALK, digest))
        path = cache / f"alone-{hashlib.sha256(choices.encode()).hexdigest()[:32]}.npz"
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
        except (FileNotFoundError, ValueError, EOFError, BadZipFile):
            arrays = _make_lone(person, marked, encoder, length=length, talks=talks, voices=voices)
            with replacing(path) as scratch:
                np.savez(scratch, **arrays)  # type: ignore[arg-type]  # arrays, no options
        if len(arrays["actions"]):
            actions = tuple(Action(*row) for row in arrays["actions"].tolist())
            talk = TalkMixture(arrays["features"], arrays["labels"]) if voices else None
            material[f"{person}{ALONE}"] = TrainingRecording(
                f"{person}{ALONE}", float(length), tuple(arrays["takes"]), actions, talk
            )
    return material


def _make_lone(
    person: str,
    marked: Sequence[tuple[Recording, Sequence[Action]]],
    encoder: SoundEncoder,
    *,
    length: int,
    talks: int,
    voices: Voices | None,
) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(int(hashlib.sha256(person.encode()).hexdigest()[:8], 16))
    clips = list(cut_actions(marked, rng))
    talk_rng = deepcopy(rng)
    samples, actions = lay_apart(clips, ACTIONS, rng=rng, length=length)
    takes = encode_takes(samples, encoder, rng, talks=talks)
    spans = np.array([(action.start, action.end) for action in actions]).reshape(-1, 2)
    arrays: dict[str, NDArray[Any]] = {"takes": np.stack(takes), "actions": spans}
    if voices and actions:
        samples, actions = lay_apart(clips, IN_TALK, rng=talk_rng)
        mixture = mix_talk(samples, actions, encoder, voices, talk_rng)
        arrays |= {"features": mixture.features, "labels": mixture.labels}
    return arrays


def cut_actions(
    marked: Iterable[tuple[Recording, Sequence[Action]]], rng: np.random.Generator
) -> Iterator[FloatArray]:
    remaining, (shortest, longest) = OF_EACH, LONE_LASTS
    for recording, actions in marked:
        if not remaining:
            return
        blocks = [block.values for block in recording.sound(sample_rate=SAMPLE_RATE)]
        samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        loud = decibels(samples, round(LEVEL_HOP * SAMPLE_RATE))
        enough = HEARD + (float(np.quantile(loud, 0.1)) if len(loud) else 0.0)
        audible = []
        for action in actions:
            first = int(action.start / LEVEL_HOP)
            cells = loud[first : max(first + 1, int(action.end / LEVEL_HOP))]
            if shortest <= action.duration <= longest and cells.max(initial=-np.inf) >= enough:
                audible.append(action)
        for choice in rng.permutation(len(audible))[: min(FROM_EACH, remaining)].tolist():
            span = audible[choice]
            yield samples[round(span.start * SAMPLE_RATE) : round(span.end * SAMPLE_RATE)]
            remaining -= 1


def lay_apart(
    clips: Sequence[FloatArray],
    few: tuple[float, float],
    *,
    rng: np.random.Generator,
    length: int = LONE_LENGTH,
) -> tuple[FloatArray, tuple[Action, ...]]:
    room = 10 ** (rng.uniform(-68, -45) / 20)
    samples = room * level(coloured(length * SAMPLE_RATE, rng))
    actions: list[Action] = []
    count = round(log_uniform(rng, few)) if clips else 0
    free = 0.0
    for drawn in np.sort(rng.uniform(5, length - 30, count)).tolist():
        clip = clips[int(rng.integers(len(clips)))].astype(float)
        start, first = max(drawn, free), round(max(drawn, free) * SAMPLE_RATE)
        if first + len(clip) > len(samples) - SAMPLE_RATE:
            break
        gain = min(10 ** (rng.uniform(-6, 6) / 20), 0.9 / max(float(np.abs(clip).max()), 1e-6))
        samples[first : first + len(clip)] += gain * faded(clip, 0.05)
        actions.append(Action(start, start + len(clip) / SAMPLE_RATE))
        free = actions[-1].end + APART
    return samples, tuple(actions)
