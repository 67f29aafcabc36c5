"""Training data of a gate: features and actions of recordings, and splits by participant.

Whole participants are held out, never parts of their recordings.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from earmark.errors import AnnotationError, ModelMismatch
from earmark.evaluation.annotations.actions import Action, Annotations, list_few
from earmark.evaluation.annotations.media_match import find_media
from earmark.features import encoder_named
from earmark.features.encoder import Encoder, SoundEncoder
from earmark.media import Meter, Recording, Sound, open_recording
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray, Track
from earmark.training.augmentation import alter

Watch = Callable[[str, int, int], None]
"""Called with the current activity, the steps done and the steps in all."""


@dataclass(frozen=True, slots=True, eq=False)
class TalkMixture:
    """Synthetic sound with talk over it, to train the detector of talk."""

    features: FloatArray
    """`(steps, channels)`, float16."""
    labels: NDArray[np.int8]
    """`(steps,)`, int8; see `earmark.training.synthetic_talk`."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRecording:
    """Features and actions of one recording."""

    name: str
    duration: float
    takes: tuple[FloatArray, ...]
    """Features `(steps, channels)`, float16 to halve the memory. The first take is the recording
    itself, the others are altered versions of it."""
    actions: tuple[Action, ...]
    with_talk: TalkMixture | None = None
    """Something made of the same sounds, with talk over them."""

    @property
    def features(self) -> FloatArray:
        """The features of the first take, float32."""
        return self.takes[0].astype(np.float32)


Material = dict[str, TrainingRecording]
"""Recordings by name."""


def gather(
    annotations: Annotations,
    media: Path | Sequence[Path],
    *,
    encoder: str,
    takes: int = 1,
    cache: Path | None = None,
    watch: Watch = lambda *_: None,
) -> Material:
    """Features and actions of every annotated recording, found by name in the folders `media`.

    `takes` counts the recording itself and its altered versions. Features are stored in `cache`, if
    given.

    Raises:
        AnnotationError: a recording has no media or spans past its end, or there are no spans.
        ModelMismatch: the encoder gives values that are not finite.
    """
    made = encoder_named(encoder)
    folders = [media] if isinstance(media, Path) else list(media)
    sources = find_media(folders, wanted=annotations.recordings)
    unheard = [name for name in annotations.recordings if name not in sources]
    if unheard:
        raise AnnotationError(
            f"no media in {list_few(map(str, folders))} for {list_few(unheard)}; "
            "the stems must agree"
        )
    material = {}
    for done, (name, actions) in enumerate(annotations.recordings.items()):
        watch("listening", done, len(annotations.recordings))
        recording = open_recording(sources[name])
        check_inside(name, actions, recording.duration)
        heard = tuple(
            _cached(recording, made, seed, cache) if cache else _listen(recording, made, seed)
            for seed in _take_seeds(name, takes)
        )
        material[name] = TrainingRecording(name, recording.duration, heard, tuple(actions))
    check_actions(material)
    return material


def check_inside(name: str, actions: Sequence[Action], duration: float) -> None:
    """Raise `AnnotationError` for a span that starts past `duration` or ends over 1 s after it."""
    for action in actions:
        if action.start >= duration or action.end > duration + 1.0:
            raise AnnotationError(
                f"{name}: the span {action.start:g}-{action.end:g} s lies outside the recording, "
                f"which lasts {duration:g} s; check the row, or that the media is the right file"
            )


def check_actions(material: Mapping[str, TrainingRecording]) -> None:
    """Raise `AnnotationError` if no recording has an action."""
    if not any(heard.actions for heard in material.values()):
        raise AnnotationError("no recording has a single span, so there is nothing to learn from")


def _take_seeds(name: str, takes: int) -> list[int]:
    """One number a take: 0 for the recording itself, else the seed of an altered version.

    They depend on the recording's name and not on its path, so they are the same on every machine.
    """
    digests = [hashlib.sha256(f"{name} {take}".encode()).hexdigest() for take in range(1, takes)]
    return [0, *(int(digest[:8], 16) for digest in digests)]


