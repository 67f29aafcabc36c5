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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from earmark.training.talk_mixture import Voices, decibels, mix_talk

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

Arrays = dict[str, NDArray[Any]]


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
        source = _Source(person, heard, encoder, cache)
        made = source.make_alone(length, talks=0 if voices else talks)
        if made.actions and voices:
            made = replace(made, with_talk=source.make_talk(voices))
        if made.actions:
            material[made.name] = made
    return material


@dataclass(frozen=True, slots=True, eq=False)
class _Source:
    """The annotated actions of one person; what is made of them is stored in `cache`."""

    person: str
    heard: Sequence[tuple[Recording, Sequence[Action]]]
    encoder: SoundEncoder
    cache: Path

    def make_alone(self, length: int, *, talks: int) -> TrainingRecording:
        """Some of the actions, far apart, over a room's noise; none if none is audible."""
        name = f"{self.person}_alone"

        def make(clips: Sequence[FloatArray], rng: np.random.Generator) -> Arrays:
            samples, actions = lay_apart(clips, ACTIONS, rng=rng, length=length)
            made = as_recording(name, samples, actions, self.encoder, rng, talks=talks)
            spans = np.array([(each.start, each.end) for each in actions]).reshape(-1, 2)
            return {"takes": np.stack(made.takes), "actions": spans}

        kept = self._kept("alone", make, length, ACTIONS, talks)
        actions = tuple(Action(*row) for row in kept["actions"].tolist())
        return TrainingRecording(name, float(length), tuple(kept["takes"]), actions)

    def make_talk(self, voices: Voices) -> TalkMixture:
        """More of the actions with talk over them."""

        def make(clips: Sequence[FloatArray], rng: np.random.Generator) -> Arrays:
            samples, actions = lay_apart(clips, IN_TALK, rng=rng)
            made = mix_talk(samples, actions, self.encoder, voices, rng)
            return {"features": made.features, "labels": made.labels}

        return TalkMixture(**self._kept("talk", make, IN_TALK, voices.digest))

    def _kept(
        self,
        kind: str,
        make: Callable[[Sequence[FloatArray], np.random.Generator], Arrays],
        *choices: object,
    ) -> Arrays:
        """What `make` gives from clips of the actions; made once for the same `choices`.

        Random numbers depend on the person's name alone.
        """
        parts = [(one.key, [(each.start, each.end) for each in some]) for one, some in self.heard]
        digest = hashlib.sha256(repr((parts, self.encoder, *choices)).encode()).hexdigest()
        path = self.cache / f"{kind}-{digest[:32]}.npz"
        try:
            with np.load(path, allow_pickle=False) as kept:
                return dict(kept)
        except (FileNotFoundError, ValueError, EOFError):
            seed = int(hashlib.sha256(self.person.encode()).hexdigest()[:8], 16)
            rng = np.random.default_rng(seed)
            made = make(list(cut_actions(self.heard, rng)), rng)
            with replacing(path) as scratch:
                np.savez(scratch, **made)  # type: ignore[arg-type]  # arrays, no options
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
        loud = decibels(samples, round(LEVEL_HOP * SAMPLE_RATE))
        audible = [each for each in actions if _is_audible(each, loud)]
        for place in rng.permutation(len(audible))[: min(FROM_EACH, left)].tolist():
            span = audible[place]
            yield samples[round(span.start * SAMPLE_RATE) : round(span.end * SAMPLE_RATE)]
            left -= 1


def _is_audible(action: Action, loud: FloatArray) -> bool:
    """Whether `action` is as long as `LASTS` asks and, by the levels `loud`, as loud as `HEARD`."""
    first = int(action.start / LEVEL_HOP)
    cells = loud[first : max(first + 1, int(action.end / LEVEL_HOP))]
    quiet = float(np.quantile(loud, 0.1)) if len(loud) else 0.0
    return LASTS[0] <= action.duration <= LASTS[1] and cells.max(initial=-np.inf) >= quiet + HEARD


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
