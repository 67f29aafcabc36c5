"""The backend of a Ray cluster: tasks, as many under way as the cluster has room for.

Ray takes up the work of a lost worker or node by itself. Results are kilobytes and travel in the
task's own reply, not through the object store; at most two a core are under way, so neither the
driver nor the store grows with the number of items.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import dispatch
from earmark.captioning.limits import Limits, Tally
from earmark.captioning.request import Task
from earmark.distributed.ray_captioner import RayCaptioner
from earmark.distributed.ray_cluster import RayCluster, VersionMismatch
from earmark.distributed.worker_process import ATTEMPTS
from earmark.errors import BackendError, EarmarkError, internal_error
from earmark.ledger.run_calls import CallRecorder
from earmark.pipeline.backend import (
    Item,
    Outcomes,
    Value,
    attempt,
)
from earmark.pipeline.run_plan import BackendOptions
from earmark.version import VERSION

QUEUED = 2
"""Items under way for each core: one at work, one on its way."""


class RayBackend:
    """The workers of a Ray cluster: they listen, decode and ask."""

    shares_memory = False
    is_deferred = False

    def __init__(self, options: BackendOptions | None = None) -> None:
        """Join the cluster at `options.address`, or start a Ray of our own."""
        options = options or BackendOptions("ray")
        self.cluster = RayCluster(options.address, workers=options.workers)

    def close(self) -> None:
        """Let go of the cluster."""
        self.cluster.close()

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Send windows to the workers, which decode them and ask; several at a time."""
        remote = RayCaptioner(self.cluster, captioner, log, concurrency=limits.concurrency)
        with closing(remote):
            requests = (log.add(task).request for task in tasks)
            return dispatch(requests, remote, limits, log, tally=log.tally)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, as they finish."""
        ray = self.cluster.ray
        # Ray gives a task that lost its worker out again by itself, so many times.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_on_worker)
        shared, queue = ray.put(work), iter(items)
        in_flight: dict[Any, Item] = {}
        try:
            while True:
                for item in islice(queue, max(0, self._most() - len(in_flight))):
                    in_flight[task.remote(VERSION, shared, item)] = item
                if not in_flight:
                    return
                (done,), _ = ray.wait(list(in_flight), num_returns=1)
                item = in_flight.pop(done)
                yield self._outcome(done, item)
        finally:
            for waste in in_flight:
                ray.cancel(waste, force=True)

    def _most(self) -> int:
        room = self.cluster.room()
        return room if self.cluster.workers else QUEUED * room

    def _outcome(self, done: Any, item: Item) -> tuple[Item, Value | EarmarkError]:
        """What came of a task."""
        try:
            found = self.cluster.ray.get(done)
        except self.cluster.ray.exceptions.RayTaskError as error:
            return item, internal_error(item, error)
        except self.cluster.ray.exceptions.RayError as error:
            said = " ".join(str(error).split())[:200]
            lost = f"{item}: {ATTEMPTS} workers in a row were lost on it ({said})"
            return item, BackendError(f"{lost}; give each more memory")
        if isinstance(found, VersionMismatch):
            raise found.complaint
        outcome: tuple[Item, Value | EarmarkError] = found
        return outcome


def _on_worker(
    version: str, work: Callable[[Item], Value], item: Item
) -> tuple[Item, Value | EarmarkError] | VersionMismatch:
    """On a worker: the outcome, if it runs what the driver runs."""
    if version != VERSION:
        return VersionMismatch(VERSION, platform.node())
    return attempt(work, item)