def _listen(recording: Recording, encoder: Encoder, seed: int) -> FloatArray:
    """The features of one take, `(steps, channels)`, float16; see `_take_seeds`."""
    if seed and isinstance(encoder, SoundEncoder):
        rate = encoder.sample_rate
        samples = np.concatenate([block.values for block in recording.sound(sample_rate=rate)])
        tracks = encoder.encode([Sound(alter(samples, rate, seed=seed), 0.0, rate)])
    else:
        tracks = encoder(recording, meter=Meter())
    features = as_features(tracks)
    if not np.isfinite(features).all():
        raise ModelMismatch(f"{recording.name}: the features hold values that are not numbers")
    return features


def as_features(tracks: Iterable[Track]) -> FloatArray:
    """The rows of `tracks`, `(steps, channels)`, float16."""
    rows = np.concatenate([track.values for track in tracks])
    return (rows if rows.ndim == 2 else rows[:, None]).astype(np.float16)


def _cached(recording: Recording, encoder: Encoder, seed: int, folder: Path) -> FloatArray:
    """The features from `folder`; computed and stored there if missing or damaged."""
    listener = f"{recording.key} {recording.audio_track} {encoder!r} {seed}"
    path = folder / f"{hashlib.sha256(listener.encode()).hexdigest()[:32]}.npy"
    try:
        kept: FloatArray = np.load(path, allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):
        kept = _listen(recording, encoder, seed)
        with replacing(path) as scratch:
            np.save(scratch, kept)
    return kept


def fingerprint(material: Mapping[str, TrainingRecording]) -> str:
    """SHA-256 over every recording's name, duration, actions and features."""
    digest = hashlib.sha256()
    for name in sorted(material):
        heard = material[name]
        digest.update(f"{name} {heard.duration!r} ".encode())
        digest.update(np.array([(a.start, a.end) for a in heard.actions]).tobytes())
        for take in heard.takes:
            digest.update(take.tobytes())
    return digest.hexdigest()


def participant(recording: str) -> str:
    """The participant in a recording's name, `P01` in `P01_11`; else the whole name.

    >>> participant("P01_11"), participant("workshop")
    ('P01', 'workshop')
    """
    found = re.fullmatch(r"([A-Za-z]+\d+)_.+", recording)
    return found.group(1) if found else recording


def group(recordings: Iterable[str]) -> dict[str, list[str]]:
    """Sorted recordings by participant, participants in an arbitrary but fixed order.

    The order is that of the SHA-256 of their names: fixed before anything is measured, the same on
    every machine, and not the order they were recorded in.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(recordings):
        groups[participant(name)].append(name)
    order = sorted(groups, key=lambda who: hashlib.sha256(who.encode()).hexdigest())
    return {who: groups[who] for who in order}


def hold_out(recordings: Sequence[str], *, share: float = 0.25) -> tuple[list[str], list[str]]:
    """Recordings to train and develop on, and a test set of whole participants.

    Participants go to the test set, in the order of `group`, until it has `share` of the
    recordings.
    """
    kept: list[str] = []
    test: list[str] = []
    for names in group(recordings).values():
        (test if len(test) < share * len(recordings) else kept).extend(names)
    return sorted(kept), sorted(test)


def fold(recordings: Sequence[str], *, folds: int) -> list[list[str]]:
    """Recordings in `folds` parts of about equal size, each participant in one part only.

    Participants with most recordings come first; each goes into the smallest part so far.

    Raises:
        AnnotationError: fewer participants than folds.
    """
    groups = group(recordings)
    if len(groups) < folds:
        raise AnnotationError(
            f"{len(groups)} participants cannot be split into {folds} folds without hearing one of "
            f"them on both sides; annotate more recordings or ask for fewer folds"
        )
    parts: list[list[str]] = [[] for _ in range(folds)]
    for names in sorted(groups.values(), key=len, reverse=True):
        min(parts, key=len).extend(names)
    return [sorted(part) for part in parts]
