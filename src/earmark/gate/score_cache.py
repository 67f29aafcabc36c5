"""Stores the results of listening, so that another budget or rule reads no media."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from earmark.errors import EarmarkError
from earmark.gate.frontline import Frontline, NoEncoder
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.gate import DAMAGE
from earmark.gate.listener import LEVEL_HOP, SILENCE, Beside, Heard, listen_to_any, look_instead
from earmark.media import Recording, Source, open_recording
from earmark.media.atomic_file import replacing
from earmark.media.content_file import content_file
from earmark.media.recording_description import content_key
from earmark.models.user_folders import cache_folder
from earmark.timeline import Track

LAYOUT = 3
"""Version of the cached files; increased when their meaning changes, so that no old one is read."""

PLAIN = ("access", "bytes_read", "seconds")
"""Fields of `Heard` that are stored unchanged."""


@dataclass(frozen=True, slots=True)
class ScoreCache:
    """A folder of results of listening, one file for each media content, audio track and frontline.

    A renamed recording is found again, a changed one is not, so entries never go stale. Damaged
    entries count as missing. Deleting the folder only costs the time to listen again.
    """

    folder: Path

    def find(self, source: Source, frontline: Frontline, *, audio_track: int) -> Heard | None:
        """The stored result for `source` with this frontline and track; none if there is none."""
        path = self._path(content_key(source), frontline, audio_track)
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as kept:
                facts = json.loads(str(kept["facts"]))
                level = kept["level"].astype(np.float32) if facts["has_level"] else None
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
        """Store `heard`, the result of asking for `audio_track`."""
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
    """The result of listening to `source`: from the cache, else computed now and stored there.

    If the first audio track is silent, the first that is not is used, see `listen_to_any`; if all
    are silent, the fallback of `frontline`. Without a cache every call listens. `on_seconds` is
    called with the seconds processed so far and the total; `beside` reads the sound in the same
    pass. Neither is called if the result is in the cache.
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
    """The cache in `folder`, by default in the user's cache folder; none if `no_cache`."""
    if no_cache:
        return None
    return ScoreCache(folder or cache_folder())
