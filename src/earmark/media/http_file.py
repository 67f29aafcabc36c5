"""One file behind `http(s)://`, read by byte ranges with httpx: every method is one attempt.

Several ranges are under way at a time over connections that are kept alive. They run on an event
loop in a thread of its own, so that each has a deadline that holds whatever the server does: one
that sends a byte a minute is given up like one that sends nothing.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache

import httpx
from anyio.from_thread import start_blocking_portal

from earmark.errors import RemoteError
from earmark.media.source import place_of
from earmark.media.storage import ByteRange, FileFacts, Meter, changed

_IN_FLIGHT = 8
"""Range requests made at a time."""

_TIMEOUT = httpx.Timeout(30.0, connect=10.0, pool=None)
"""Seconds without a word from the server."""

_DEADLINE = 30.0
"""Seconds for a whole answer, and more for a long one:"""
_LEAST_BYTES_A_SECOND = 1 << 16
"""What a line must carry of it."""

_REFUSALS = frozenset([400, 401, 403, 405, 410, 451])
"""Answers that another attempt will not change; 404 is the other one."""


class HttpFile:
    """A file on a web server that serves byte ranges."""

    def __init__(self, url: str, meter: Meter) -> None:
        self._url = url
        self._meter = meter
        self._in_flight = asyncio.Semaphore(_IN_FLIGHT)
        self._facts: FileFacts | None = None
        client = httpx.AsyncClient(
            follow_redirects=True,
            headers={"Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=_IN_FLIGHT),
            timeout=_TIMEOUT,
            trust_env=False,
            verify=_tls(),
        )
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.enter_context(self._portal.wrap_async_context_manager(client))
            self._client = client
            self._stack = stack.pop_all()

    def read_facts(self) -> FileFacts:
        """What the server says about the file, from an answer with its first byte alone."""
        response, _ = self._portal.call(self._attempt, ByteRange(0, 1), 1)
        self._facts = _facts_of(response)
        return self._facts

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes | BaseException]:
        """What came for each range, or why nothing did."""
        start = self._portal.start_task_soon
        futures = [start(self._attempt, wanted, wanted.size_bytes) for wanted in ranges]
        return [future.exception() or future.result()[1] for future in futures]

    def read_whole(self, limit_bytes: int) -> bytes:
        """All of a file that has at most `limit_bytes`."""
        return self._portal.call(self._attempt, None, limit_bytes)[1]

    def close(self) -> None:
        """Close the connections."""
        self._stack.close()

    async def _attempt(
        self, wanted: ByteRange | None, limit_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        deadline = _DEADLINE + limit_bytes / _LEAST_BYTES_A_SECOND
        try:
            async with self._in_flight:
                return await asyncio.wait_for(self._get(wanted, limit_bytes), deadline)
        except TimeoutError:
            raise TimeoutError(f"no whole answer within {deadline:.0f} s") from None

    async def _get(
        self, wanted: ByteRange | None, limit_bytes: int
    ) -> tuple[httpx.Response, bytes]:
        """The answer and its body; all of the file where no range is wanted."""
        headers = {"Range": f"bytes={wanted.start}-{wanted.end - 1}"} if wanted else {}
        tag = (self._facts and self._facts.tag) or ""
        if tag.startswith('"'):  # a weak one never matches
            headers["If-Match"] = tag
        request = self._client.build_request("GET", self._url, headers=headers)
        response = await self._client.send(request, stream=True)
        try:
            if wanted and _size_of(response) == 0:
                return response, b""  # no part can be had of an empty file
            self._check(response, wanted)
            return response, self._meter.count(await _body(response, limit_bytes))
        finally:
            await response.aclose()

    def _check(self, response: httpx.Response, wanted: ByteRange | None) -> None:
        """Make sure of an answer, and of the part that was asked for instead of the whole file."""
        status, said = response.status_code, f"{response.status_code} {response.reason_phrase}"
        if status == httpx.codes.PRECONDITION_FAILED:
            raise changed(self._url)
        if status == httpx.codes.NOT_FOUND:
            raise FileNotFoundError(said)
        if not response.is_success:
            raise PermissionError(said) if status in _REFUSALS else OSError(said)
        if wanted and status != httpx.codes.PARTIAL_CONTENT:
            raise RemoteError(
                f"{place_of(self._url)}: the server refuses byte ranges, so only the whole file "
                "can be had; download it first"
            )
        told = response.headers.get("Content-Range", "")
        if wanted and not told.startswith(f"bytes {wanted.start}-"):
            raise OSError("it answers with other bytes than were asked for")
        if self._facts and wanted and _facts_of(response).version != self._facts.version:
            raise changed(self._url)


@cache
def _tls() -> ssl.SSLContext:
    """The system's certificates, which take a while to load."""
    return ssl.create_default_context()


def _facts_of(response: httpx.Response) -> FileFacts:
    headers = response.headers
    return FileFacts(_size_of(response), headers.get("ETag"), headers.get("Last-Modified"))


def _size_of(response: httpx.Response) -> int | None:
    """Bytes of the whole file, where the answer says so; none can be had of an empty one."""
    if response.status_code == httpx.codes.OK:
        return 0 if response.headers.get("Content-Length") == "0" else None
    total = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(total) if total.isdecimal() else None


async def _body(response: httpx.Response, limit_bytes: int) -> bytes:
    """The body as it was sent; more than `limit_bytes` are refused, and not read."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > limit_bytes:
            raise OSError("it sends more than it was asked for")
    return bytes(data)
