"""The engine of a Ray cluster: tasks, as many under way as the cluster has room for.

Ray takes up the work of a lost worker or node by itself. Results are kilobytes and travel in the
task's own reply, not through the object store; at most two a core are under way, so neither the
driver nor the store grows with the number of items.
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from earmark.distributed.backend import ATTEMPTS, Given, Item, Outcome, attempt, lost
from earmark.errors import BackendError, MissingExtra
from earmark.version import VERSION

AHEAD = 2
"""Items under way for each core: one at work, one on its way."""

PATIENCE = 5.0
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


class RayBackend:
    """The workers of a Ray cluster.

    Args:
        address: Of the cluster, `auto` for the one this machine belongs to; None starts a Ray of
            its own on this machine, and ends it.
        workers: Items under way at most; None for as many as the cluster has room for.
    """

    def __init__(self, address: str | None = None, *, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers are 1 or more, not {workers}")
        self.workers = workers
        self._ray = import_ray()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _connect(self._ray, address, workers)

    def __enter__(self) -> RayBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the cluster, unless it was connected to before."""
        if self._is_ours:
            self._ray.shutdown()

    def room(self) -> int:
        """Items that can be at work now: a core each, `workers` at most."""
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return max(1, min(cores, self.workers or cores))

    def run(
        self, work: Callable[[Item], Given], items: Sequence[Item]
    ) -> Iterator[Outcome[Item, Given]]:
        """The outcomes of `work` over `items`, as they finish."""
        ray = self._ray
        # Ray gives a task that lost its worker out again by itself, so many times.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_there)
        shared, waiting = ray.put(work), iter(items)
        flying: dict[Any, Item] = {}
        try:
            while True:
                for item in _some(waiting, self._most() - len(flying)):
                    flying[task.remote(VERSION, shared, item)] = item
                if not flying:
                    return
                (done,), _ = ray.wait(list(flying), num_returns=1)
                item = flying.pop(done)
                yield self._outcome(done, item)
        finally:
            for waste in flying:
                ray.cancel(waste, force=True)

    def _most(self) -> int:
        return self.room() if self.workers else AHEAD * self.room()

    def _outcome(self, done: Any, item: Item) -> Outcome[Item, Given]:
        """What came of a task; a bug in it is raised here."""
        try:
            found = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            error.add_note(f"while working on {item}")
            raise
        except self._ray.exceptions.RayError as error:
            return lost(item, " ".join(str(error).split())[:200])
        if isinstance(found, VersionMismatch):
            raise found.complaint
        outcome: Outcome[Item, Given] = found
        return outcome


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
    _knock(address)
    try:
        ray.init(address=address, **choices)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        said = " ".join(str(error).split())[:300]
        raise BackendError(
            f"no Ray cluster at {address} that this machine can join ({said}); "
            "start one with `ray start --head`, or leave --address out"
        ) from error


def _knock(address: str) -> None:
    """Make sure somebody listens there: Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # `auto`, or a name that only Ray understands
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except OSError as error:
        raise BackendError(
            f"no Ray cluster at {address} ({error.strerror or error}); "
            "check the address, or start one with `ray start --head`"
        ) from error


def _some(waiting: Iterator[Item], most: int) -> Iterator[Item]:
    for _ in range(most):
        try:
            yield next(waiting)
        except StopIteration:
            return


def _there(
    version: str, work: Callable[[Item], Given], item: Item
) -> Outcome[Item, Given] | VersionMismatch:
    """On a worker: the outcome, if it runs what the driver runs."""
    if version != VERSION:
        return VersionMismatch(VERSION, platform.node())
    return attempt(work, item)
