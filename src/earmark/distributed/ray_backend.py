"""The Ray backend: workers of a cluster listen, decode and call the model.

    driver   dispatch ──▶ RayCaptioner ──▶ a worker that has the recording open, or the least busy
    worker                                 decode ──▶ ask ──▶ answer, thumbnail
    driver   ledger   ◀───────────────────────────────────────────┘

`dispatch` on the driver bounds the calls in flight, retries, applies the caps and counts, so the
limits hold for the whole cluster. Ray restarts listening tasks of a lost worker or node by itself;
a worker lost during a call is replaced and its calls are made again. Results are kilobytes and come
in the task's own reply, not through the object store; at most two tasks per core are in flight, so
neither the driver nor the store grows with the number of items.
"""

from __future__ import annotations

import os
import platform
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from queue import LifoQueue
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import dispatch
from earmark.captioning.limits import Limits
from earmark.captioning.request import Answer, Request, Task
from earmark.captioning.usage import Tally
from earmark.distributed.worker_process import ATTEMPTS
from earmark.errors import (
    BackendError,
    CallError,
    CallRejected,
    CallTimeout,
    EarmarkError,
    MediaError,
    MissingExtra,
    ModelMissing,
    UnreadableFile,
    internal_error,
)
from earmark.ledger.records import PickFrames
from earmark.ledger.run_calls import CallRecorder
from earmark.media.prefetch import THREADS, FrameRequest, HeldRecordingDecoder
from earmark.pipeline.ask import show
from earmark.pipeline.backend import Item, Outcomes, Value, attempt
from earmark.pipeline.run_plan import BackendOptions
from earmark.version import VERSION

CONNECT_TIMEOUT = 5.0
"""Seconds within which the head of a cluster must accept a connection."""

TASKS_A_CORE = 2
"""Items in flight for each core: one running, one queued."""


class RayBackend:
    """Runs work on a Ray cluster: its workers listen, decode and call the model."""

    shares_memory = False
    is_deferred = False

    def __init__(self, options: BackendOptions | None = None) -> None:
        """Join the cluster at `options.address`, `auto` for the one this machine belongs to.

        Without an address Ray is started on this machine. `options.workers` bounds the items in
        flight; without, the cores of the cluster do.
        """
        options = options or BackendOptions("ray")
        try:
            import ray
        except ImportError as error:
            raise MissingExtra("a cluster needs Ray: pip install 'earmark[ray]'") from error
        self.ray: Any = ray
        self._workers = options.workers
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _connect(ray, options.address, options.workers)

    def close(self) -> None:
        """Disconnect, unless this process was connected before."""
        if self._is_own:
            self.ray.shutdown()

    def capacity(self) -> int:
        """Items that can run at once: one per core, as many as there are workers at most."""
        cores = int(self.ray.cluster_resources().get("CPU", 1))
        return max(1, min(cores, self._workers or cores))

    def ask(
        self, tasks: Iterator[Task], captioner: Captioner, limits: Limits, log: CallRecorder
    ) -> Tally:
        """Send windows to the workers, several at a time; they decode them and call the model."""
        remote = RayCaptioner(self, captioner, log, concurrency=limits.concurrency)
        with closing(remote):
            requests = (log.add(task).request for task in tasks)
            return dispatch(requests, remote, limits, log, tally=log.tally)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        """The outcomes of `work` over `items`, as they finish."""
        ray = self.ray
        # Ray itself restarts a task whose worker was lost, up to `max_retries` times.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(_run_on_worker)
        shared, queue = ray.put(work), iter(items)
        in_flight: dict[Any, Item] = {}
        try:
            while True:
                most = self.capacity() * (1 if self._workers else TASKS_A_CORE)
                for item in islice(queue, max(0, most - len(in_flight))):
                    in_flight[task.remote(VERSION, shared, item)] = item
                if not in_flight:
                    return
                (done,), _ = ray.wait(list(in_flight), num_returns=1)
                item = in_flight.pop(done)
                yield self._outcome(done, item)
        finally:
            for unfinished in in_flight:
                ray.cancel(unfinished, force=True)

    def _outcome(self, done: Any, item: Item) -> tuple[Item, Value | EarmarkError]:
        """The outcome of a finished task."""
        try:
            result = self.ray.get(done)
        except self.ray.exceptions.RayTaskError as error:
            return item, internal_error(item, error)
        except self.ray.exceptions.RayError as error:
            reason = " ".join(str(error).split())[:200]
            lost = f"{item}: {ATTEMPTS} workers in a row were lost on it ({reason})"
            return item, BackendError(f"{lost}; give each more memory")
        if isinstance(result, BackendError):
            raise result
        outcome: tuple[Item, Value | EarmarkError] = result
        return outcome


def _run_on_worker(
    version: str, work: Callable[[Item], Value], item: Item
) -> tuple[Item, Value | EarmarkError] | BackendError:
    """On a worker: the outcome, if driver and worker run the same version."""
    return _check_version(version) or attempt(work, item)


