"""Synthetic recordings to train the context: annotated actions far apart, in a quiet room.

From bouts of work and stray noises in idle times the context learns that work is many sounds in
a row and that a single sound is not work. In a quiet shift with an action now and then, an action
is a single sound too:

    bouts  ▁▁▁▁▁▁▁▅▃▆▂▅▇▃▅▁▁▁▁▁▁▁▁▁▁▁▃▁▁▁▁
    alone  ▁▁▁▁▁▁▁▁▆▁▁▁▁▁▁▁▁▁▁▁▁▁▅▅▁▁▁▁▁▁▁
    work           ─              ──
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from earmark.evaluation.annotations.actions import Action, Annotations
from earmark.evaluation.annotations.media_match import find_media
from earmark.features import encoder_named
from earmark.features.encoder import SoundEncoder
from earmark.gate.listener import LEVEL_HOP
from earmark.media import Recording, open_recording
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray
from earmark.training.augmentation import level, log_uniform
from earmark.training.dataset import Material, TalkMixture, TrainingRecording, group
from earmark.training.made_recordings import TALKS, as_recording, coloured, faded
from earmark.training.made_talk import SAMPLE_RATE
from earmark.training.settings import Settings
from earmark.training.talk_mixture import Voices, mix_talk

LENGTH = 240
"""Seconds of one recording."""

LASTS = (0.5, 20.0)
"""Shortest and longest action that is used, in seconds."""

HEARD = 10.0
"""Decibels above the 10 % quantile of its recording's level that an action must reach: nothing can
be learnt from silent ones."""

FROM_EACH = 8
"""Most actions used of one recording; neighbours are much alike."""

OF_EACH = 24
"""Most actions used of one person."""

PEOPLE = 32
"""Most people whose actions are used."""

ACTIONS = (2.0, 6.4)
"""Fewest and most actions in a recording, drawn evenly on a logarithmic scale and rounded."""

IN_TALK = (8.0, 24.0)
"""The same for a recording with talk."""

APART = 8.0
"""Least number of seconds between two of them."""


def gather_lone(
    annotations: Annotations,
    media: Path | Sequence[Path],
    settings: Settings,
    *,
    cache: Path,
    length: int = LENGTH,
    talks: int = TALKS,
    voices: Voices | None = None,
) -> Material:
    """One recording for each person, made of annotated actions of theirs and stored in `cache`.

    People without audible actions are left out. Empty if `settings` have no context or no synthetic
    recordings, or if the encoder does not read sound. With `voices` each has a `with_talk` of more
    actions instead of `talks` takes with synthetic talk.
    """
    encoder = encoder_named(settings.encoder)
    if not (settings.made and settings.context_channels and isinstance(encoder, SoundEncoder)):
        return {}
    folders = [media] if isinstance(media, Path) else list(media)
    sources = find_media(folders, wanted=annotations.recordings)
    material = {}
    for person, names in list(group(annotations.recordings).items())[:PEOPLE]:
        heard = [(open_recording(sources[name]), annotations.recordings[name]) for name in names]
        made = _cached(person, heard, encoder, cache, length=length, talks=0 if voices else talks)
        if made.actions and voices:
            made = replace(made, with_talk=_cached_talk(person, heard, encoder, cache, voices))
        if made.actions:
            material[made.name] = made
    return material


def _cached(
    person: str,
    heard: Sequence[tuple[Recording, Sequence[Action]]],
    encoder: SoundEncoder,
    cache: Path,
    *,
    length: int,
    talks: int,
) -> TrainingRecording:
    """The recording of one person from `cache`; made and stored if missing or damaged."""
    name = f"{person}_alone"
    parts = [(one.key, [(each.start, each.end) for each in actions]) for one, actions in heard]
    digest = hashlib.sha256(repr((parts, encoder, length, ACTIONS, talks)).encode()).hexdigest()
    path = cache / f"alone-{digest[:32]}.npz"
    try:
        with np.load(path, allow_pickle=False) as kept:
            actions = tuple(Action(*row) for row in kept["actions"].tolist())
            return TrainingRecording(name, float(length), tuple(kept["takes"]), actions)
    except (FileNotFoundError, ValueError, EOFError):
        rng = _rng(person)
        clips = list(cut_actions(heard, rng))
        made = make_lone(name, clips, encoder, rng=rng, length=length, talks=talks)
        spans = np.array([(each.start, each.end) for each in made.actions]).reshape(-1, 2)
        with replacing(path) as scratch:
            np.savez(scratch, takes=np.stack(made.takes), actions=spans)
        return made


def _rng(person: str) -> np.random.Generator:
    """A random generator that depends on the person's name alone."""
    return np.random.default_rng(int(hashlib.sha256(person.encode()).hexdigest()[:8], 16))


