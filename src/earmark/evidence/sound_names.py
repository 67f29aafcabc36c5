"""The sounds of windows in words: names from a model (cached), words for the level, and speech."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from earmark.errors import EarmarkError
from earmark.evidence.evidence_entry import EvidenceEntry, EvidenceTimeline
from earmark.evidence.picture_evidence import installed_models
from earmark.media import Recording
from earmark.media.atomic_file import content_file, write_whole
from earmark.models import ModelStore
from earmark.timeline import FloatArray, Span, Track

if TYPE_CHECKING:
    from earmark.evidence.sound_track import SoundListener
    from earmark.features.sound_tags import SoundTagger

NAMES = "names"
STEADY_DB = 3.0
SUDDEN_DB = 12.0

SoundNames = dict[Span, tuple[str, ...]]
"""Likeliest first."""


@dataclass(frozen=True, slots=True)
class SoundNamer:
    """The names of a span do not depend on the other spans asked for."""

    encoder: SoundTagger
    folder: Path | None = None

    @property
    def model(self) -> str:
        return getattr(self.encoder, "name", "")

    def __call__(self, recording: Recording, spans: Sequence[Span]) -> SoundNames:
        names = self.cached(recording) if spans else {}
        missing = [span for span in spans if span not in names]
        if missing:
            names |= zip(missing, self._name(recording, missing), strict=True)
            self.keep(recording, names)
        return {span: names[span] for span in spans}

    @property
    def listener(self) -> SoundListener | None:
        from earmark.evidence.sound_track import SoundListener
        from earmark.features.sound_tags import PatchTagger

        if not isinstance(self.encoder, PatchTagger):
            return None
        return SoundListener(self.encoder, self.folder)

    def _name(self, recording: Recording, spans: Sequence[Span]) -> Sequence[tuple[str, ...]]:
        if (listener := self.listener) and (track := listener.find(recording)):
            return [track.names_in(span) for span in spans]
        return self.encoder.tags(recording, spans)

    def cached(self, recording: Recording) -> SoundNames:
        path = self._path(recording)
        try:
            rows = json.loads(path.read_text(encoding="utf-8")) if path else []
            return {Span(start, end): tuple(names) for start, end, names in rows}
        except (FileNotFoundError, ValueError, TypeError):
            return {}

    def keep(self, recording: Recording, names: SoundNames) -> None:
        if path := self._path(recording):
            merged = sorted((self.cached(recording) | names).items())
            rows = [(span.start, span.end, words) for span, words in merged]
            write_whole(path, json.dumps(rows))

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{recording.key} {recording.audio_track} {self.encoder!r}"
        return content_file(self.folder / NAMES, recording.key, parts, ".json")


@dataclass(frozen=True, slots=True)
class NamingItem:
    recording: Recording
    spans: tuple[Span, ...]

    def __str__(self) -> str:
        return self.recording.name


def _name_item(namer: SoundNamer, item: NamingItem) -> SoundNames:
    return namer(item.recording, item.spans)


ParallelMap = Callable[
    [Callable[[NamingItem], SoundNames], Sequence[NamingItem]], Iterable[tuple[NamingItem, Any]]
]


def name_sounds(
    namer: SoundNamer | None,
    recordings: Iterable[tuple[Recording, Sequence[Span]]],
    spread: ParallelMap,
) -> list[tuple[SoundNames, str]]:
    """The names of the spans of each recording, and why they are missing."""
    if namer is None:
        return [({}, "") for _ in recordings]
    items = [
        NamingItem(recording, tuple(spans) if recording.has_audio else ())
        for recording, spans in recordings
    ]
    results = {item: (namer.cached(item.recording) if item.spans else {}, "") for item in items}
    missing = [item for item, (names, _) in results.items() if not names.keys() >= set(item.spans)]
    for item, outcome in spread(partial(_name_item, namer), missing):
        if isinstance(outcome, EarmarkError):
            results[item] = {}, f"its sounds could not be named: {outcome}"
        else:
            results[item] = outcome, ""
            namer.keep(item.recording, outcome)
    return [results[item] for item in items]


def sound_namer(
    wanted: bool | None, folder: Path | None, *, store: ModelStore | None = None
) -> SoundNamer | None:
    """With mn04, or with YAMNet if only that is on this machine; None if not wanted.

    If there is none, None if `wanted` is None, and `ModelMissing` if it is true. No `folder` means
    no cache.
    """
    store = store or ModelStore()
    if wanted is False:
        return None
    installed = installed_models("heard", store)
    if not installed:
        if wanted:
            store.find("mn04")  # needs no further package
        return None
    from earmark.evidence.sound_track import CELL
    from earmark.features.mn04 import MN04
    from earmark.features.yamnet import YAMNet

    kinds: dict[str, type[MN04 | YAMNet]] = {"mn04": MN04, "yamnet": YAMNet}
    (name,) = installed
    return SoundNamer(kinds[name](cell=CELL, weights=store.find(name)), folder)


@dataclass(frozen=True, slots=True)
class WindowSounds:
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def tags(self) -> tuple[str, ...]:
        return (*self.names, *self.words)


def sounds_in(
    spans: Iterable[Span],
    *,
    level: Track | None,
    names: Mapping[Span, tuple[str, ...]],
    said: Iterable[EvidenceEntry] = (),
) -> dict[Span, WindowSounds]:
    speech = EvidenceTimeline(said)
    return {
        span: WindowSounds(
            names.get(span, ()),
            level_words(level, span) if level else (),
            tuple(entry.text for entry in speech.overlapping(span)),
        )
        for span in spans
    }


@lru_cache(maxsize=2)
def _quiet_and_loud(level: Track) -> FloatArray:
    return np.quantile(level.values, [0.1, 0.9])


def level_words(level: Track, span: Span) -> tuple[str, ...]:
    """Words for `span`, relative to the whole of `level` (dB); none outside it.

    `loud` is above nine tenths of the recording, `quiet` below one tenth; `sudden` has a sharp
    rise, `steady` hardly any change.
    """
    first = max(0, round((span.start - level.start) / level.hop))
    last = round((span.end - level.start) / level.hop)
    inside = level.values[first:last]
    if len(inside) == 0:
        return ()
    quiet, loud = _quiet_and_loud(level)
    peak, spread = inside.max(), np.subtract(*np.quantile(inside, [0.75, 0.25]))
    rise = np.diff(inside).max(initial=0.0)
    words = {
        "loud": loud > quiet and peak >= loud,
        "quiet": loud > quiet and peak <= quiet,
        "sudden": rise >= SUDDEN_DB,
        "steady": spread <= STEADY_DB and rise < SUDDEN_DB,
    }
    return tuple(word for word, applies in words.items() if applies)
