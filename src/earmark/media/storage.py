from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol

from earmark.errors import UnreadableFile
from earmark.media.source import place_of

_SAMPLE_BYTES = 4096
_SAMPLES, _PIECE_BYTES = 32, 256
"""Spread evenly over a file, to tell it from others of the same size and time."""

_MOST_HELD_BYTES = 1 << 20


@dataclass(slots=True)
class Meter:
    bytes_read: int = 0
    access: str = ""
    """`index`, or `demux` if any chapter needs it."""
    damaged_packets: int = 0
    """Packets the decoder refused; they become silence."""
    overlap: float = 0.0
    missing: float = 0.0
    """Seconds of silence in gaps of the sound, damaged packets included."""

    def count(self, data: bytes) -> bytes:
        self.bytes_read += len(data)
        return data

    def copy_from(self, other: Meter) -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))


class Storage(Protocol):
    """`read` and `read_all` return fewer bytes only at the end of the file.

    Any other problem is a `MediaError` that names the file. `hold` announces many small reads.
    """

    uri: str
    size_bytes: int
    version: str
    """Differs if the content differs, as far as known without reading it."""
    read_ahead_bytes: int
    spare_bytes: int
    """Bytes worth reading to save a read."""

    def read(self, start: int, end: int) -> bytes: ...
    def read_all(self, ranges: Sequence[range]) -> list[bytes]: ...
    def hold(self, stretch: range) -> None: ...
    def key(self) -> str: ...
    def go_back_to(self, version: str) -> bool:
        """Whether it holds the content of `version`; of a file that grew since, only that."""
        ...

    def close(self) -> None: ...


def file_changed(uri: str) -> UnreadableFile:
    return UnreadableFile(
        f"{place_of(uri)} changed while it was in use; run again once nothing writes to it"
    )


class LocalStorage:
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
        self.size_bytes, self._state = state.st_size, (state.st_size, state.st_mtime_ns)
        if stat.S_ISDIR(state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is a directory with no media in it; name a media file")
        if not stat.S_ISREG(state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is not a regular file; copy it to one first")
        self.version = f"{self.size_bytes}:{state.st_mtime_ns}:{self._hash_tail(self.size_bytes)}"

    def read(self, start: int, end: int) -> bytes:
        if self._held_start <= start and end <= self._held_start + len(self._held):
            return self._held[start - self._held_start : end - self._held_start]
        return self.read_all([range(start, end)])[0]

    def read_all(self, ranges: Sequence[range]) -> list[bytes]:
        chunks = []
        for stretch in ranges:
            start, size = stretch.start, min(stretch.stop, self.size_bytes) - stretch.start
            try:
                chunks.append(os.pread(self._descriptor, size, start) if size > 0 else b"")
            except OSError as error:
                raise UnreadableFile(
                    f"{place_of(self.uri)} cannot be read at byte {start}: {error.strerror}; "
                    "copy it to a healthy disk"
                ) from error
        self._meter.bytes_read += sum(map(len, chunks))
        state = os.fstat(self._descriptor)
        if (now := (state.st_size, state.st_mtime_ns)) != self._state:
            if not (self._has_grown(self.size_bytes) and self._holds(self.version)):
                raise file_changed(self.uri)
            self._state = now  # more was appended
        return chunks

    def go_back_to(self, version: str) -> bool:
        if version == self.version:
            return True
        size = int(version.partition(":")[0])
        if size > self.size_bytes or not (self._has_grown(size) and self._holds(version)):
            return False
        self.size_bytes, self.version = size, version
        return True

    def _has_grown(self, size: int) -> bool:
        """A write sets the time just before the size, so an equal size is looked at once more."""
        if os.fstat(self._descriptor).st_size <= size:
            time.sleep(0.05)
        return os.fstat(self._descriptor).st_size > size

    def _holds(self, version: str) -> bool:
        size, _, tail = version.split(":")
        return self._hash_tail(int(size)) == tail

    def _hash_tail(self, size: int) -> str:
        """Of the bytes before `size`: a file that is only appended to keeps them."""
        start = max(0, size - _SAMPLE_BYTES)
        try:
            return hashlib.sha256(os.pread(self._descriptor, size - start, start)).hexdigest()[:16]
        except OSError:  # reading it says why
            return ""

    def hold(self, stretch: range) -> None:
        if len(stretch) <= _MOST_HELD_BYTES:
            self._held_start, self._held = stretch.start, self.read(stretch.start, stretch.stop)

    def key(self) -> str:
        last = max(0, self.size_bytes - _PIECE_BYTES)
        starts = [last * number // (_SAMPLES - 1) for number in range(_SAMPLES)]
        ranges = [range(start, start + _PIECE_BYTES) for start in starts]
        is_small = self.size_bytes <= _SAMPLES * _PIECE_BYTES
        samples = self.read_all([range(self.size_bytes)] if is_small else ranges)
        return hashlib.sha256(b"".join([f"{self.version}:".encode(), *samples])).hexdigest()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
