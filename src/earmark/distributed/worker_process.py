"""Worker processes with one item at a time; killed if they hang or use too much memory.

items ──▶ queue ──▶ [worker]──▶ outcome       a worker that is lost is replaced, and its item
             ▲          │                     given to another
             └──────────┘
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
from typing import Any, cast

from earmark.errors import BackendError, internal_error
from earmark.media.child_process import start_process
from earmark.pipeline.backend import attempt

ATTEMPTS = 3
"""Attempts at an item: one that costs three workers is not tried on a fourth."""

MEMORY_SHARE = 0.8
"""Share of the machine's memory that all workers together may use."""

CHECK_INTERVAL = 1.0
"""Seconds between two checks of the deadlines and the memory of the workers."""

READY = ("ready",)
"""Sent by a worker once it has started: its deadline counts from then."""

_ItemOutcome = tuple[Any, ...]
"""An item with its outcome."""


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    connection: Connection[Any, Any]
    work: Callable[[Any], Any] | None = None
    """The function it has received."""
    place: int = -1
    """Index of its current item."""
    ends_at: float = math.inf
    """When it will be killed, on the monotonic clock; start-up is not counted."""
    is_ready: bool = False
    kill_reason: str = ""
    """Why this process killed it; empty if it did not."""


class WorkerProcesses:
    """Distributes items over processes, from the calling thread."""

    def __init__(self, count: int, deadline: float, *, others: int = 0) -> None:
        """Start `count` processes; `others` more share the memory."""
        self._count = count
        self._deadline = deadline
        self._memory_limit_bytes = MEMORY_SHARE * _machine_bytes() / (count + others)
        self._busy: dict[Connection[Any, Any], _Worker] = {}
        self._idle: list[_Worker] = []
        self._needs_script = False
        """Whether the processes import the user's script before they are ready."""

    def run(self, work: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[_ItemOutcome]:
        """Each of `items` with its outcome, as they finish."""
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
            wanted = min(self._count - len(self._busy), len(queue))
            self._idle += [
                _start(needs_script) for _ in range(wanted - len(self._idle))
            ]  # they start in parallel
            for _ in range(wanted):
                self._assign(self._idle.pop(0), work, queue.popleft(), items)
            for connection in cast(
                "list[Connection[Any, Any]]", wait(list(self._busy), CHECK_INTERVAL)
            ):
                worker = self._busy[connection]
                outcome = _receive(worker)
                if outcome == READY:
                    worker.is_ready, worker.ends_at = True, time.monotonic() + self._deadline
                    continue
                del self._busy[connection]
                if outcome is not None and queue:
                    self._assign(worker, work, queue.popleft(), items)
                elif outcome is not None:
                    self._idle.append(worker)
                else:
                    attempts[worker.place] += 1
                    if not worker.kill_reason and attempts[worker.place] < ATTEMPTS:
                        queue.appendleft(worker.place)
                        continue
                    outcome = _lost_outcome(items[worker.place], worker, needs_script)
                yield outcome
            if time.monotonic() - last_check >= CHECK_INTERVAL:
                self._kill_overdue()
                last_check = time.monotonic()

    def _kill_overdue(self) -> None:
        """Kill workers past their deadline or memory limit; their items are not tried again."""
        for worker in self._busy.values():
            used_bytes = _resident_bytes(worker.process.pid or 0)
            if used_bytes > self._memory_limit_bytes:
                worker.kill_reason = f"it took {used_bytes / 1e9:.1f} GB of memory"
            elif time.monotonic() > worker.ends_at:
                worker.kill_reason = f"it was not finished after {self._deadline:g} s"
            if worker.kill_reason:
                worker.process.kill()

    def _assign(
        self, worker: _Worker, work: Callable[[Any], Any], place: int, items: Sequence[Any]
    ) -> None:
        worker.place = place
        if worker.is_ready:
            worker.ends_at = time.monotonic() + self._deadline
        new_work, worker.work = None if worker.work is work else work, work
        with suppress(BrokenPipeError):  # it is lost already: reading its connection says so
            worker.connection.send((new_work, items[place]))
        self._busy[worker.connection] = worker

    def _kill_busy(self) -> None:
        """Kill the workers that are busy: nobody waits for their items any more."""
        for worker in self._busy.values():
            worker.process.kill()
            _release(worker)
        self._busy.clear()

    def close(self) -> None:
        """End all processes."""
        self._kill_busy()
        while self._idle:
            _release(self._idle.pop())


def _lost_outcome(item: Any, worker: _Worker, needs_script: bool) -> _ItemOutcome:
    """The error of an item whose worker was killed, or that cost `ATTEMPTS` workers."""
    code = worker.process.exitcode or 0
    ending = f"killed by signal {-code}" if code < 0 else f"ended with code {code}"
    advice = "give each more memory" if code == -signal.SIGKILL else "see what it printed"
    if not worker.is_ready and needs_script:
        advice = 'guard what your script does by `if __name__ == "__main__":`'
    elif not worker.is_ready:
        advice = (
            "no process could be started: see what it printed, or work in this one (--workers 1)"
        )
    lost = f"{ATTEMPTS} workers in a row were lost on it ({ending}); {advice}"
    reason = worker.kill_reason or lost
    return item, BackendError(f"{item}: {reason}")


def _resident_bytes(process: int) -> int:
    """Resident memory of a process; 0 if the system does not report it."""
    try:
        pages = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _machine_bytes() -> int:
    """Memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _start(needs_script: bool) -> _Worker:
    ours, theirs = Pipe()
    process = start_process(_worker_main, theirs, needs_script=needs_script)
    theirs.close()
    return _Worker(process, ours)


def _receive(worker: _Worker) -> _ItemOutcome | None:
    """The message of a worker; None if the worker is lost."""
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
    """The main function of a worker; ends when its connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent process
    work: Callable[[Any], Any] | None = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        connection.send(READY)
        while True:
            new_work, item = connection.recv()
            work = new_work or work
            assert work is not None, "it comes with the first item"
            outcome = attempt(work, item)
            try:
                connection.send(outcome)
            except (pickle.PickleError, TypeError, AttributeError) as error:  # it cannot be pickled
                connection.send((item, internal_error(item, error)))
