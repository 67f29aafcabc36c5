"""Byte ranges of a recording's file for a browser, local or remote."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from earmark.media.container import open_storage
from earmark.media.source import name_of, suffix_of
from earmark.media.source_listing import SUFFIXES
from earmark.media.storage import Meter
from earmark.redaction import is_redacted

CHUNK_BYTES = 1 << 18
"""Bytes read at a time: a browser may disconnect after any chunk."""

MOST_AT_ONCE = 1 << 24
"""Most bytes for an open-ended range; the browser requests the rest as it plays."""

TYPES = {
    # .mov has the same structure, and browsers play it only under this type.
    **dict.fromkeys((".mp4", ".m4v", ".mov"), "video/mp4"),
    ".3gp": "video/3gpp",
    ".webm": "video/webm",
    ".mkv": "video/x-matroska",
    ".ogv": "video/ogg",
    **dict.fromkeys((".ogg", ".oga", ".opus"), "audio/ogg"),
    ".mp3": "audio/mpeg",
    ".m4a": "audio/mp4",
    ".aac": "audio/aac",
    ".flac": "audio/flac",
    ".wav": "audio/wav",
}
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True, slots=True)
class RangeReply:
    """The response to a request for a file."""

    status: int
    headers: dict[str, str]
    chunks: Iterator[bytes]


def why_unplayable(path: str) -> str:
    """Why the file at `path` cannot be played from this server; empty if it can.

    Only media files are served: a run from somebody else may name any file of this machine.
    """
    if suffix_of(path) not in SUFFIXES:
        return f"{name_of(path)} is not known as a media file"
    if is_redacted(path):
        return "its address was kept without its key"
    return ""


def read_range(path: str, wanted: str | None, *, is_head: bool = False) -> RangeReply:
    """The bytes of the `Range` header `wanted`; the whole file if None."""
    storage = open_storage(path, Meter())
    size = storage.size_bytes
    kind = TYPES.get(suffix_of(path), "application/octet-stream")
    headers = {"accept-ranges": "bytes", "content-type": kind, "cache-control": "private"}
    found = _RANGE.fullmatch(wanted.strip()) if wanted else None
    start, end = _bounds(found, size) if found else (0, size)
    if found and start >= end:
        storage.close()
        return RangeReply(416, headers | {"content-range": f"bytes */{size}"}, iter(()))
    if found:
        headers["content-range"] = f"bytes {start}-{end - 1}/{size}"
    headers["content-length"] = str(end - start)

    def chunks() -> Iterator[bytes]:
        with closing(storage):
            for place in range(start, end, CHUNK_BYTES):
                yield storage.read(place, min(end, place + CHUNK_BYTES))

    if is_head:
        storage.close()
    return RangeReply(206 if found else 200, headers, iter(()) if is_head else chunks())


def _bounds(found: re.Match[str], size: int) -> tuple[int, int]:
    """First byte and one past the last; an empty range if it lies outside of the file."""
    first, last = found.groups()
    if not first:
        return (max(0, size - int(last)), size) if last and int(last) else (size, size)
    start = int(first)
    end = int(last) + 1 if last else min(size, start + MOST_AT_ONCE)
    return start, min(end, size)
