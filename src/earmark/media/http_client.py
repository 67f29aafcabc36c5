"""An HTTP client with a deadline for every attempt, whatever the server does.

The time-outs of httpx bound each read, not the whole response: a server that sends a byte a minute
never times out. Attempts therefore run on an event loop and are cancelled at their deadline. The
loop has its own daemon thread, shared by all clients of a process.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import httpx

from earmark.redaction import RedactingFilter

CHUNK = 1 << 20
"""Bytes of a stream that are read at a time."""

Value = TypeVar("Value")
Reply = tuple[httpx.Response, bytes]
"""A response and its body, as it was sent."""

_REDACTING = RedactingFilter()
_STARTING = threading.Lock()


class HttpClient:
    """A thread-safe client that keeps connections alive."""

    def __init__(
        self,
        *,
        headers: dict[str, str] | None = None,
        uses_proxies: bool = False,
        follows_redirects: bool = False,
        connections: int = 1000,
    ) -> None:
        """Connect to nothing yet.

        Args:
            headers: Sent with every request.
            uses_proxies: Whether to use the proxies named in the environment.
            follows_redirects: Whether to follow redirects, to any server.
            connections: Most at a time; waiting for one does not count for the deadline.
        """
        logging.getLogger("httpx").addFilter(_REDACTING)
        self._client = httpx.AsyncClient(
            headers={"Accept-Encoding": "identity", **(headers or {})},
            trust_env=uses_proxies,
            follow_redirects=follows_redirects,
            limits=httpx.Limits(max_keepalive_connections=100),
            timeout=None,  # noqa: S113 (every attempt has a deadline)
            verify=_tls(),
        )
        with _STARTING:
            self._loop = _event_loop(os.getpid())
        self._free = asyncio.Semaphore(connections)
        self.request = self._client.build_request
        """A request to be sent, with the headers of the client."""
        self.close = weakref.finalize(self, _close, self._client, self._loop)
        """Closes the connections; also done when the client is garbage-collected."""

    def start(
        self,
        request: httpx.Request,
        *,
        seconds: float,
        limit_bytes: int,
        has_body: Callable[[httpx.Response], bool] = lambda _: True,
    ) -> Future[Reply]:
        """Start one attempt at `request`; the future gives the response and its body.

        Fails with `TimeoutError` after `seconds`, with `BodyTooLarge` if the body has more than
        `limit_bytes`, and with any error of httpx. `has_body` says whether the body is read, and
        may raise to refuse the response.
        """

        async def ask() -> Reply:
            response = await self._client.send(request, stream=True)
            try:
                wanted = has_body(response)
                return response, await _body(response, limit_bytes) if wanted else b""
            finally:
                await response.aclose()

        async def attempt() -> Reply:
            async with self._free:
                return await _with_deadline(seconds, ask())

        return asyncio.run_coroutine_threadsafe(attempt(), self._loop)

    def send(self, request: httpx.Request, *, seconds: float, limit_bytes: int) -> Reply:
        """The result of `start`, awaited."""
        return _wait(self.start(request, seconds=seconds, limit_bytes=limit_bytes))

    @contextmanager
    def stream(
        self, request: httpx.Request, *, seconds: float
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
        """The response to `request`, and its body in chunks, each of which takes `seconds` at most.

        Fails as `start` does, also while chunks are read.
        """

        def call(step: Coroutine[Any, Any, Value]) -> Value:
            return _wait(
                asyncio.run_coroutine_threadsafe(_with_deadline(seconds, step), self._loop)
            )

        async def next_chunk() -> bytes:
            return await anext(body, b"")

        response = call(self._client.send(request, stream=True))
        body = response.aiter_bytes(CHUNK)
        try:
            yield response, iter(lambda: call(next_chunk()), b"")
        finally:
            call(response.aclose())


class BodyTooLarge(OSError):
    """The response body is larger than allowed."""


async def _with_deadline(seconds: float, step: Coroutine[Any, Any, Value]) -> Value:
    try:
        return await asyncio.wait_for(step, seconds)
    except TimeoutError:
        raise TimeoutError(f"no whole answer within {seconds:.0f} s") from None
    except httpx.ConnectError as error:
        raise httpx.ConnectError(_root_cause(error)) from error


def _root_cause(error: BaseException) -> str:
    """The system's message of the error at the root of a failed connection."""
    while cause := error.__cause__ or error.__context__:
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error)


async def _body(response: httpx.Response, limit_bytes: int) -> bytes:
    """The body, undecoded; raises `BodyTooLarge` beyond `limit_bytes`."""
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > limit_bytes:
            raise BodyTooLarge("it sends more than it was asked for")
    return bytes(data)


def _wait(future: Future[Value]) -> Value:
    """The result; the attempt is cancelled if waiting is interrupted."""
    try:
        return future.result()
    finally:
        future.cancel()


def _close(client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


@cache
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """The running event loop of a process; by process id, since a fork loses the thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"http-{process}", daemon=True).start()
    return loop


@cache
def _tls() -> ssl.SSLContext:
    """The certificates of httpx and of the system; cached, since loading is slow."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
