"""Looking and asking on a cluster: a window goes out, an answer and a thumbnail come back.

    driver   ask_all ──▶ RayCaptioner ──▶ a seer that has the recording open, or the least busy one
    worker                                decode ──▶ ask ──▶ answer, thumbnail
    driver   ledger  ◀───────────────────────────────────────────┘

What bounds the calls in flight, retries, caps and books is `ask_all` on the driver, so the bound
holds over the whole cluster. A seer that is lost is replaced and its calls are asked again.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

from earmark.captioning import Answer, Captioner, Request
from earmark.distributed.backend import ATTEMPTS
from earmark.distributed.ray_backend import RayBackend, VersionMismatch, import_ray
from earmark.errors import CallError, CallTimeout, MediaError, UnreadableFile
from earmark.ledger import Ledger, PickFrames
from earmark.media.prefetch import DecoderPool, FrameRequest
from earmark.pipeline.caption import frames_of
from earmark.pipeline.question import Task
from earmark.version import VERSION


@dataclass(frozen=True, slots=True)
class Asked:
    """What a worker sends back about one window."""

    look: PickFrames | None
    """None where the window could not be decoded."""
    outcome: Answer | CallError | MediaError


class WindowWorker:
    """On a worker: decodes windows and asks about them, several at a time."""

    def __init__(self, captioner: Captioner) -> None:
        self._captioner = captioner
        self._decoders = DecoderPool()

    def ask(self, version: str, task: Task, timeout: float) -> Asked | VersionMismatch:
        """What the captioner says of `task`."""
        if version != VERSION:
            return VersionMismatch(VERSION, platform.node())
        seen = self._decoders.submit(FrameRequest(task.recording, task.request.times)).result()
        if not seen.frames:
            return Asked(None, UnreadableFile(seen.failure))
        look = frames_of(task, seen)
        try:
            return Asked(look, self._captioner(task.request.showing(seen.frames), timeout=timeout))
        except CallError as error:
            return Asked(look, error)


@dataclass(slots=True, eq=False)
class _Post:
    """A seer as the driver sees it."""

    handle: Any
    calls: int = 0
    recording: str = ""
    """The last one it was sent to look at, so most likely open."""


class RayCaptioner:
    """A captioner that looks and asks on the workers of a cluster.

    Give it to a `Job` in place of `captioner`, and its `show` as `look` to `caption`.
    """

    def __init__(self, engine: RayBackend, captioner: Captioner, *, concurrency: int) -> None:
        self._engine = engine
        self._captioner = captioner
        self._concurrency = concurrency
        self._turn = threading.Lock()
        self._posts: list[_Post] = []
        self._tasks: dict[str, tuple[Task, Ledger]] = {}
        """By identity, those that may still be asked."""

    @property
    def model(self) -> str:
        """The captioner's own."""
        return self._captioner.model

    @property
    def at_once(self) -> int | None:
        """As many as one worker's captioner can, on every worker."""
        each = self._captioner.at_once
        return None if each is None else each * self._engine.room()

    def check(self) -> None:
        """Raises if no call could succeed from here."""
        self._captioner.check()

    def show(
        self, tasks: Iterable[Task], ledger: Ledger, unseen: Callable[[Task, str], None]
    ) -> Generator[Request, None, None]:
        """The requests without frames: the workers add them."""
        del unseen  # a window that cannot be decoded comes back as the error of its call
        for task in tasks:
            self._tasks[task.request.identity] = task, ledger
            yield task.request

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`, from whichever worker has room."""
        task, ledger = self._tasks[request.identity]
        asked = self._send(task, timeout)
        if asked.look is not None:
            ledger.keep_frames(task.recording.key, asked.look)
        if not isinstance(asked.outcome, CallTimeout):  # after which it may be asked again
            del self._tasks[request.identity]
        if isinstance(asked.outcome, Answer):
            return asked.outcome
        raise asked.outcome

    def close(self) -> None:
        """Let the workers go."""
        for post in self._posts:
            import_ray().kill(post.handle)
        self._posts.clear()

    def _send(self, task: Task, timeout: float) -> Asked:
        ray = import_ray()
        for _ in range(ATTEMPTS):
            post = self._take(task.recording.key)
            try:
                found = ray.get(post.handle.ask.remote(VERSION, task, timeout))
            except ray.exceptions.RayActorError:
                self._lose(post)
                continue
            finally:
                with self._turn:
                    post.calls -= 1
            if isinstance(found, VersionMismatch):
                raise found.complaint
            asked: Asked = found
            return asked
        raise CallTimeout(f"{ATTEMPTS} workers in a row were lost while they asked")

    def _take(self, recording: str) -> _Post:
        """The least busy seer, the one that has the recording open if there are several."""
        with self._turn:
            self._fill()
            post = min(self._posts, key=lambda post: (post.calls, post.recording != recording))
            post.calls += 1
            post.recording = recording
            return post

    def _fill(self) -> None:
        """A seer a core, at least one, and no more than there are calls."""
        wanted = min(self._engine.room(), self._concurrency)
        if len(self._posts) >= max(1, wanted):
            return
        ray = import_ray()
        seer = ray.remote(
            num_cpus=1, max_concurrency=self._concurrency, scheduling_strategy="SPREAD"
        )(WindowWorker)
        captioner = ray.put(self._captioner)
        while len(self._posts) < max(1, wanted):
            self._posts.append(_Post(seer.remote(captioner)))

    def _lose(self, post: _Post) -> None:
        with self._turn:
            if post in self._posts:
                self._posts.remove(post)