def _cached_talk(
    person: str,
    heard: Sequence[tuple[Recording, Sequence[Action]]],
    encoder: SoundEncoder,
    cache: Path,
    voices: Voices,
) -> TalkMixture:
    """Actions of one person with talk over them, from `cache` likewise."""
    parts = [(one.key, [(each.start, each.end) for each in actions]) for one, actions in heard]
    digest = hashlib.sha256(repr((parts, encoder, IN_TALK, voices.digest)).encode()).hexdigest()
    path = cache / f"talk-{digest[:32]}.npz"
    try:
        with np.load(path, allow_pickle=False) as kept:
            return TalkMixture(kept["features"], kept["labels"])
    except (FileNotFoundError, ValueError, EOFError):
        rng = _rng(person)
        samples, actions = lay_apart(list(cut_actions(heard, rng)), IN_TALK, rng=rng)
        made = mix_talk(samples, actions, encoder, voices, rng)
        with replacing(path) as scratch:
            np.savez(scratch, features=made.features, labels=made.labels)
        return made


def cut_actions(
    heard: Iterable[tuple[Recording, Sequence[Action]]], rng: np.random.Generator
) -> Iterable[FloatArray]:
    """Samples of randomly drawn audible actions, at most `OF_EACH` in all."""
    left = OF_EACH
    for recording, actions in heard:
        if not left:
            return
        blocks = [block.values for block in recording.sound(sample_rate=SAMPLE_RATE)]
        samples = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
        loud = _decibels(samples)
        audible = [each for each in actions if _is_audible(each, loud)]
        for place in rng.permutation(len(audible))[: min(FROM_EACH, left)].tolist():
            span = audible[place]
            yield samples[round(span.start * SAMPLE_RATE) : round(span.end * SAMPLE_RATE)]
            left -= 1


def _decibels(samples: FloatArray) -> FloatArray:
    """The level in decibels of every `LEVEL_HOP` seconds; an incomplete last one is left out."""
    size = round(LEVEL_HOP * SAMPLE_RATE)
    cells = samples[: len(samples) // size * size].reshape(-1, size).astype(float)
    decibels: FloatArray = 10 * np.log10((cells**2).mean(axis=1) + 1e-12)
    return decibels


def _is_audible(action: Action, loud: FloatArray) -> bool:
    """Whether `action` is as long as `LASTS` asks and, by the levels `loud`, as loud as `HEARD`."""
    first = int(action.start / LEVEL_HOP)
    cells = loud[first : max(first + 1, int(action.end / LEVEL_HOP))]
    quiet = float(np.quantile(loud, 0.1)) if len(loud) else 0.0
    return LASTS[0] <= action.duration <= LASTS[1] and cells.max(initial=-np.inf) >= quiet + HEARD


def make_lone(
    name: str,
    clips: Sequence[FloatArray],
    encoder: SoundEncoder,
    *,
    rng: np.random.Generator,
    length: int = LENGTH,
    talks: int = TALKS,
) -> TrainingRecording:
    """A recording of some of `clips`, far apart, over a room's noise; no actions without clips."""
    samples, actions = lay_apart(clips, ACTIONS, rng=rng, length=length)
    return as_recording(name, samples, actions, encoder, rng, talks=talks)


def lay_apart(
    clips: Sequence[FloatArray],
    few: tuple[float, float],
    *,
    rng: np.random.Generator,
    length: int = LENGTH,
) -> tuple[FloatArray, tuple[Action, ...]]:
    """Samples of some of `clips` apart from each other over a room's noise, and where they are.

    Their number lies within `few`; there are no actions without clips.
    """
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
