from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.frontline import Frontline, NoEncoder, frontline_named
from earmark.gate.gate import DAMAGE
from earmark.gate.listener import LEVEL_HOP, SILENCE, Beside, Heard, listen_to_any, look_instead
from earmark.media import Recording, Source, open_recording
from earmark.media.atomic_file import content_file, replacing
from earmark.media.recording_description import content_key
from earmark.models.model_store import cache_folder
from earmark.timeline import Track

LAYOUT = 3
"""Increased when the meaning of the files changes."""

PLAIN = ("access", "bytes_read", "seconds")


@dataclass(frozen=True, slots=True)
class ScoreCache:
    """One file for each media content, audio track and frontline.

    A renamed recording is found again, a changed one is not. Damaged entries count as missing.
    """

    folder: Path

    def find(self, source: Source, frontline: Frontline, *, audio_track: int) -> Heard | None:
        path = self._path(content_key(source), frontline, audio_track)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                facts = json.loads(str(kept["facts"]))
                level = kept["level"] if facts["has_level"] else None
                scores = kept["scores"]
        except (FileNotFoundError, *DAMAGE):
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

    def keep(self, heard: Heard, frontline: Frontline, *, audio_track: int = 0) -> None:
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
                    level=level.astype(np.float32),
                )
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> EarmarkError:
        return EarmarkError(
            f"scores cannot be cached in {self.folder} ({error.strerror}); "
            "set `cache` to another folder, or to none"
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
    """If all tracks are silent, the fallback of `frontline` is used.

    `on_seconds` gets the seconds processed so far and the total. Neither it nor `beside` is called
    if the cache has the result.
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
            cache.keep(heard, frontline, audio_track=audio_track)
    if frontline.fallback and not heard.is_heard:
        return look_instead(heard, frontline_named(frontline.fallback))
    return heard


def cache_at(folder: Path | None, no_cache: bool) -> ScoreCache | None:
    if no_cache:
        return None
    return ScoreCache(folder or cache_folder())
