"""Files on servers, read by byte ranges.

Every method of `HttpFile` and `FsspecFile` is one attempt and raises the library's errors; after
`FileNotFoundError` and `PermissionError` a retry would not help.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from earmark.errors import (
    EarmarkError,
    MissingExtra,
    RemoteError,
    UnreadableFile,
    summarise,
)
from earmark.media.http_client import HttpClient, Reply
from earmark.media.source import is_web, place_of
from earmark.media.storage import Meter, file_changed

_BLOCK_BYTES = 1 << 16
BACKOFF = (0.2, 0.6, 1.8)
Result = TypeVar("Result")


def read_whole(uri: str, limit_bytes: int) -> bytes:
    file = open_remote(uri, Meter())
    try:
        return file.read_whole(limit_bytes)
    except Exception as error:  # every store has errors of its own
        raise explain_failure(uri, error) from error
    finally:
        file.close()


def explain_failure(uri: str, error: Exception, *, attempts: int = 1) -> EarmarkError:
    if isinstance(error, EarmarkError):
        return error
    place, reason = place_of(uri), summarise(error)
    if isinstance(error, FileNotFoundError):
        return UnreadableFile(f"{place} does not exist on the server; check the address")
    if _is_final(error):
        return RemoteError(
            f"{place}: you have no permission to list or read it ({reason}); check your keys"
        )
    if attempts == 1:
        return RemoteError(f"{place}: the server failed ({reason}); check the address and keys")
    return RemoteError(
        f"{place}: the server failed {attempts} times ({reason}); "
        "try again later, or download it first"
    )


class RemoteStorage:
    read_ahead_bytes = 1 << 20
    spare_bytes = 1 << 14
    """What 50 Mbit/s carry in the 20 ms of a round trip, divided by the requests in flight."""

    def __init__(self, uri: str, meter: Meter) -> None:
        self.uri = uri
        self._place = place_of(uri)
        self._file = open_remote(uri, meter)
        self._blocks: dict[int, bytes] = {}
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
        return self._fetch([range(r.start, min(r.stop, self.size_bytes)) for r in ranges])

    def hold(self, stretch: range) -> None:
        self.read(stretch.start, stretch.stop)

    def key(self) -> str:
        """A hash of size and entity tag, with the first bytes if the server has no tags."""
        head = b"" if self._info.tag else self.read(0, _BLOCK_BYTES)
        return hashlib.sha256(f"{self.version}:".encode() + head).hexdigest()

    def go_back_to(self, version: str) -> bool:
        return version == self.version

    def close(self) -> None:
        self._file.close()

    def _fetch_block(self, start: int, end: int = 0) -> bytes:
        end = min(self.size_bytes, max(end, start + _BLOCK_BYTES))
        return self._fetch([range(start, end)])[0]

    def _fetch(self, ranges: list[range]) -> list[bytes]:
        chunks: dict[int, bytes] = {}

        def fetch_missing() -> None:
            missing = [number for number in range(len(ranges)) if number not in chunks]
            answers = self._file.read_ranges([ranges[number] for number in missing])
            errors: list[BaseException] = []
            for number, answer in zip(missing, answers, strict=True):
                if isinstance(answer, BaseException):
                    errors.append(answer)
                elif len(answer) == len(ranges[number]):
                    chunks[number] = answer
            if len(chunks) == len(ranges) - len(missing):
                raise next(iter(errors), OSError("it broke off in the middle of an answer"))

        while len(chunks) < len(ranges):
            self._retry(fetch_missing)
        return [chunks[number] for number in range(len(ranges))]

    def _retry(self, attempt: Callable[[], Result]) -> Result:
        for pause in (*BACKOFF, None):
            try:
                return attempt()
            except Exception as error:
                if pause is None or isinstance(error, EarmarkError) or _is_final(error):
                    raise explain_failure(self.uri, error, attempts=len(BACKOFF) + 1) from error
                time.sleep(pause)
        raise AssertionError


def _is_final(error: BaseException) -> bool:
    unknown = type(error).__name__ == "NoCredentialsError"  # of a library we do not import
    return unknown or isinstance(error, FileNotFoundError | PermissionError)


_IN_FLIGHT = 8
_TIMEOUT = httpx.Timeout(30.0, connect=10.0, pool=None)
_DEADLINE = 30.0  # seconds for a whole response, plus the time for its bytes at this rate:
_LEAST_BYTES_A_SECOND = 1 << 16
_REFUSALS = frozenset([400, 401, 403, 405, 410, 451])  # A retry does not help, nor for 404


@dataclass(frozen=True, slots=True)
class FileInfo:
    size_bytes: int | None
    tag: str | None
    changed: object
    is_folder: bool = False

    @property
    def version(self) -> str:
        return f"{self.size_bytes}:{self.tag or self.changed}"


def open_remote(uri: str, meter: Meter) -> HttpFile | FsspecFile:
    return HttpFile(uri, meter) if is_web(uri) else FsspecFile(uri, meter)


class HttpFile:
    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter
        self._info: FileInfo | None = None
        self._client = HttpClient(follows_redirects=True, connections=_IN_FLIGHT)

    def read_info(self) -> FileInfo:
        response, body = self._start(range(1), 1).result()
        self._meter.count(body)
        self._info = _info_of(response)
        return self._info

    def read_ranges(self, ranges: Sequence[range]) -> list[bytes | BaseException]:
        replies = [self._start(stretch, len(stretch)) for stretch in ranges]
        return [reply.exception() or self._meter.count(reply.result()[1]) for reply in replies]

    def read_whole(self, limit_bytes: int) -> bytes:
        return self._meter.count(self._start(None, limit_bytes).result()[1])

    def close(self) -> None:
        self._client.close()

    def _start(self, stretch: range | None, limit_bytes: int) -> Future[Reply]:
        headers = {} if stretch is None else {"Range": f"bytes={stretch.start}-{stretch.stop - 1}"}
        tag = (self._info and self._info.tag) or ""
        if tag.startswith('"'):  # a weak one never matches
            headers["If-Match"] = tag
        return self._client.start(
            self._client.request("GET", self._url, headers=headers, timeout=_TIMEOUT),
            seconds=_DEADLINE + limit_bytes / _LEAST_BYTES_A_SECOND,
            limit_bytes=limit_bytes,
            has_body=lambda response: self._has_body(response, stretch),
        )

    def _has_body(self, response: httpx.Response, stretch: range | None) -> bool:
        if stretch is not None and _size_of(response) == 0:
            return False  # no part can be had of an empty file
        status, line = response.status_code, f"{response.status_code} {response.reason_phrase}"
        if status == httpx.codes.PRECONDITION_FAILED:
            raise file_changed(self._url)
        if status == httpx.codes.NOT_FOUND:
            raise FileNotFoundError(line)
        if not response.is_success:
            raise PermissionError(line) if status in _REFUSALS else OSError(line)
        if stretch is None:
            return True
        if status != httpx.codes.PARTIAL_CONTENT:
            raise RemoteError(
                f"{place_of(self._url)}: the server refuses byte ranges, so the file cannot be "
                "read in parts; download it first"
            )
        sent = response.headers.get("Content-Range", "")
        if not sent.startswith(f"bytes {stretch.start}-"):
            raise OSError("it sent other bytes than requested")
        if self._info and _info_of(response).version != self._info.version:
            raise file_changed(self._url)
        return True


def _info_of(response: httpx.Response) -> FileInfo:
    headers = response.headers
    return FileInfo(_size_of(response), headers.get("ETag"), headers.get("Last-Modified"))


def _size_of(response: httpx.Response) -> int | None:
    if response.status_code == httpx.codes.OK:
        return 0 if response.headers.get("Content-Length") == "0" else None
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


class FsspecFile:
    def __init__(self, uri: str, meter: Meter) -> None:
        self._files, self._path = connect(uri)
        self._uri, self._meter = uri, meter
        self._version = ""

    def read_info(self) -> FileInfo:
        self._files.invalidate_cache()
        entry = self._files.info(self._path)
        info = FileInfo(
            size_bytes=entry.get("size"),
            tag=entry.get("ETag"),
            changed=entry.get("LastModified"),
            is_folder=entry.get("type") == "directory",
        )
        self._version = self._version or info.version
        return info

    def read_ranges(self, ranges: Sequence[range]) -> list[bytes | BaseException]:
        answers: list[bytes | BaseException] = self._files.cat_ranges(
            [self._path] * len(ranges),
            [stretch.start for stretch in ranges],
            [stretch.stop for stretch in ranges],
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
        if (self.read_info().size_bytes or 0) > limit_bytes:
            raise OSError("it is larger than allowed")
        data: bytes = self._files.cat_file(self._path)
        return self._meter.count(data)

    def close(self) -> None:
        """Connections are shared by fsspec."""


def connect(uri: str) -> tuple[Any, str]:
    import fsspec

    scheme, place = uri.partition("://")[0].lower(), place_of(uri)
    try:
        files, path = fsspec.core.url_to_fs(uri)
    except ImportError as error:
        extra = "pip install 'earmark[s3]'" if scheme == "s3" else summarise(error)
        raise MissingExtra(f"{place} is behind {scheme}://, which needs: {extra}") from error
    except ValueError as error:
        raise UnreadableFile(f"{place}: cannot read {scheme}:// ({summarise(error)})") from error
    except OSError as error:
        raise RemoteError(f"{place}: no server answers ({summarise(error)}); check it") from error
    return files, path
