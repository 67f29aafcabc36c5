"""Keeps what was heard, so that another budget or rule reads no media."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.frontline import Frontline, NoEncoder
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.listener import LEVEL_HOP, SILENCE, Beside, Heard, listen_to_any, look_instead
from earmark.media import Recording, Source, open_recording
from earmark.media.atomic_file import replacing
from earmark.media.content_file import content_file
from earmark.media.recording_description import content_key
from earmark.models.user_folders import cache_folder
from earmark.timeline import Track

LAYOUT = 3
"""Of the files in the cache; raised when their meaning changes, so that old ones are not read."""

PLAIN = ("access", "bytes_read", "seconds")
"""What is kept of `Heard` as it is."""


@dataclass(frozen=True, slots=True)
class ScoreCache:
    """A folder of what was heard, named by content and by what listened.

    A file that was renamed is found again; one that changed is not; nothing is ever stale. Damaged
    entries count as missing. Deleting the folder costs time and nothing else.
    """

    folder: Path

    def find(self, source: Source, frontline: Frontline, *, audio_track: int) -> Heard | None:
        """What was heard of `source` before; none if nothing was, or not this way."""
        path = self._path(content_key(source), frontline, audio_track)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                facts = json.loads(str(kept["facts"]))
                level = kept["level"].astype(np.float32) if facts["has_level"] else None
                scores = kept["scores"]
        except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
            return None
        except OSError as error:
            raise self._unusable(error) from error
        return Heard(
            recording=Recording.from_json(facts["recording"], source),
            frontline=frontline.name,
            scores=Track(scores),
            level=None if level is None else Track(level, hop=LEVEL_HOP),
            warnings=tuple(facts["warnings"]),
            from_cache=True,
            **{name: facts[name] for name in PLAIN},
        )

    def keep(self, heard: Heard, frontline: Frontline, *, audio_track: int = 0) -> Heard:
        """Put `heard`, when `audio_track` was asked for, into the folder; gives it back."""
        facts = {
            "recording": heard.recording.to_json(),
            "has_level": heard.level is not None,
            "warnings": heard.warnings,
            **{name: getattr(heard, name) for name in PLAIN},
        }
        level = np.zeros(0) if heard.level is None else heard.level.values
        path = self._path(heard.recording.key, frontline, audio_track)
        try:
            with replacing(path) as scratch:
                np.savez(
                    scratch,
                    facts=np.array(json.dumps(facts)),
                    scores=heard.scores.values,
                    level=level.astype(np.float16),
                )
        except OSError as error:
            raise self._unusable(error) from error
        return replace(heard, from_cache=False)

    def _unusable(self, error: OSError) -> EarmarkError:
        return EarmarkError(
            f"what was heard cannot be kept in {self.folder} ({error.strerror}); "
            "choose another place with `--cache`, or none with `--no-cache`"
        )

    def _path(self, key: str, frontline: Frontline, audio_track: int) -> Path:
        listener = f"{LAYOUT} {audio_track} {frontline.encoder!r} {frontline.scorer!r}"
        return content_file(self.folder, key, f"{key} {listener}", ".npz")


def listen_cached(
    source: Source,
    frontline: Frontline,
    cache: ScoreCache | None,
    *,
    audio_track: int = 0,
    on_seconds: Callable[[float, float], None] | None = None,
    beside: Beside | None = None,
) -> Heard:
    """What is heard of `source`: from the cache, or listened to now and kept there.

    Where the first track is silent that is the next one that sounds, see `listen_to_any`; where
    there is none, what the fallback of `frontline` sees. Without a cache it is listened to every
    time. `on_seconds` is told the seconds heard so far and those in all; `beside` hears in the same
    pass, where there is one.
    """
    if isinstance(frontline.encoder, NoEncoder):
        recording = open_recording(source, audio_track=audio_track)
        return Heard(recording, frontline.name, SILENCE, None, "none", 0, 0.0)
    heard = cache.find(source, frontline, audio_track=audio_track) if cache else None
    if heard is None:
        recording = open_recording(source, audio_track=audio_track)
        length = recording.duration
        progress = None if on_seconds is None else lambda now: on_seconds(now, length)
        heard = listen_to_any(recording, frontline, progress=progress, beside=beside)
        if cache is not None and heard.access != "none":
            heard = cache.keep(heard, frontline, audio_track=audio_track)
    if frontline.fallback and not heard.is_heard:
        return look_instead(heard, frontline_named(frontline.fallback))
    return heard


def cache_at(folder: Path | None, no_cache: bool) -> ScoreCache | None:
    """The cache in `folder`, else the user's own; none where nothing is to be kept."""
    if no_cache:
        return None
    return ScoreCache(folder or cache_folder())
