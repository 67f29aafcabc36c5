"""Files behind `s3://` and whatever else fsspec reaches, and what lies beneath a prefix there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fsspec

from earmark.errors import MissingExtra, RemoteError, UnreadableFile, summarise
from earmark.media.source import place_of
from earmark.media.storage import ByteRange, FileFacts, Meter, changed

_IN_FLIGHT = 8
"""Range requests made at a time."""


class StoredFile:
    """A file in a store that fsspec knows; every method is one attempt."""

    def __init__(self, uri: str, meter: Meter) -> None:
        self._files, self._path = connect(uri)
        self._uri, self._meter = uri, meter
        self._version = ""

    def read_facts(self) -> FileFacts:
        """What the store says about the file before any of it is read."""
        self._files.invalidate_cache()
        facts = self._files.info(self._path)
        found = FileFacts(
            size_bytes=facts.get("size"),
            tag=facts.get("ETag"),
            changed=facts.get("LastModified"),
            is_folder=facts.get("type") == "directory",
        )
        self._version = self._version or found.version
        return found

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """What came for each range, or why nothing did."""
        answers: list[bytes | BaseException] = self._files.cat_ranges(
            [self._path] * len(ranges),
            [wanted.start for wanted in ranges],
            [wanted.end for wanted in ranges],
            on_error="return",
            batch_size=_IN_FLIGHT,
        )
        for answer in answers:
            if isinstance(answer, bytes):
                self._meter.count(answer)
        if self.read_facts().version != self._version:  # a store asks for no version by itself
            raise changed(self._uri)
        return answers

    def read_whole(self, limit_bytes: int) -> bytes:
        """All of a file that has at most `limit_bytes`."""
        if (self.read_facts().size_bytes or 0) > limit_bytes:
            raise OSError("it is larger than was asked for")
        data: bytes = self._files.cat_file(self._path)
        return self._meter.count(data)

    def close(self) -> None:
        """Nothing to close: fsspec shares its connections."""


def connect(uri: str) -> tuple[Any, str]:
    """The file system that reaches `uri`, and its path there."""
    scheme, place = uri.partition("://")[0].lower(), place_of(uri)
    try:
        files, path = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        extra = "pip install 'earmark[s3]'" if scheme == "s3" else summarise(error)
        raise MissingExtra(f"{place} is behind {scheme}://, which needs: {extra}") from error
    except ValueError as error:
        raise UnreadableFile(
            f"{place}: there is no way to read {scheme}:// ({summarise(error)})"
        ) from error
    except OSError as error:
        raise RemoteError(f"{place}: no server answers ({summarise(error)}); check it") from error
    return files, path
