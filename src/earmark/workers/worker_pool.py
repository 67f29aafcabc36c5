"""The local backend: worker processes listen and decode, this process calls the model.

    items ──▶ queue ──▶ [worker]──▶ outcome
                 ▲          │
                 └──────────┘

A worker that hangs or takes too much memory is killed. The item of one that is lost is given to
another.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from earmark.errors import BackendError, EarmarkError, InternalError, internal_error
from earmark.media.child_process import cores, start_process
from earmark.media.prefetch import THREADS, DecodedFrames, FrameRequest, HeldRecordingDecoder
from earmark.media.recording import Recording
from earmark.pipeline.backend import (
    InProcessBackend,
    Item,
    OnSeconds,
    Outcomes,
    Value,
    attempt,
    seconds_told_to,
)
from earmark.settings import Workers

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.captioning.dispatch import Tally
    from earmark.captioning.request import Task
    from earmark.run.tasks import CallRecorder

DEADLINE = 1800.0
"""Seconds for one item; ten hours of sound take 100 on a slow core."""

DECODING_DEADLINE = 600.0
"""Seconds for one window; from a key frame ten minutes before it, 4K takes that on a slow core."""

ATTEMPTS = 3
"""An item that costs three workers is not tried on a fourth."""

MEMORY_SHARE = 0.8
"""Of the machine's memory, for all workers together."""

CHECK_INTERVAL = 1.0

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

READY = "ready"
"""Sent by a worker once it has started: its deadline counts from then."""


SECONDS = "seconds"
"""First of a message that says how far the recording at work is."""

SECONDS_INTERVAL = 0.5


class WorkerPool(InProcessBackend):
    """Processes of this machine listen and decode; with one worker, all is in this one.

    The listening processes are kept from one `map` to the next, and ended before the calls, which
    may take hours and do not need them.
    """

    def __init__(self, options: Workers, *, deadline: float = DEADLINE) -> None:
        self.workers = options.workers or cores()
        self.open_decoder = DecoderProcess if self.workers > 1 else None
        self._workers = WorkerProcesses(self.workers, deadline)

    def map(self, work: Callable[[Item], Value], items: Sequence[Item]) -> Outcomes[Item, Value]:
        if min(self.workers, len(items)) <= 1:
            return super().map(work, items)
        return self._workers.run(work, items, self.on_seconds)

    def ask(self, tasks: Iterator[Task], captioner: Captioner, log: CallRecorder) -> Tally:
        self.close()
        return super().ask(tasks, captioner, log)

    def close(self) -> None:
        self._workers.close()


class DecoderProcess:
    """A decoder in its own process: a crash, hang or excess of memory fails only that window.

    Further windows of a recording on which it was lost fail without another attempt.
    """

    def __init__(self, deadline: float = DECODING_DEADLINE) -> None:
        self._processes = WorkerProcesses(1, deadline, others=THREADS - 1)
        self._decoder = HeldRecordingDecoder()
        self._lost: dict[Recording, str] = {}

    def __call__(self, request: FrameRequest) -> DecodedFrames:
        if failure := self._lost.get(request.recording):
            return DecodedFrames([], failure=failure)
        ((_, outcome),) = self._processes.run(self._decoder, [request])
        if isinstance(outcome, BackendError):
            self._lost[request.recording] = str(outcome)
        if isinstance(outcome, BackendError | InternalError):
            return DecodedFrames([], failure=str(outcome))
        if isinstance(outcome, EarmarkError):
            raise outcome
        frames: DecodedFrames = outcome
        return frames

    def close(self) -> None:
        self._processes.close()


_ItemOutcome = tuple[Any, ...]


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection[Any, Any]
    work: Callable[[Any], Any] | None = None
    position: int = -1
    ends_at: float = math.inf
    """On the monotonic clock; start-up is not counted."""
    is_ready: bool = False
    kill_reason: str = ""


