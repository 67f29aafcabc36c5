"""Bytes of a recording, wherever it lies, counted as they are read."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from earmark.errors import UnreadableFile
from earmark.media.source import is_remote, place_of

_SAMPLE_BYTES = 4096
"""Read at either end of a local file for its content key: enough to tell headers apart."""


@dataclass(slots=True)
class Meter:
    """Counts what reading a recording cost."""

    bytes_read: int = 0
    """Bytes asked of the disk or the server, the index included."""
    requests: int = 0
    """Reads made; over a network, requests sent."""
    access: str = ""
    """How the sound was reached: `index`, or `demux` where any chapter needs it."""
    damaged_packets: int = 0
    """Packets the decoder refused; their time is silence."""
    overlap: float = 0.0
    """Seconds of sound left out because their time had been heard already."""
    missing: float = 0.0
    """Seconds of silence in holes of the sound, damaged packets included."""

    def count(self, data: bytes) -> bytes:
        """`data` itself, after counting it as one read."""
        self.bytes_read += len(data)
        self.requests += 1
        return data


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes `[start, end)` of a file."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        """How many bytes it holds."""
        return self.end - self.start


class Storage(Protocol):
    """One file that can be read at any position.

    `read` and `read_all` return what was asked for, or less only where the file ends; whatever
    else goes wrong is raised as a MediaError naming the file.
    """

    @property
    def uri(self) -> str: ...  # noqa: D102
    @property
    def size_bytes(self) -> int: ...  # noqa: D102
    @property
    def read_ahead_bytes(self) -> int: ...  # noqa: D102
    @property
    def spare_bytes(self) -> int: ...  # noqa: D102

    def read(self, start: int, end: int) -> bytes: ...  # noqa: D102
    def read_all(self, stretches: Sequence[Stretch]) -> list[bytes]: ...  # noqa: D102
    def key(self) -> str: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


def open_storage(uri: str, meter: Meter) -> Storage:
    """The bytes at `uri`, counted by `meter`.

    Raises:
        UnreadableFile: nothing is there, it is a directory, or it may not be read.
        RemoteError: the server does not answer, or serves no byte ranges.
    """
    if is_remote(uri):
        from earmark.media.remote_storage import RemoteStorage

        return RemoteStorage(uri, meter)
    return LocalStorage(uri, meter)


class LocalStorage:
    """A file on disk."""

    read_ahead_bytes = 0
    spare_bytes = 0

    def __init__(self, uri: str, meter: Meter) -> None:
        self.uri = uri
        self._meter = meter
        place = place_of(uri)
        try:
            self._descriptor = os.open(uri, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            raise UnreadableFile(f"{place} does not exist; check the path") from None
        except OSError as error:
            raise UnreadableFile(f"{place} cannot be opened: {error.strerror}") from error
        self._state = os.fstat(self._descriptor)
        self.size_bytes = self._state.st_size
        if stat.S_ISDIR(self._state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is a directory with no media in it; name a media file")
        if not stat.S_ISREG(self._state.st_mode):
            self.close()
            raise UnreadableFile(f"{place} is not a file to read at any place; copy it first")

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer at the end of the file."""
        try:
            return self._meter.count(os.pread(self._descriptor, max(0, end - start), start))
        except OSError as error:
            raise UnreadableFile(
                f"{place_of(self.uri)} cannot be read at byte {start}: {error.strerror}; "
                "copy it to a healthy disk"
            ) from error

    def read_all(self, stretches: Sequence[Stretch]) -> list[bytes]:
        """The bytes of each stretch, in order."""
        return [self.read(stretch.start, stretch.end) for stretch in stretches]

    def key(self) -> str:
        """A hash of size, time of change and both ends; the name plays no part."""
        head = self.read(0, _SAMPLE_BYTES)
        tail = self.read(max(0, self.size_bytes - _SAMPLE_BYTES), self.size_bytes)
        facts = f"{self.size_bytes}:{self._state.st_mtime_ns}:".encode()
        return hashlib.sha256(facts + head + tail).hexdigest()

    def close(self) -> None:
        """Let go of the file; closing twice does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class ByteFile(io.RawIOBase):
    """A Storage as the file object that libav reads, whole or in part.

    In part it is laid out like this; reading in the gap is as if the file ended there:

        0    end of `head`               `place`
        [head]        (gap)              [body ………… ]
    """

    def __init__(
        self,
        storage: Storage,
        *,
        body: Stretch | None = None,
        place: int = 0,
        head: bytes = b"",
    ) -> None:
        super().__init__()
        self._storage = storage
        self._body = body if body is not None else Stretch(0, storage.size_bytes)
        self._place = place
        self._head = head
        self._position = 0
        self._held = head
        self._held_start = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """The position the next read starts at."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move the position; nothing is read."""
        end = self._place + self._body.size_bytes
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: end}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, fewer at the end of a part, none in the gap and at the end."""
        offset = self._position - self._held_start
        if not 0 <= offset < len(self._held):
            self._held, self._held_start = self._fetch(size), self._position
            offset = 0
        data = self._held[offset : offset + size] if size >= 0 else self._held[offset:]
        self._position += len(data)
        return data

    def _fetch(self, size: int) -> bytes:
        """From the position on, as far as asked or worth reading ahead."""
        if self._position < len(self._head):
            return self._head[self._position :]
        start = self._body.start + self._position - self._place
        if self._position < self._place or start >= self._body.end:
            return b""
        wanted = max(size, self._storage.read_ahead_bytes)
        end = self._body.end if size < 0 else min(self._body.end, start + wanted)
        return self._storage.read(start, end)
