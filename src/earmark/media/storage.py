"""Bytes of a recording, wherever it lies, counted as they are read."""

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
"""Read at either end of a local file for its content key: enough to tell headers apart."""

_MOST_HELD_BYTES = 1 << 20
"""Of a local file: the index of an hour; of a longer one each piece is worth a read."""


@dataclass(slots=True)
class Meter:
    """Counts what reading a recording cost."""

    bytes_read: int = 0
    """Bytes asked of the disk or the server, the index included."""
    access: str = ""
    """How the sound was reached: `index`, or `demux` where any chapter needs it."""
    damaged_packets: int = 0
    """Packets the decoder refused; their time is silence."""
    overlap: float = 0.0
    """Seconds of sound left out because their time had been heard already."""
    missing: float = 0.0
    """Seconds of silence in holes of the sound, damaged packets included."""

    def count(self, data: bytes) -> bytes:
        """`data` itself, after counting its bytes."""
        self.bytes_read += len(data)
        return data

    def copy_from(self, other: Meter) -> None:
        """Take over the counts of `other`."""
        for each in fields(self):
            setattr(self, each.name, getattr(other, each.name))


class Storage(Protocol):
    """One file that can be read at any position; a stretch of it is the `range` of its bytes.

    `read` and `read_all` return what was asked for, or less only where the file ends; whatever
    else goes wrong is raised as a MediaError naming the file. `hold` says that a stretch will be
    read in many small pieces next, so that it is better read at once.
    """

    uri: str
    size_bytes: int
    version: str
    """Another one where the content is another, as far as can be told without reading it.

    A read of a file whose version is no longer this one fails.
    """
    read_ahead_bytes: int
    """Worth reading at a time where reads follow one another."""
    spare_bytes: int
    """Worth reading to save a read."""

    def read(self, start: int, end: int) -> bytes: ...  # noqa: D102
    def read_all(self, ranges: Sequence[range]) -> list[bytes]: ...  # noqa: D102
    def hold(self, stretch: range) -> None: ...  # noqa: D102
    def key(self) -> str: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def file_changed(uri: str) -> UnreadableFile:
    """What to say of a file that is no longer the one that was opened."""
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
        except OSError as error:
            raise UnreadableFile(f"{place} cannot be opened: {error.strerror}") from error
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
        """Keep a stretch, unless it is large, for the small reads that follow."""
        if len(stretch) <= _MOST_HELD_BYTES:
            self._held_start, self._held = stretch.start, self.read(stretch.start, stretch.stop)

    def key(self) -> str:
        """A hash of size, time of change and both ends; the name plays no part."""
        head = self.read(0, _SAMPLE_BYTES)
        tail = self.read(max(0, self.size_bytes - _SAMPLE_BYTES), self.size_bytes)
        return hashlib.sha256(f"{self.version}:".encode() + head + tail).hexdigest()

    def close(self) -> None:
        """Let go of the file; closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
