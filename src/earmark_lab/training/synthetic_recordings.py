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
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from earmark.features.encoder import SAMPLE_RATE, SoundEncoder
from earmark.gate.frontline import encoder_named
from earmark.gate.listener import LEVEL_HOP
from earmark.media import Recording, open_recording
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray
from earmark_lab.annotations.actions import Action, Annotations, find_media
from earmark_lab.sites.physics import (
    AMBIENCE,
    TOOLS,
    blow,
    coloured,
    decibels,
    faded,
    level,
    log_uniform,
)
from earmark_lab.training.dataset import Material, TrainingRecording, group
from earmark_lab.training.settings import Settings
from earmark_lab.training.synthetic_sound import (
    TalkMixture,
    Voices,
    encoded,
    mix_talk,
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
