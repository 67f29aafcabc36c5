"""The Ray backend: workers of a cluster listen, decode and call the model.

    driver   dispatch ──▶ RayCaptioner ──▶ a worker that has the recording open, or the least busy
    worker                                 decode ──▶ ask ──▶ answer, thumbnail
    driver   run      ◀───────────────────────────────────────────┘

`dispatch` on the driver bounds the calls in flight, retries, applies the caps and counts, so the
limits hold for the whole cluster. A worker that is lost or overdue during a call is replaced; its
call counts as an attempt and is made again. Results are kilobytes and come in the task's own reply,
and at most two tasks per core are in flight, so neither the driver nor the store grows with the
number of items.
"""

from __future__ import annotations

import os
import platform
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from queue import LifoQueue
from tempfile import gettempdir
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import Tally, dispatch
from earmark.captioning.request import Answer, Request, Task
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
from earmark.media.prefetch import THREADS, FrameRequest, HeldRecordingDecoder
from earmark.pipeline.backend import Item, OnSeconds, Outcomes, Value, attempt, show
from earmark.run.records import PickFrames
from earmark.run.tasks import CallRecorder
from earmark.settings import Workers
from earmark.version import VERSION
from earmark.workers.worker_pool import ATTEMPTS, DECODING_DEADLINE

CONNECT_TIMEOUT = 5.0

DECODE_ALLOWANCE = DECODING_DEADLINE
"""Seconds, beyond the timeout of the call. Under load Ray can lose a call, and would have the
driver wait for its reply for ever.
"""

TASKS_A_CORE = 2


class RayBackend:
    on_seconds: OnSeconds | None = None
    """Not told: a recording counts when it is done."""

    def __init__(self, options: Workers | None = None) -> None:
        """Without an address Ray is started on this machine; `auto` joins its cluster."""
        options = options or Workers(engine="ray")
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
        if self._is_own:
            self.ray.shutdown()

    def capacity(self) -> int:
        cores = int(self.ray.cluster_resources().get("CPU", 1))
        return max(1, min(cores, self._workers or cores))

    def ask(self, tasks: Iterator[Task], captioner: Captioner, log: CallRecorder) -> Tally:
        with closing(RayCaptioner(self, captioner, log)) as remote:
            requests = (log.add(task).request for task in tasks)
            return dispatch(requests, remote, log.limits, log, tally=log.tally)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
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
                ray.cancel(unfinished)  # by force, Ray itself may crash

    def _outcome(self, done: Any, item: Item) -> tuple[Item, Value | EarmarkError]:
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
    return _check_version(version) or attempt(work, item)


def _check_version(version: str) -> BackendError | None:
    if version == VERSION:
        return None
    return BackendError(
        f"the worker on {platform.node()} runs earmark {VERSION} and this is {version}: "
        "install the same version on every machine of the cluster"
    )


WorkerReply = tuple[PickFrames | None, Answer | CallError | MediaError]


class WindowWorker:
    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._decoders: LifoQueue[HeldRecordingDecoder] = LifoQueue()
        for _ in range(THREADS):
            self._decoders.put(HeldRecordingDecoder())

    def ask(self, version: str, task: Task, timeout: float) -> WorkerReply | BackendError:
        if mismatch := _check_version(version):
            return mismatch
        decoder = self._decoders.get()
        try:
            decoded = decoder(FrameRequest(task.recording, task.request.times))
        finally:
            self._decoders.put(decoder)
        if decoded.failure:
            return None, UnreadableFile(decoded.failure)
        try:
            frames, request = show(task.request, decoded)
        except ModelMissing as error:
            return None, CallRejected(str(error))
        try:
            return frames, self._captioner(request, timeout=timeout)
        except CallError as error:
            return frames, error


@dataclass(slots=True, eq=False)
class _RemoteWorker:
    handle: Any
    calls: int = 0
    recording: str = ""


class RayCaptioner:
    def __init__(self, backend: RayBackend, captioner: Captioner, log: CallRecorder) -> None:
        self._backend = backend
        self._captioner = captioner
        self.model = captioner.model
        self._log = log
        self._lock = threading.Lock()
        self._workers: list[_RemoteWorker] = []

    @property
    def at_once(self) -> int | None:
        per_worker = self._captioner.at_once
        return per_worker * self._backend.capacity() if per_worker else None

    def check(self) -> None:
        self._captioner.check()

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        task = self._log.tasks[request.identity]
        frames, outcome = self._send(task, timeout)
        if frames is not None:
            self._log.run.keep_frames(task.recording.id, frames)
        if isinstance(outcome, Answer):
            return outcome
        raise outcome

    def close(self) -> None:
        for worker in self._workers:
            self._backend.ray.kill(worker.handle)
        self._workers.clear()

    def _send(self, task: Task, timeout: float) -> WorkerReply:
        ray = self._backend.ray
        worker = self._choose_worker(task.recording.key)
        reply_ref = worker.handle.ask.remote(VERSION, task, timeout)
        try:
            result = ray.get(reply_ref, timeout=timeout + DECODE_ALLOWANCE)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            self._discard(worker)
            lost = "its worker was lost or did not answer in time"
            raise CallTimeout(lost, was_sent=True) from error
        finally:
            with self._lock:
                worker.calls -= 1
        if isinstance(result, BackendError):
            raise result
        reply: WorkerReply = result
        return reply

    def _discard(self, worker: _RemoteWorker) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)
                self._backend.ray.kill(worker.handle)

    def _choose_worker(self, recording: str) -> _RemoteWorker:
        with self._lock:
            self._start_workers()
            worker = min(
                self._workers, key=lambda worker: (worker.calls, worker.recording != recording)
            )
            worker.calls += 1
            worker.recording = recording
            return worker

    def _start_workers(self) -> None:
        concurrency = self._log.limits.concurrency
        count = max(1, min(self._backend.capacity(), concurrency))
        if len(self._workers) >= count:
            return
        ray = self._backend.ray
        actor = ray.remote(num_cpus=1, max_concurrency=concurrency, scheduling_strategy="SPREAD")(
            WindowWorker
        )
        captioner = ray.put(self._captioner)
        while len(self._workers) < count:
            self._workers.append(_RemoteWorker(actor.remote(captioner)))


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    choices: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # `local`, as without an address Ray joins the last cluster of this machine, if it has ended
        # or not.
        choices |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    else:
        _check_port(address)
        choices["address"] = address
    try:
        with redirect_stdout(sys.stderr):  # which is for results, and Ray prints
            ray.init(**choices)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        if address is None:
            raise
        reason = " ".join(str(error).split())[:300]
        raise BackendError(
            f"no Ray cluster at {address} that this machine can join ({reason}); "
            "start one with `ray start --head`, or leave out the address"
        ) from error


def _check_port(address: str) -> None:
    """Ray itself would try for minutes."""
    if address == "auto":  # as Ray finds it; the file outlives a cluster that is killed
        file = Path(os.environ.get("RAY_TMPDIR", gettempdir()), "ray", "ray_current_cluster")
        last = file.read_text(encoding="utf-8").strip() if file.exists() else ""
        address = os.environ.get("RAY_ADDRESS") or last
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        return  # there is no cluster, or it is a name that only Ray understands
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT).close()
    except OSError as error:
        raise BackendError(
            f"no Ray cluster at {address} ({error.strerror or error}); "
            "check the address, or start one with `ray start --head`"
        ) from error
