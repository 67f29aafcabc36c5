"""Random access to the bytes of a recording's file; all reads are counted."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from earmark.errors import UnreadableFile
from earmark.media.source import place_of

_SAMPLE_BYTES = 4096
"""Bytes hashed at either end of a local file for its content key."""

_MOST_HELD_BYTES = 1 << 20
"""Most bytes kept of a local file: the index of an hour; a larger one is read piece by piece."""


@dataclass(slots=True)
class Meter:
    """Counts bytes read and problems met."""

    bytes_read: int = 0
    """Bytes asked of the disk or the server, the index included."""
    access: str = ""
    """How sound was read: `index`, or `demux` if any chapter needs it."""
    damaged_packets: int = 0
    """Packets the decoder refused; they become silence."""
    overlap: float = 0.0
    """Seconds of sound dropped because they overlap earlier sound."""
    missing: float = 0.0
    """Seconds of silence in gaps of the sound, damaged packets included."""

    def count(self, data: bytes) -> bytes:
        """`data` itself, after counting its bytes."""
        self.bytes_read += len(data)
        return data

    def copy_from(self, other: Meter) -> None:
        """Take over the counts of `other`."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))


class Storage(Protocol):
    """One file that can be read at any position; byte ranges are `range` objects.

    `read` and `read_all` return the bytes asked for, fewer only at the end of the file; any other
    problem is a `MediaError` that names the file. `hold` announces many small reads in a range, so
    that it may be read at once.
    """

    uri: str
    size_bytes: int
    version: str
    """Differs if the content differs, as far as known without reading it.

    Reading fails once the file has another version.
    """
    read_ahead_bytes: int
    """Bytes to read at a time in sequential reads."""
    spare_bytes: int
    """Bytes worth reading to save a read."""

    def read(self, start: int, end: int) -> bytes: ...  # noqa: D102
    def read_all(self, ranges: Sequence[range]) -> list[bytes]: ...  # noqa: D102
    def hold(self, stretch: range) -> None: ...  # noqa: D102
    def key(self) -> str: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def file_changed(uri: str) -> UnreadableFile:
    """The error for a file that changed after it was opened."""
    return UnreadableFile(
        f"{place_of(uri)} changed while it was in use; run again once nothing writes to it"
    )


class LocalStorage:
    """A file on disk."""

    read_ahead_bytes = 0
    spare_bytes = 0

    def __init__(self, uri: str, meter: Meter) -> None:
        self.uri = uri
        self._meter = meter
        self._held, self._held_start = b"", 0
        place = place_of(uri)
        try:
            self._descriptor = os.open(uri, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            if Path(uri).is_symlink():
                to = place_of(str(Path(uri).readlink()))
                raise UnreadableFile(f"{place} is a link to {to}, which does not exist") from None
            raise UnreadableFile(f"{place} does not exist; check the path") from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UnreadableFile(f"{place} cannot be opened: {reason}") from error
        state = os.fstat(self._descriptor)
        self.size_bytes, self._changed_at = state.st_size, state.st_mtime_ns
        self.version = f"{self.size_bytes}:{self._changed_at}"
        if stat.S_ISDIR(state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is a directory with no media in it; name a media file")
        if not stat.S_ISREG(state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is not a file to read at any place; copy it first")

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer at the end of the file."""
        if self._held_start <= start and end <= self._held_start + len(self._held):
            return self._held[start - self._held_start : end - self._held_start]
        return self.read_all([range(start, end)])[0]

    def read_all(self, ranges: Sequence[range]) -> list[bytes]:
        """The bytes of each one, in order."""
        found = []
        for one in ranges:
            size = min(one.stop, self.size_bytes) - one.start
            try:
                found.append(os.pread(self._descriptor, size, one.start) if size > 0 else b"")
            except OSError as error:
                raise UnreadableFile(
                    f"{place_of(self.uri)} cannot be read at byte {one.start}: {error.strerror}; "
                    "copy it to a healthy disk"
                ) from error
        self._meter.bytes_read += sum(map(len, found))
        state = os.fstat(self._descriptor)
        if (state.st_size, state.st_mtime_ns) != (self.size_bytes, self._changed_at):
            raise file_changed(self.uri)
        return found

    def hold(self, stretch: range) -> None:
        """Keep a byte range, unless it is large, for the small reads that follow."""
        if len(stretch) <= _MOST_HELD_BYTES:
            self._held_start, self._held = stretch.start, self.read(stretch.start, stretch.stop)

    def key(self) -> str:
        """A hash of size, time of change and both ends, independent of the name."""
        head = self.read(0, _SAMPLE_BYTES)
        tail = self.read(max(0, self.size_bytes - _SAMPLE_BYTES), self.size_bytes)
        return hashlib.sha256(f"{self.version}:".encode() + head + tail).hexdigest()

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
