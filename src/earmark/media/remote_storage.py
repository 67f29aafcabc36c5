"""Files on a server, read by byte ranges: retried with backoff, close reads fetched together."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from earmark.errors import EarmarkError, MediaError, RemoteError, UnreadableFile, summarise
from earmark.media.remote_file import open_remote
from earmark.media.source import place_of
from earmark.media.storage import Meter

_BLOCK_BYTES = 1 << 16
"""Least bytes fetched by a single read; the first block is also used for the key."""

BACKOFF = (0.2, 0.6, 1.8)
"""Seconds before each retry; after the last the failure is reported."""

Result = TypeVar("Result")


def read_whole(uri: str, limit_bytes: int) -> bytes:
    """All of a file at an address that has at most `limit_bytes`: a list of recordings."""
    file = open_remote(uri, Meter())
    try:
        return file.read_whole(limit_bytes)
    except Exception as error:  # every store has errors of its own
        raise explain_listing(uri, error) from error
    finally:
        file.close()


def explain_listing(uri: str, error: Exception) -> MediaError:
    """The error to raise if a store cannot be listed, or a list not be read."""
    place = place_of(uri)
    reason = summarise(error)
    if isinstance(error, PermissionError):
        return RemoteError(
            f"{place}: you have no permission to list or read it ({reason}); check your keys"
        )
    if isinstance(error, FileNotFoundError):
        return UnreadableFile(f"{place} does not exist on the server; check the address")
    return RemoteError(f"{place}: the server failed ({reason}); check the address and keys")


class RemoteStorage:
    """A file on a server that serves byte ranges."""

    read_ahead_bytes = 1 << 20
    spare_bytes = 1 << 14
    """Bytes worth reading to save a request.

    The bytes that 50 Mbit/s carry in the 20 ms of a round trip, divided by the requests in flight.
    """

    def __init__(self, uri: str, meter: Meter) -> None:
        self.uri = uri
        self._place = place_of(uri)
        self._file = open_remote(uri, meter)
        self._blocks: dict[int, bytes] = {}
        """The first block and the latest one, by where they begin."""
        try:
            self._info = self._retry(self._file.read_info)
            if self._info.is_folder:
                raise UnreadableFile(f"{self._place} is a folder; name a media file in it")
            if self._info.size_bytes is None:
                raise RemoteError(
                    f"{self._place}: the server does not say how large it is; download it first"
                )
        except BaseException:
            self.close()
            raise
        self.size_bytes, self.version = self._info.size_bytes, self._info.version

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer at the end of the file.

        A little more is fetched and held, since small reads come close together.
        """
        end = min(end, self.size_bytes)
        if end <= start:
            return b""
        if not self._blocks:
            self._blocks[0] = self._fetch_block(0)
        for first, data in self._blocks.items():
            if first <= start and end <= first + len(data):
                return data[start - first : end - first]
        latest = self._fetch_block(start, end)
        self._blocks = {0: self._blocks[0], start: latest}
        return latest[: end - start]

    def read_all(self, ranges: Sequence[range]) -> list[bytes]:
        """The bytes of each range, in order; several requests are under way at a time."""
        return self._fetch([range(r.start, min(r.stop, self.size_bytes)) for r in ranges])

    def hold(self, stretch: range) -> None:
        """Fetch a byte range in one request; it is kept until another is read."""
        self.read(stretch.start, stretch.stop)

    def key(self) -> str:
        """A hash of size and entity tag, with the first bytes where the server has no tags."""
        head = b"" if self._info.tag else self.read(0, _BLOCK_BYTES)
        return hashlib.sha256(f"{self.version}:".encode() + head).hexdigest()

    def close(self) -> None:
        """Close the connections."""
        self._file.close()

    def _fetch_block(self, start: int, end: int = 0) -> bytes:
        end = min(self.size_bytes, max(end, start + _BLOCK_BYTES))
        return self._fetch([range(start, end)])[0]

    def _fetch(self, ranges: list[range]) -> list[bytes]:
        """The bytes of each range; those that fail or are incomplete are requested again.

        The backoff restarts whenever a range has arrived.
        """
        found: dict[int, bytes] = {}

        def fetch_missing() -> None:
            missing = [place for place in range(len(ranges)) if place not in found]
            answers = self._file.read_ranges([ranges[place] for place in missing])
            errors: list[BaseException] = []
            for place, answer in zip(missing, answers, strict=True):
                if isinstance(answer, BaseException):
                    errors.append(answer)
                elif len(answer) == len(ranges[place]):
                    found[place] = answer
            if len(found) == len(ranges) - len(missing):
                raise next(iter(errors), OSError("it broke off in the middle of an answer"))

        while len(found) < len(ranges):
            self._retry(fetch_missing)
        return [found[place] for place in range(len(ranges))]

    def _retry(self, attempt: Callable[[], Result]) -> Result:
        """What `attempt` returns, retried with backoff where that may help."""
        for pause in (*BACKOFF, None):
            try:
                return attempt()
            except Exception as error:
                if pause is None or isinstance(error, EarmarkError) or _is_final(error):
                    raise self._explain(error) from error
                time.sleep(pause)
        raise AssertionError

    def _explain(self, error: Exception) -> EarmarkError:
        if isinstance(error, EarmarkError):
            return error
        reason = summarise(error)
        if isinstance(error, FileNotFoundError):
            return UnreadableFile(f"{self._place} does not exist on the server; check the address")
        if _is_final(error):
            return RemoteError(
                f"{self._place}: the server refuses it ({reason}); check your rights to it"
            )
        return RemoteError(
            f"{self._place}: the server failed {len(BACKOFF) + 1} times ({reason}); "
            "try again later, or download it first"
        )


def _is_final(error: BaseException) -> bool:
    """Whether a retry would not help."""
    unknown = type(error).__name__ == "NoCredentialsError"  # of a library we do not import
    return unknown or isinstance(error, FileNotFoundError | PermissionError)
