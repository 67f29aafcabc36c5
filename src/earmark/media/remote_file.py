"""Files on servers: `http(s)://` over HTTP, `s3://` and all else by whatever fsspec knows.

Every method is one attempt and raises the library's errors. After `FileNotFoundError` and
`PermissionError` a retry would not help. Reading ranges raises `UnreadableFile` if the file changed
since `read_info`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import httpx

from earmark.errors import MissingExtra, RemoteError, UnreadableFile, summarise
from earmark.media.http_client import HttpClient, Reply
from earmark.media.source import is_web, place_of
from earmark.media.storage import Meter, file_changed

_IN_FLIGHT = 8
"""Range requests made at a time."""

_TIMEOUT = httpx.Timeout(30.0, connect=10.0, pool=None)
"""Seconds without data from the server."""

_DEADLINE = 30.0
"""Seconds for a whole response, plus the time for its bytes at this rate:"""
_LEAST_BYTES_A_SECOND = 1 << 16
"""Least data rate."""

_REFUSALS = frozenset([400, 401, 403, 405, 410, 451])
"""Statuses for which a retry does not help, besides 404."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What a server reports about a file."""

    size_bytes: int | None
    tag: str | None
    """Differs if the content differs."""
    changed: object
    """Time of the last change, as the server gives it."""
    is_folder: bool = False

    @property
    def version(self) -> str:
        """Size and tag, or time of change if there is no tag."""
        return f"{self.size_bytes}:{self.tag or self.changed}"


def open_remote(uri: str, meter: Meter) -> HttpFile | FsspecFile:
    """The file at an address, by the library for its kind."""
    return HttpFile(uri, meter) if is_web(uri) else FsspecFile(uri, meter)


class HttpFile:
    """A file on a web server that serves byte ranges; several are under way at a time."""

    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter
        self._info: FileInfo | None = None
        self._client = HttpClient(follows_redirects=True, connections=_IN_FLIGHT)

    def read_info(self) -> FileInfo:
        """The file's size and version, from a request for its first byte."""
        response, body = self._start(range(1), 1).result()
        self._meter.count(body)
        self._info = _info_of(response)
        return self._info

    def read_ranges(self, ranges: Sequence[range]) -> list[bytes | BaseException]:
        """The bytes of each range, or the error."""
        replies = [self._start(wanted, len(wanted)) for wanted in ranges]
        return [reply.exception() or self._meter.count(reply.result()[1]) for reply in replies]

    def read_whole(self, limit_bytes: int) -> bytes:
        """All of a file that has at most `limit_bytes`."""
        return self._meter.count(self._start(None, limit_bytes).result()[1])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _start(self, wanted: range | None, limit_bytes: int) -> Future[Reply]:
        """Ask for a part of the file, or all of it."""
        headers = {"Range": f"bytes={wanted.start}-{wanted.stop - 1}"} if wanted is not None else {}
        tag = (self._info and self._info.tag) or ""
        if tag.startswith('"'):  # a weak one never matches
            headers["If-Match"] = tag
        return self._client.start(
            self._client.request("GET", self._url, headers=headers, timeout=_TIMEOUT),
            seconds=_DEADLINE + limit_bytes / _LEAST_BYTES_A_SECOND,
            limit_bytes=limit_bytes,
            has_body=lambda response: self._has_body(response, wanted),
        )

    def _has_body(self, response: httpx.Response, wanted: range | None) -> bool:
        """Check the response; whether it has a body to read."""
        if wanted is not None and _size_of(response) == 0:
            return False  # no part can be had of an empty file
        status, said = response.status_code, f"{response.status_code} {response.reason_phrase}"
        if status == httpx.codes.PRECONDITION_FAILED:
            raise file_changed(self._url)
        if status == httpx.codes.NOT_FOUND:
            raise FileNotFoundError(said)
        if not response.is_success:
            raise PermissionError(said) if status in _REFUSALS else OSError(said)
        if wanted is not None and status != httpx.codes.PARTIAL_CONTENT:
            raise RemoteError(
                f"{place_of(self._url)}: the server refuses byte ranges, so only the whole file "
                "can be had; download it first"
            )
        told = response.headers.get("Content-Range", "")
        if wanted is not None and not told.startswith(f"bytes {wanted.start}-"):
            raise OSError("it answers with other bytes than were asked for")
        if wanted is None or self._info is None:
            return True
        if _info_of(response).version != self._info.version:
            raise file_changed(self._url)
        return True


def _info_of(response: httpx.Response) -> FileInfo:
    headers = response.headers
    return FileInfo(_size_of(response), headers.get("ETag"), headers.get("Last-Modified"))


def _size_of(response: httpx.Response) -> int | None:
    """Bytes of the whole file; None if the response does not say."""
    if response.status_code == httpx.codes.OK:
        return 0 if response.headers.get("Content-Length") == "0" else None
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


class FsspecFile:
    """A file in a store that fsspec supports; every method is one attempt."""

    def __init__(self, uri: str, meter: Meter) -> None:
        self._files, self._path = connect(uri)
        self._uri, self._meter = uri, meter
        self._version = ""

    def read_info(self) -> FileInfo:
        """The file's size and version, before any of it is read."""
        self._files.invalidate_cache()
        info = self._files.info(self._path)
        found = FileInfo(
            size_bytes=info.get("size"),
            tag=info.get("ETag"),
            changed=info.get("LastModified"),
            is_folder=info.get("type") == "directory",
        )
        self._version = self._version or found.version
        return found

    def read_ranges(self, ranges: Sequence[range]) -> list[bytes | BaseException]:
        """The bytes of each range, or the error."""
        answers: list[bytes | BaseException] = self._files.cat_ranges(
            [self._path] * len(ranges),
            [wanted.start for wanted in ranges],
            [wanted.stop for wanted in ranges],
            on_error="return",
            batch_size=_IN_FLIGHT,
        )
        for answer in answers:
            if isinstance(answer, bytes):
                self._meter.count(answer)
        if self.read_info().version != self._version:  # a store asks for no version by itself
            raise file_changed(self._uri)
        return answers

    def read_whole(self, limit_bytes: int) -> bytes:
        """All of a file that has at most `limit_bytes`."""
        if (self.read_info().size_bytes or 0) > limit_bytes:
            raise OSError("it is larger than was asked for")
        data: bytes = self._files.cat_file(self._path)
        return self._meter.count(data)

    def close(self) -> None:
        """Nothing to close: fsspec shares its connections."""


def connect(uri: str) -> tuple[Any, str]:
    """The file system that reaches `uri`, and its path there."""
    import fsspec

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
