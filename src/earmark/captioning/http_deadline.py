"""An HTTP client whose every attempt ends in time, however slowly its bytes trickle in.

The time-outs of httpx bound each read, not the whole: a server that sends a byte a second is never
late. Here no read or write may outlast the attempt that it is part of.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

PIECE = 16 << 10
"""Bytes written in one step; a step that goes on in pieces of its own has a time-out for each."""

_attempt = threading.local()
"""When the attempt of this thread is to end, by the monotonic clock."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Whatever a client of this module does in the block takes at most `seconds` in all."""
    before = getattr(_attempt, "end", math.inf)
    _attempt.end = min(before, time.monotonic() + seconds)
    try:
        yield
    finally:
        _attempt.end = before


def open_client(*, uses_proxies: bool, headers: dict[str, str]) -> httpx.Client:
    """A client that follows no redirect and keeps to `deadline`.

    Args:
        uses_proxies: Whether those that the environment names are gone through.
        headers: Sent with every request.
    """
    client = httpx.Client(
        trust_env=uses_proxies, headers=headers, limits=httpx.Limits(max_keepalive_connections=100)
    )
    transports: list[Any] = [client._transport, *client._mounts.values()]
    for transport in filter(None, transports):
        # There is no public way to the connections of a client that may also use proxies.
        pool = transport._pool
        pool._network_backend = _Backend(pool._network_backend)
    return client


def _left(timeout: float | None, kind: type[Exception]) -> float | None:
    """Seconds for one step: `timeout`, or less where the attempt ends before; raises where none."""
    left: float = getattr(_attempt, "end", math.inf) - time.monotonic()
    if left <= 0:
        raise kind("the time for this attempt is over")
    left = min(left, math.inf if timeout is None else timeout)
    return None if left == math.inf else left


class _Backend(httpcore.NetworkBackend):
    """Opens connections that keep to the deadline."""

    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    """A connection that keeps to the deadline."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), PIECE):
            left = _left(timeout, httpcore.WriteTimeout)
            self._inner.write(buffer[start : start + PIECE], left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
