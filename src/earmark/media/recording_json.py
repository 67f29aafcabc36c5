"""A Recording as plain values and back, and the key that tells whether it is still the same."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from typing import Any

from earmark.media.container import open_storage
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.source import Source
from earmark.media.storage import Meter


def content_key(source: Source, *, meter: Meter | None = None) -> str:
    """`Recording.key` of `source` without opening its containers.

    Raises:
        UnreadableFile: a file is missing or may not be read.
        RemoteError: the server stands in the way.
    """
    keys = []
    for uri in source.uris:
        storage = open_storage(uri, meter if meter is not None else Meter())
        try:
            keys.append(storage.key())
        finally:
            storage.close()
    return join_keys(keys)


def join_keys(keys: list[str]) -> str:
    """The key of a recording whose files have `keys`."""
    return keys[0] if len(keys) == 1 else hashlib.sha256("".join(keys).encode()).hexdigest()


def recording_to_json(recording: Recording) -> dict[str, Any]:
    """Plain values that `recording_from_json` understands."""
    return asdict(recording)


def recording_from_json(plain: dict[str, Any], source: Source) -> Recording:
    """The recording that was described, as it lies at `source` now."""
    parts = [
        Part(
            **{
                **part,
                "audio_tracks": tuple(AudioTrack(**track) for track in part["audio_tracks"]),
                "video": VideoTrack(**part["video"]) if part["video"] else None,
            }
        )
        for part in plain["parts"]
    ]
    moved = tuple(replace(part, uri=uri) for part, uri in zip(parts, source.uris, strict=True))
    return Recording(**{**plain, "source": source, "parts": moved})