class WorkerProcesses:
    def __init__(self, count: int, deadline: float, *, others: int = 0) -> None:
        self._count = count
        self._deadline = deadline
        self._memory_limit_bytes = MEMORY_SHARE * _machine_bytes() / (count + others)
        self._busy: dict[Connection[Any, Any], _Worker] = {}
        self._idle: list[_Worker] = []
        self._needs_script = False
        self._on_seconds: OnSeconds = lambda *_: None

    def run(
        self,
        work: Callable[[Any], Any],
        items: Sequence[Any],
        on_seconds: OnSeconds | None = None,
    ) -> Iterator[_ItemOutcome]:
        self._on_seconds = on_seconds or (lambda *_: None)
        try:
            yield from self._run(work, items)
        finally:
            self._kill_busy()

    def _run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[_ItemOutcome]:
        needs_script = b"__main__" in pickle.dumps(work)
        if needs_script != self._needs_script:
            self.close()
            self._needs_script = needs_script
        queue = deque(range(len(items)))
        attempts = [0] * len(items)
        last_check = time.monotonic()
        while queue or self._busy:
            assignable = min(self._count - len(self._busy), len(queue))
            missing = assignable - len(self._idle)
            self._idle += [_start(needs_script) for _ in range(missing)]  # they start in parallel
            for _ in range(assignable):
                self._assign(self._idle.pop(0), work, queue.popleft(), items)
            for connection in cast(
                "list[Connection[Any, Any]]", wait(list(self._busy), CHECK_INTERVAL)
            ):
                worker = self._busy[connection]
                outcome = _receive(worker)
                if outcome and outcome[0] in (READY, SECONDS):
                    self._note(worker, *outcome)
                    continue
                del self._busy[connection]
                if outcome is not None and queue:
                    self._assign(worker, work, queue.popleft(), items)
                elif outcome is not None:
                    self._idle.append(worker)
                else:
                    attempts[worker.position] += 1
                    if not worker.kill_reason and attempts[worker.position] < ATTEMPTS:
                        queue.appendleft(worker.position)
                        continue
                    outcome = _lost_outcome(items[worker.position], worker, needs_script)
                yield outcome
            if time.monotonic() - last_check >= CHECK_INTERVAL:
                self._kill_overdue()
                last_check = time.monotonic()

    def _note(self, worker: _Worker, kind: str, *seconds: Any) -> None:
        if kind == READY:
            worker.is_ready, worker.ends_at = True, time.monotonic() + self._deadline
        else:
            self._on_seconds(*seconds)

    def _kill_overdue(self) -> None:
        for worker in self._busy.values():
            used_bytes = _resident_bytes(worker.process.pid or 0)
            if used_bytes > self._memory_limit_bytes:
                worker.kill_reason = f"it took {used_bytes / 1e9:.1f} GB of memory"
            elif time.monotonic() > worker.ends_at:
                worker.kill_reason = f"it was not finished after {self._deadline:g} s"
            if worker.kill_reason:
                worker.process.kill()

    def _assign(
        self, worker: _Worker, work: Callable[[Any], Any], position: int, items: Sequence[Any]
    ) -> None:
        worker.position = position
        if worker.is_ready:
            worker.ends_at = time.monotonic() + self._deadline
        new_work, worker.work = None if worker.work is work else work, work
        with suppress(BrokenPipeError):  # it is lost already: reading its connection says so
            worker.connection.send((new_work, items[position]))
        self._busy[worker.connection] = worker

    def _kill_busy(self) -> None:
        for worker in self._busy.values():
            worker.process.kill()
            _release(worker)
        self._busy.clear()

    def close(self) -> None:
        self._kill_busy()
        while self._idle:
            _release(self._idle.pop())


def _lost_outcome(item: Any, worker: _Worker, needs_script: bool) -> _ItemOutcome:
    code = worker.process.exitcode or 0
    ending = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
    advice = "give each more memory" if code == -signal.SIGKILL else "see what it printed"
    if not worker.is_ready and needs_script:
        advice = 'guard what your script does by `if __name__ == "__main__":`'
    elif not worker.is_ready:
        advice = (
            "no process could be started: see what it printed, or work in this one (`workers` = 1)"
        )
    lost = f"{ATTEMPTS} workers in a row were lost on it ({ending}); {advice}"
    reason = worker.kill_reason or lost
    return item, BackendError(f"{item}: {reason}")


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES


def _resident_bytes(process: int) -> int:
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * PAGE_BYTES


def _start(needs_script: bool) -> _Worker:
    ours, theirs = Pipe()
    process = start_process(_worker_main, theirs, needs_script=needs_script)
    theirs.close()
    return _Worker(process, ours)


def _receive(worker: _Worker) -> _ItemOutcome | None:
    try:
        outcome: _ItemOutcome = worker.connection.recv()
    except (EOFError, OSError):  # the latter in the middle of a message
        _release(worker)
        return None
    return outcome


def _release(worker: _Worker) -> None:
    worker.connection.close()
    worker.process.join()


def _worker_main(connection: Connection[Any, Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    work: Callable[[Any], Any] | None = None
    told_at = 0.0

    def tell(name: str, now: float, total: float) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= SECONDS_INTERVAL:
            told_at = time.monotonic()
            connection.send((SECONDS, name, now, total))

    with suppress(EOFError, BrokenPipeError, ConnectionResetError), seconds_told_to(tell):
        connection.send((READY,))
        while True:
            new_work, item = connection.recv()
            work = new_work or work
            assert work is not None, "it comes with the first item"
            outcome = attempt(work, item)
            try:
                connection.send(outcome)
            except (pickle.PickleError, TypeError, AttributeError) as error:  # it cannot be pickled
                connection.send((item, internal_error(item, error)))
