"""Files behind `http(s)://`, `s3://` and whatever else fsspec reaches."""

from __future__ import annotations

from collections.abc import Sequence

from earmark.errors import RemoteError
from earmark.media.storage import Meter, Stretch


class RemoteStorage:
    """A file on a server that serves byte ranges."""

    read_ahead_bytes = 1 << 20
    spare_bytes = 1 << 16

    def __init__(self, uri: str, meter: Meter) -> None:
        self._meter = meter
        raise RemoteError(f"{uri} cannot be read yet; download it first")

    uri: str
    size_bytes: int

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer at the end of the file."""
        raise NotImplementedError

    def read_all(self, stretches: Sequence[Stretch]) -> list[bytes]:
        """The bytes of each stretch, in order."""
        raise NotImplementedError

    def key(self) -> str:
        """A hash of what the server says about the file."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to let go of."""