def _check_version(version: str) -> BackendError | None:
    """On a worker: the error for the driver to raise if it runs another `version` of earmark."""
    if version == VERSION:
        return None
    return BackendError(
        f"the worker on {platform.node()} runs earmark {VERSION} and this is {version}: "
        "install the same version on every machine of the cluster"
    )


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """A worker's reply for one window."""

    frames: PickFrames | None
    """None if the window could not be decoded."""
    outcome: Answer | CallError | MediaError


class WindowWorker:
    """On a worker: decodes windows and calls the model, several at a time."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._decoders: LifoQueue[HeldRecordingDecoder] = LifoQueue()
        """Idle decoders; their number bounds the windows decoded in parallel."""
        for _ in range(THREADS):
            self._decoders.put(HeldRecordingDecoder())

    def ask(self, version: str, task: Task, timeout: float) -> WorkerReply | BackendError:
        """The captioner's answer to `task`, or its error."""
        if mismatch := _check_version(version):
            return mismatch
        wanted = FrameRequest(task.recording, task.request.times)
        decode = self._decoders.get()
        try:
            result = decode(wanted)
        finally:
            self._decoders.put(decode)
        if result.failure:
            return WorkerReply(None, UnreadableFile(result.failure))
        try:
            row, request = show(task.request, result)
        except ModelMissing as error:
            return WorkerReply(None, CallRejected(str(error)))
        try:
            return WorkerReply(row, self._captioner(request, timeout=timeout))
        except CallError as error:
            return WorkerReply(row, error)


@dataclass(slots=True, eq=False)
class _RemoteWorker:
    """A worker as the driver sees it."""

    handle: Any
    calls: int = 0
    recording: str = ""
    """The recording of its last task, most likely still open."""


class RayCaptioner:
    """A captioner that runs on the workers of a cluster; requests need no frames."""

    def __init__(
        self, backend: RayBackend, captioner: Captioner, log: CallRecorder, *, concurrency: int
    ) -> None:
        """Run `captioner` on the workers; `log` has the tasks in flight and stores thumbnails."""
        self._backend = backend
        self._captioner = captioner
        self.model = captioner.model
        self._log = log
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._workers: list[_RemoteWorker] = []

    @property
    def at_once(self) -> int | None:
        """As many as one worker's captioner can, on every worker; None where it sets no limit."""
        each = self._captioner.at_once
        return each * self._backend.capacity() if each else None

    def check(self) -> None:
        """Raises if no call could succeed from here."""
        self._captioner.check()

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, from the least busy worker."""
        task = self._log.tasks[request.identity]
        reply = self._send(task, timeout)
        if reply.frames is not None:
            self._log.ledger.keep_frames(task.recording.key, reply.frames)
        if isinstance(reply.outcome, Answer):
            return reply.outcome
        raise reply.outcome

    def close(self) -> None:
        """Stop the workers."""
        for worker in self._workers:
            self._backend.ray.kill(worker.handle)
        self._workers.clear()

    def _send(self, task: Task, timeout: float) -> WorkerReply:
        ray = self._backend.ray
        for _ in range(ATTEMPTS):
            worker = self._choose_worker(task.recording.key)
            try:
                result = ray.get(worker.handle.ask.remote(VERSION, task, timeout))
            except ray.exceptions.RayActorError:
                with self._lock:
                    self._workers = [each for each in self._workers if each is not worker]
                continue
            finally:
                with self._lock:
                    worker.calls -= 1
            if isinstance(result, BackendError):
                raise result
            reply: WorkerReply = result
            return reply
        raise CallTimeout(f"{ATTEMPTS} workers in a row were lost while they asked")

    def _choose_worker(self, recording: str) -> _RemoteWorker:
        """The least busy worker; among several, the one that has the recording open."""
        with self._lock:
            self._start_workers()
            worker = min(self._workers, key=lambda each: (each.calls, each.recording != recording))
            worker.calls += 1
            worker.recording = recording
            return worker

    def _start_workers(self) -> None:
        """Start workers: one per core, at least one, and no more than concurrent calls."""
        wanted = max(1, min(self._backend.capacity(), self._concurrency))
        if len(self._workers) >= wanted:
            return
        ray = self._backend.ray
        actor = ray.remote(
            num_cpus=1, max_concurrency=self._concurrency, scheduling_strategy="SPREAD"
        )(WindowWorker)
        captioner = ray.put(self._captioner)
        while len(self._workers) < wanted:
            self._workers.append(_RemoteWorker(actor.remote(captioner)))


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    choices: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told of a cluster of ours
        ray.init(num_cpus=workers, include_dashboard=False, **choices)
        return
    _check_port(address)
    try:
        ray.init(address=address, **choices)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        reason = " ".join(str(error).split())[:300]
        raise BackendError(
            f"no Ray cluster at {address} that this machine can join ({reason}); "
            "start one with `ray start --head`, or leave --address out"
        ) from error


def _check_port(address: str) -> None:
    """Raises if nothing listens at `address`: Ray itself would try for minutes."""
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
