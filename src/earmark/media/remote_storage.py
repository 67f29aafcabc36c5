"""Files behind `http(s)://`, `s3://` and whatever else fsspec reaches, read by byte ranges."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import fsspec

from earmark.errors import EarmarkError, MissingExtra, RemoteError, UnreadableFile
from earmark.media.source import place_of
from earmark.media.storage import Meter, Stretch

_BLOCK_BYTES = 1 << 16
"""The least that is fetched at a time by single reads; the first block also tells files apart."""

_IN_FLIGHT = 8
"""Range requests made at a time."""

_PAUSES = (0.2, 0.6, 1.8)
"""Seconds before each further try of what failed; after the last it is reported."""

_REFUSALS = frozenset([400, 401, 403, 404, 405, 410, 451])
"""Answers that another try will not change."""


Given = TypeVar("Given")


class _Block(NamedTuple):
    start: int
    data: bytes


class RemoteStorage:
    """A file on a server that serves byte ranges."""

    read_ahead_bytes = 1 << 20
    spare_bytes = 1 << 14
    """Bytes worth reading to save a request.

    What a line of 50 Mbit/s carries in the 20 ms that a request takes to travel, shared by the
    requests that travel together.
    """

    def __init__(self, uri: str, meter: Meter) -> None:
        self.uri = uri
        self._place = place_of(uri)
        self._meter = meter
        self._files, self._path = connect(uri)
        self._facts = self._patiently(self._ask_facts)
        if self._facts.get("type") == "directory":
            raise UnreadableFile(f"{self._place} is a folder; name a media file in it")
        if self._facts.get("size") is None:
            raise RemoteError(
                f"{self._place}: the server does not say how large it is; download it first"
            )
        self.size_bytes = int(self._facts["size"])
        self._blocks: list[_Block] = []

    def read(self, start: int, end: int) -> bytes:
        """Bytes `[start, end)`, fewer at the end of the file.

        A little more is fetched and held, since small reads come close together.
        """
        end = min(end, self.size_bytes)
        if end <= start:
            return b""
        for block in (self._head(), *self._blocks[1:]):
            if block.start <= start and end <= block.start + len(block.data):
                return block.data[start - block.start : end - block.start]
        latest = _Block(start, self._fetch([self._around(start, end)])[0])
        self._blocks[1:] = [latest]
        return latest.data[: end - start]

    def read_all(self, stretches: Sequence[Stretch]) -> list[bytes]:
        """The bytes of each stretch, in order; several requests are under way at a time."""
        return self._fetch([Stretch(s.start, min(s.end, self.size_bytes)) for s in stretches])

    def key(self) -> str:
        """A hash of size and entity tag, with the first bytes where the server has no tags."""
        tag = self._facts.get("ETag")
        changed = self._facts.get("Last-Modified") or self._facts.get("LastModified")
        facts = f"{self.size_bytes}:{tag or changed}:".encode()
        return hashlib.sha256(facts if tag else facts + self._head().data).hexdigest()

    def close(self) -> None:
        """Nothing to let go of: connections are shared."""

    def _head(self) -> _Block:
        """The first block, fetched when it is first needed, once ranges are known to be served."""
        if not self._blocks:
            self._patiently(self._check_ranges)
            self._blocks.append(_Block(0, self._fetch([self._around(0, 0)])[0]))
        return self._blocks[0]

    def _around(self, start: int, end: int) -> Stretch:
        return Stretch(start, min(self.size_bytes, max(end, start + _BLOCK_BYTES)))

    def _ask_facts(self) -> dict[str, Any]:
        """What the server says about the file before any of it is read."""
        self._files.invalidate_cache()
        facts: dict[str, Any] = self._files.info(self._path)
        return facts

    def _check_ranges(self) -> None:
        """Make sure of getting a part where a part is asked for, and not the whole file."""
        refusal = (
            f"{self._place}: the server refuses byte ranges, so only the whole file can be had; "
            "download it first"
        )
        if self._facts.get("partial") is False:
            raise RemoteError(refusal)
        if not self._path.startswith("http") or self.size_bytes < 2:
            return
        with self._files.open(self._path, size=self.size_bytes, cache_type="none") as file:
            file.seek(1)
            try:
                self._meter.count(file.read(1))
            except ValueError as error:
                raise RemoteError(refusal) from error

    def _fetch(self, stretches: list[Stretch]) -> list[bytes]:
        """The bytes of each stretch; those that fail or come short are asked for again.

        As long as something new comes in, patience begins anew.
        """
        found: dict[int, bytes] = {}

        def ask_for_the_rest() -> None:
            waiting = [place for place in range(len(stretches)) if place not in found]
            answers = self._files.cat_ranges(
                [self._path] * len(waiting),
                [stretches[place].start for place in waiting],
                [stretches[place].end for place in waiting],
                on_error="return",
                batch_size=_IN_FLIGHT,
            )
            before = len(found)
            for place, answer in zip(waiting, answers, strict=True):
                if not isinstance(answer, BaseException):
                    self._meter.count(answer)
                    if len(answer) == stretches[place].size_bytes:
                        found[place] = answer
            if len(found) == before:
                errors = (answer for answer in answers if isinstance(answer, BaseException))
                raise next(errors, OSError("it broke off in the middle of an answer"))

        while len(found) < len(stretches):
            self._patiently(ask_for_the_rest)
        return [found[place] for place in range(len(stretches))]

    def _patiently(self, attempt: Callable[[], Given]) -> Given:
        """What `attempt` returns, tried again after a pause where that may help."""
        for pause in _PAUSES:
            try:
                return attempt()
            except Exception as error:
                if isinstance(error, EarmarkError) or _is_final(self._root(error)):
                    raise self._explain(error) from error
                time.sleep(pause)
        try:
            return attempt()
        except Exception as error:
            raise self._explain(error) from error

    def _root(self, error: BaseException) -> BaseException:
        """What lies behind the "not found" that fsspec makes of any failure by HTTP."""
        is_hidden = isinstance(error, FileNotFoundError) and self._path.startswith("http")
        return error.__cause__ if is_hidden and error.__cause__ else error

    def _explain(self, error: BaseException) -> EarmarkError:
        error = self._root(error)
        if isinstance(error, EarmarkError):
            return error
        said = _say(error).replace(self.uri, self._place)
        if isinstance(error, FileNotFoundError) or _status(error) == 404:
            return UnreadableFile(f"{self._place} does not exist on the server; check the address")
        if _is_final(error):
            return RemoteError(
                f"{self._place}: the server refuses it ({said}); check your rights to it"
            )
        return RemoteError(
            f"{self._place}: the server failed {len(_PAUSES) + 1} times ({said}); "
            "try again later, or download it first"
        )


def _status(error: BaseException) -> int | None:
    return getattr(error, "status", None)


def _is_final(error: BaseException) -> bool:
    """Whether another try would not change it."""
    missing_or_barred = isinstance(error, FileNotFoundError | PermissionError)
    unknown = type(error).__name__ == "NoCredentialsError"  # of a library we do not import
    return missing_or_barred or unknown or _status(error) in _REFUSALS


def connect(uri: str) -> tuple[Any, str]:
    """The file system that reaches `uri`, and its path there."""
    scheme = uri.partition("://")[0].lower()
    options = {"client_kwargs": _patience()} if scheme in ("http", "https") else {}
    place = place_of(uri)
    try:
        files, path = fsspec.core.url_to_fs(uri, **options)
    except ImportError as error:
        extra = "pip install 'earmark[s3]'" if scheme == "s3" else str(error)
        raise MissingExtra(f"{place} is behind {scheme}://, which needs: {extra}") from error
    except ValueError as error:
        raise UnreadableFile(f"{place}: there is no way to read {scheme}:// ({error})") from error
    except OSError as error:
        raise RemoteError(f"{place}: no server answers ({_say(error)}); check it") from error
    return files, path


def _patience() -> dict[str, Any]:
    """How long to wait for a silent HTTP server, in the words of fsspec's HTTP library."""
    import aiohttp

    return {
        "timeout": aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30),
        "headers": {"Accept-Encoding": "identity"},
    }


def _say(error: BaseException) -> str:
    """An error in a few words on one line."""
    words = " ".join(str(error).split())
    return words[:200] or type(error).__name__
