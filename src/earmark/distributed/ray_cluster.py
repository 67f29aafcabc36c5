"""A Ray cluster: joined or started, and let go of."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from earmark.errors import BackendError, MissingExtra
from earmark.version import VERSION

CONNECT_TIMEOUT = 5.0
"""Seconds within which the head of a cluster takes a connection."""


@dataclass(frozen=True, slots=True)
class VersionMismatch:
    """A worker that runs another earmark, in place of an outcome."""

    version: str
    node: str

    @property
    def complaint(self) -> BackendError:
        """What to say of it."""
        return BackendError(
            f"the worker on {self.node} runs earmark {self.version} and this is {VERSION}: "
            "install the same version on every machine of the cluster"
        )


class RayCluster:
    """A connection to a cluster, ended with `close` unless it was there before."""

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        """Join the cluster at `address`, `auto` for the one this machine belongs to.

        None starts a Ray of our own on this machine. `workers` bounds the items under way; None
        allows as many as the cluster has room for.
        """
        self.workers = workers
        self.ray = import_ray()
        self._is_ours = not self.ray.is_initialized()
        if self._is_ours:
            _connect(self.ray, address, workers)

    def close(self) -> None:
        """Let go of the cluster, unless it was connected to before."""
        if self._is_ours:
            self.ray.shutdown()

    def room(self) -> int:
        """Items that can be at work now: a core each, `workers` at most."""
        cores = int(self.ray.cluster_resources().get("CPU", 1))
        return max(1, min(cores, self.workers or cores))


def import_ray() -> Any:
    """The library, or the way to get it."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtra("a cluster needs Ray: pip install 'earmark[ray]'") from error
    return ray


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    """Join the cluster at `address`, or start one on this machine.

    Raises:
        BackendError: There is none, or it is of another version.
    """
    choices: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(num_cpus=workers, include_dashboard=False, **choices)
        return
    _check_port(address)
    try:
        ray.init(address=address, **choices)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = " ".join(str(error).split())[:300]
        raise BackendError(
            f"no Ray cluster at {address} that this machine can join ({said}); "
            "start one with `ray start --head`, or leave --address out"
        ) from error


def _check_port(address: str) -> None:
    """Make sure somebody listens there: Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or a name that only Ray understands
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise BackendError(
            f"no Ray cluster at {address} ({error.strerror or error}); "
            "check the address, or start one with `ray start --head`"
        ) from error
