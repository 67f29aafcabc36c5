"""Decoding and asking on a cluster: a window goes out, an answer and a thumbnail come back.

    driver   dispatch ──▶ RayCaptioner ──▶ a worker that has the recording open, or the least busy
    worker                                 decode ──▶ ask ──▶ answer, thumbnail
    driver   ledger   ◀───────────────────────────────────────────┘

What bounds the calls in flight, retries, caps and counts is `dispatch` on the driver, so the bound
holds over the whole cluster. A worker that is lost is replaced and its calls are asked again.
"""

from __future__ import annotations

import platform
import threading
from dataclasses import dataclass
from typing import Any

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request, Task
from earmark.distributed.ray_cluster import RayCluster, VersionMismatch
from earmark.distributed.worker_process import ATTEMPTS
from earmark.errors import (
    CallError,
    CallRejected,
    CallTimeout,
    MediaError,
    ModelMissing,
    UnreadableFile,
)
from earmark.ledger.records import PickFrames
from earmark.ledger.run_calls import CallRecorder
from earmark.media.prefetch import DecoderPool, FrameRequest
from earmark.version import VERSION


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What a worker sends back about one window."""

    frames: PickFrames | None
    """None where the window could not be decoded."""
    outcome: Answer | CallError | MediaError


class WindowWorker:
    """On a worker: decodes windows and asks about them, several at a time."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._decoders = DecoderPool()

    def ask(self, version: str, task: Task, timeout: float) -> WorkerReply | VersionMismatch:
        """What the captioner says of `task`."""
        if version != VERSION:
            return VersionMismatch(VERSION, platform.node())
        wanted = FrameRequest(task.recording, task.request.times)
        found = self._decoders.submit(wanted).result()
        if found.failure:
            return WorkerReply(None, UnreadableFile(found.failure))
        try:
            request = task.request.showing(found.frames)
        except ModelMissing as error:
            return WorkerReply(None, CallRejected(str(error)))
        row = PickFrames.of(request, found)
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
    """The last one it was sent to look at, so most likely open."""


class RayCaptioner:
    """A captioner that decodes and asks on the workers of a cluster; requests need no frames."""

    def __init__(
        self, cluster: RayCluster, captioner: Captioner, log: CallRecorder, *, concurrency: int
    ) -> None:
        """Ask `captioner` on the workers; `log` knows the tasks in flight, and keeps thumbnails."""
        self._cluster = cluster
        self._captioner = captioner
        self._log = log
        self._concurrency = concurrency
        self._lock = threading.Lock()
        self._workers: list[_RemoteWorker] = []

    @property
    def model(self) -> str:
        """The captioner's own."""
        return self._captioner.model

    @property
    def at_once(self) -> int | None:
        """As many as one worker's captioner can, on every worker."""
        each = self._captioner.at_once
        return None if each is None else each * self._cluster.room()

    def check(self) -> None:
        """Raises if no call could succeed from here."""
        self._captioner.check()

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, from whichever worker has room."""
        task = self._log.tasks[request.identity]
        reply = self._send(task, timeout)
        if reply.frames is not None:
            self._log.ledger.keep_frames(task.recording.key, reply.frames)
        if isinstance(reply.outcome, Answer):
            return reply.outcome
        raise reply.outcome

    def close(self) -> None:
        """Let the workers go."""
        for worker in self._workers:
            self._cluster.ray.kill(worker.handle)
        self._workers.clear()

    def _send(self, task: Task, timeout: float) -> WorkerReply:
        ray = self._cluster.ray
        for _ in range(ATTEMPTS):
            worker = self._take(task.recording.key)
            try:
                found = ray.get(worker.handle.ask.remote(VERSION, task, timeout))
            except ray.exceptions.RayActorError:
                self._lose(worker)
                continue
            finally:
                with self._lock:
                    worker.calls -= 1
            if isinstance(found, VersionMismatch):
                raise found.complaint
            reply: WorkerReply = found
            return reply
        raise CallTimeout(f"{ATTEMPTS} workers in a row were lost while they asked")

    def _take(self, recording: str) -> _RemoteWorker:
        """The least busy worker, the one that has the recording open if there are several."""
        with self._lock:
            self._fill()
            worker = min(self._workers, key=lambda each: (each.calls, each.recording != recording))
            worker.calls += 1
            worker.recording = recording
            return worker

    def _fill(self) -> None:
        """A worker a core, at least one, and no more than there are calls."""
        wanted = max(1, min(self._cluster.room(), self._concurrency))
        if len(self._workers) >= wanted:
            return
        ray = self._cluster.ray
        kind = ray.remote(
            num_cpus=1, max_concurrency=self._concurrency, scheduling_strategy="SPREAD"
        )(WindowWorker)
        captioner = ray.put(self._captioner)
        while len(self._workers) < wanted:
            self._workers.append(_RemoteWorker(kind.remote(captioner)))

    def _lose(self, worker: _RemoteWorker) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)
