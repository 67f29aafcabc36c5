"""An HTTP client with a deadline for every attempt, whatever the server does.

The time-outs of httpx bound each read: a server that sends a byte a minute never times out. So
attempts run on an event loop in a daemon thread and are cancelled at their deadline.
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
Value = TypeVar("Value")
Reply = tuple[httpx.Response, bytes]
_REDACTING = RedactingFilter()
_STARTING = threading.Lock()


class HttpClient:
    def __init__(
        self,
        *,
        headers: dict[str, str] | None = None,
        uses_proxies: bool = False,
        follows_redirects: bool = False,
        connections: int = 1000,
    ) -> None:
        """Waiting for a free connection does not count for deadlines."""
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
        self.close = weakref.finalize(self, _close, self._client, self._loop)

    def start(
        self,
        request: httpx.Request,
        *,
        seconds: float,
        limit_bytes: int,
        has_body: Callable[[httpx.Response], bool] = lambda _: True,
    ) -> Future[Reply]:
        """`has_body` says whether the body is read, and may raise to refuse the response."""

        async def ask() -> Reply:
            response = await self._client.send(request, stream=True)
            try:
                return response, await _body(response, limit_bytes) if has_body(response) else b""
            finally:
                await response.aclose()

        async def attempt() -> Reply:
            async with self._free:
                return await _with_deadline(seconds, ask())

        return asyncio.run_coroutine_threadsafe(attempt(), self._loop)

    def send(self, request: httpx.Request, *, seconds: float, limit_bytes: int) -> Reply:
        return _wait(self.start(request, seconds=seconds, limit_bytes=limit_bytes))

    @contextmanager
    def stream(
        self, request: httpx.Request, *, seconds: float
    ) -> Iterator[tuple[httpx.Response, Iterator[bytes]]]:
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


class BodyTooLarge(OSError): ...


async def _with_deadline(seconds: float, step: Coroutine[Any, Any, Value]) -> Value:
    try:
        return await asyncio.wait_for(step, seconds)
    except TimeoutError:
        raise TimeoutError(f"no whole answer within {seconds:.0f} s") from None
    except httpx.ConnectError as error:
        raise httpx.ConnectError(_root_cause(error)) from error


def _root_cause(error: BaseException) -> str:
    while cause := error.__cause__ or error.__context__:
        error = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else cause
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):  # whose number is none of the operating system
        return f"TLS failed: {error.reason or error}"
    number = error.errno if isinstance(error, OSError) else None
    return os.strerror(number) if number and number > 0 else str(error)


async def _body(response: httpx.Response, limit_bytes: int) -> bytes:
    data = bytearray()
    async for chunk in response.aiter_raw():
        data += chunk
        if len(data) > limit_bytes:
            raise BodyTooLarge("it sent more than requested")
    return bytes(data)


def _wait(future: Future[Value]) -> Value:
    try:
        return future.result()
    finally:
        future.cancel()


def _close(client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_running():
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)


@cache
def _event_loop(process: int) -> asyncio.AbstractEventLoop:
    """By process id, since a fork loses the thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=f"http-{process}", daemon=True).start()
    return loop


@cache
def _tls() -> ssl.SSLContext:
    """Cached, since loading is slow."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context
