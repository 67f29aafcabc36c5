"""Training data of a gate, split by participant: whole people are held out."""

from __future__ import annotations

import hashlib
import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from earmark.errors import AnnotationError, ModelMismatch
from earmark.features.encoder import Encoder, SoundEncoder
from earmark.gate.frontline import encoder_named
from earmark.gate.listener import LEVEL_HOP, level_track, measure_power
from earmark.media import Meter, Recording, Sound, open_recording
from earmark.media.atomic_file import replacing
from earmark.timeline import FloatArray, Track
from earmark_lab.annotations.actions import Action, Annotations, find_media, list_few
from earmark_lab.training.synthetic_sound import TalkMixture, as_features

Watch = Callable[[str, int, int], None]
"""Called with the current activity, the steps done and the steps in all."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRecording:
    name: str
    duration: float
    takes: tuple[FloatArray, ...]
    """`(steps, channels)`, float16; first the recording itself, then the same with talk over it."""
    actions: tuple[Action, ...]
    with_talk: TalkMixture | None = None
    level: Track | None = None
    """In dB; None if the encoder reads no sound."""
    family: str = ""
    """Of made recordings: that of their timing."""

    @property
    def features(self) -> FloatArray:
        return self.takes[0].astype(np.float32)


Material = dict[str, TrainingRecording]


def gather(
    annotations: Annotations,
    media: Path | Sequence[Path],
    *,
    encoder: str,
    cache: Path | None = None,
    watch: Watch = lambda *_: None,
) -> Material:
    listener = encoder_named(encoder)
    folders = [media] if isinstance(media, Path) else list(media)
    sources = find_media(folders, wanted=annotations.recordings)
    missing = [name for name in annotations.recordings if name not in sources]
    if missing:
        raise AnnotationError(
            f"no media in {list_few(map(str, folders))} for {list_few(missing)}; "
            "the stems must agree"
        )
    material = {}
    for done, (name, actions) in enumerate(annotations.recordings.items()):
        watch("listening", done, len(annotations.recordings))
        recording = open_recording(sources[name])
        check_inside(name, actions, recording.duration)
        stored = read_features(recording, listener, cache)
        material[name] = TrainingRecording(
            name, recording.duration, (stored.features,), tuple(actions), level=stored.level
        )
    check_actions(material)
    return material


def check_inside(name: str, actions: Sequence[Action], duration: float) -> None:
    """`AnnotationError` for a span that starts past `duration` or ends over 1 s after it."""
    for action in actions:
        if action.start >= duration or action.end > duration + 1.0:
            raise AnnotationError(
                f"{name}: the span {action.start:g}-{action.end:g} s lies outside the recording, "
                f"which lasts {duration:g} s; check the row, or that the media is the right file"
            )


def check_actions(material: Mapping[str, TrainingRecording]) -> None:
    if not any(recording.actions for recording in material.values()):
        raise AnnotationError("no recording has a single span, so there is nothing to learn from")


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    features: FloatArray
    """`(steps, channels)`, float16."""
    level: Track | None

    @classmethod
    def of_sound(cls, sound: Iterable[Sound], encoder: SoundEncoder) -> Features:
        powers: list[FloatArray] = []
        rows = as_features(encoder.encode(measure_power(sound, powers)))
        return cls(rows, level_track(powers))

    @classmethod
    def load(cls, path: Path) -> Features:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            level = Track(stored["level"], hop=LEVEL_HOP) if len(stored["level"]) else None
            return cls(stored["features"], level)

    def save(self, path: Path) -> None:
        level = np.zeros(0) if self.level is None else self.level.values
        with replacing(path) as scratch:
            np.savez(scratch, features=self.features, level=level.astype(np.float32))


def read_features(recording: Recording, encoder: Encoder, folder: Path | None) -> Features:
    """From the cache in `folder`, if there is one."""
    source = f"{recording.key} {recording.audio_track} {encoder!r}"
    name = f"{hashlib.sha256(source.encode()).hexdigest()[:32]}.npz"
    if folder is not None:
        with suppress(FileNotFoundError, BadZipFile, ValueError, EOFError, KeyError):
            return Features.load(folder / name)
    features = _listen(recording, encoder)
    if folder is not None:
        features.save(folder / name)
    return features


def _listen(recording: Recording, encoder: Encoder) -> Features:
    if isinstance(encoder, SoundEncoder):
        found = Features.of_sound(recording.sound(sample_rate=encoder.sample_rate), encoder)
    else:
        found = Features(as_features(encoder(recording, meter=Meter())), None)
    if not np.isfinite(found.features).all():
        raise ModelMismatch(f"{recording.name}: the features hold values that are not numbers")
    return found


def fingerprint(material: Mapping[str, TrainingRecording]) -> str:
    digest = hashlib.sha256()
    for name in sorted(material):
        recording = material[name]
        digest.update(f"{name} {recording.duration!r} ".encode())
        digest.update(np.array([(a.start, a.end) for a in recording.actions]).tobytes())
        for take in recording.takes:
            digest.update(take.tobytes())
    return digest.hexdigest()


def participant(recording: str) -> str:
    """The participant in a recording's name, `P01` in `P01_11`; else the whole name.

    >>> participant("P01_11"), participant("workshop")
    ('P01', 'workshop')
    """
    match = re.fullmatch(r"([A-Za-z]+\d+)_.+", recording)
    return match.group(1) if match else recording


def group(recordings: Iterable[str]) -> dict[str, list[str]]:
    """Sorted recordings by participant, participants in order of the SHA-256 of their names."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(recordings):
        groups[participant(name)].append(name)
    order = sorted(groups, key=lambda who: hashlib.sha256(who.encode()).hexdigest())
    return {who: groups[who] for who in order}


def hold_out(recordings: Sequence[str], *, share: float = 0.25) -> tuple[list[str], list[str]]:
    """To train and develop on, and at least `share` to test on; each participant in one only."""
    training: list[str] = []
    test: list[str] = []
    for names in group(recordings).values():
        (test if len(test) < share * len(recordings) else training).extend(names)
    return sorted(training), sorted(test)


def fold(recordings: Sequence[str], *, folds: int) -> list[list[str]]:
    """Parts of about equal size, each participant in one part only."""
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
