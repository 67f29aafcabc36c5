"""Tracks the named sounds of a whole recording, once: the result is cached."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from earmark.errors import EarmarkError
from earmark.evidence.evidence_entry import SOUND_TRACK, EvidenceEntry
from earmark.evidence.sound_track import SoundTrack, SoundTracker
from earmark.features.yamnet import YAMNet
from earmark.media import Meter, Recording, Sound
from earmark.media.atomic_file import replacing
from earmark.media.content_file import content_file

SOUNDS = "sounds"
"""Folder of the tracks in the cache."""

CACHE_VERSION = 3
"""Version of the cached files; raised when their meaning changes, so that old ones are not read."""


@dataclass(frozen=True, slots=True)
class SoundListener:
    """Tracks named sounds over whole recordings; cheap to send to a worker."""

    encoder: YAMNet
    folder: Path | None = None
    """Folder of the cache; None listens every time."""
    origin: ClassVar[str] = SOUND_TRACK
    """Origin of its evidence."""

    def __call__(
        self, recording: Recording, *, on_seconds: Callable[[float, float], None] | None = None
    ) -> SoundTrack:
        """The sounds of `recording`: from the cache, or listened to now and cached.

        Raises:
            MediaError: it has no sound, or cannot be read.
        """
        known = self.find(recording)
        if known is not None:
            return known
        tracker = SoundTracker(self.encoder)
        for block in tracker.pass_through(recording.sound(sample_rate=16_000, meter=Meter())):
            if on_seconds is not None:
                on_seconds(block.start + len(block) / block.sample_rate, recording.duration)
        return self.keep(recording, tracker.track())

    def evidence(self, recording: Recording) -> list[EvidenceEntry]:
        """The same sounds as evidence entries, one per event."""
        found = self(recording).events()
        return [
            EvidenceEntry(event.span, "heard", event.name, event.confidence, SOUND_TRACK)
            for event in found
        ]

    def pass_through(self, recording: Recording, sound: Iterable[Sound]) -> Iterator[Sound]:
        """Yield the `sound` of `recording` unchanged while tracking its named sounds for the cache.

        Nothing is tracked if they are cached already, or there is no cache.
        """
        if self.folder is None or self.find(recording) is not None:
            yield from sound
            return
        tracker = SoundTracker(self.encoder)
        yield from tracker.pass_through(sound)
        self.keep(recording, tracker.track())

    def find(self, recording: Recording) -> SoundTrack | None:
        """The cached track of `recording`; None if there is none, or the file is damaged."""
        path = self._path(recording)
        if path is None:
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                hop, duration = (float(value) for value in stored["times"])
                cells, logits = stored["cells"].astype(np.intp), stored["logits"].astype(np.float32)
                arrays = cells, stored["classes"], logits
        except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
            return None
        return SoundTrack(self.encoder.classes, hop, duration, *arrays)

    def keep(self, recording: Recording, track: SoundTrack) -> SoundTrack:
        """Put `track` into the cache, if there is one; returns it."""
        path = self._path(recording)
        if path is not None:
            try:
                with replacing(path) as scratch:
                    np.savez(
                        scratch,
                        times=np.array([track.hop, track.duration]),
                        cells=track.cells.astype(np.int32),
                        classes=track.classes,
                        logits=track.logits.astype(np.float16),
                    )
            except OSError as error:
                raise EarmarkError(
                    f"what was heard cannot be kept in {self.folder} ({error.strerror}); "
                    "choose another place with `--cache`, or none with `--no-cache`"
                ) from error
        return track

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{CACHE_VERSION} {recording.key} {recording.audio_track} {self.encoder!r}"
        return content_file(self.folder / SOUNDS, recording.key, parts, ".npz")
