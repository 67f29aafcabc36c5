"""The engine of one machine: processes, each with one item at a time.

items ──▶ waiting ──▶ [process]──▶ outcome        a process that ends without an outcome
             ▲           │                        took its item with it: another gets it
             └───────────┘
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, cast

from earmark.distributed.backend import ATTEMPTS, Given, Item, Outcome, attempt, lost

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries behind NumPy read; Ray sets the second for its workers likewise."""


def cores() -> int:
    """Cores this process may use."""
    with suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class WorkerPool:
    """Processes of this machine; with one worker, or one item, this very process."""

    workers: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers are 1 or more, not {self.workers}")

    def run(
        self, work: Callable[[Item], Given], items: Sequence[Item]
    ) -> Iterator[Outcome[Item, Given]]:
        """The outcomes of `work` over `items`, as they finish."""
        if min(self.workers, len(items)) <= 1:
            for item in items:
                yield attempt(work, item)
            return
        crew = _Workers(work, min(self.workers, len(items)))
        try:
            yield from crew.go(items)
        finally:
            crew.close()


@dataclass(slots=True, eq=False)
class _Worker:
    process: SpawnProcess
    line: Connection[Any, Any]
    place: int = -1
    """Of the item it is at."""


class _Workers:
    """Keeps the processes busy; all of it in the calling thread."""

    def __init__(self, work: Callable[[Any], Any], most: int) -> None:
        self._work = work
        self._most = most
        self._busy: dict[Connection[Any, Any], _Worker] = {}

    def go(self, items: Sequence[Any]) -> Iterator[Outcome[Any, Any]]:
        waiting = deque(range(len(items)))
        attempts = [0] * len(items)
        while waiting or self._busy:
            while waiting and len(self._busy) < self._most:
                self._give(_start(self._work), waiting.popleft(), items)
            for line in cast("list[Connection[Any, Any]]", wait(list(self._busy))):
                worker = self._busy.pop(line)
                outcome = _receive(worker)
                if outcome is None:
                    attempts[worker.place] += 1
                    if attempts[worker.place] < ATTEMPTS:
                        waiting.appendleft(worker.place)
                        continue
                    outcome = lost(items[worker.place], _ending(worker.process))
                elif waiting:
                    self._give(worker, waiting.popleft(), items)
                else:
                    _dismiss(worker)
                yield outcome

    def _give(self, worker: _Worker, place: int, items: Sequence[Any]) -> None:
        worker.place = place
        with suppress(BrokenPipeError):  # it is gone already: its line says so when it is read
            worker.line.send(items[place])
        self._busy[worker.line] = worker

    def close(self) -> None:
        """End what is still running."""
        for worker in self._busy.values():
            worker.process.kill()
            _dismiss(worker)
        self._busy.clear()


def _start(work: Callable[[Any], Any]) -> _Worker:
    # Spawned, not forked: a fork copies locks that other threads of ours may hold.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    with _one_thread_each():
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started here do linear algebra on one thread: there is one of them a core.

    The library would start a thread a core in each, and they would wait for each other by
    spinning: listening then takes half as much again. It reads this once, when it is loaded.
    """
    unset = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)


def _receive(worker: _Worker) -> Outcome[Any, Any] | None:
    """What a worker sent; None if it is gone. A bug is raised here as it was raised there."""
    try:
        sent = worker.line.recv()
    except (EOFError, ConnectionResetError):
        _dismiss(worker)
        return None
    if isinstance(sent, BaseException):
        worker.process.kill()
        _dismiss(worker)
        raise sent
    outcome: Outcome[Any, Any] = sent
    return outcome


def _dismiss(worker: _Worker) -> None:
    worker.line.close()
    worker.process.join()


def _ending(process: SpawnProcess) -> str:
    code = process.exitcode or 0
    return f"killed by signal {-code}" if code < 0 else f"ended with code {code}"


def _serve(line: Connection[Any, Any], work: Callable[[Any], Any]) -> None:
    """The life of a worker: until its line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives the work
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            item = line.recv()
            try:
                line.send(attempt(work, item))
            except Exception as error:  # noqa: BLE001 - it is raised where the work was given
                line.send(_portable(error))
                return


def _portable(error: Exception) -> Exception:
    """The error with where it was raised, able to travel; in words where it is not."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except (pickle.PickleError, TypeError, AttributeError) as reason:
        bug = RuntimeError(repr(error))
        bug.__notes__ = [*error.__notes__, f"it could not travel itself: {reason}"]
        return bug
    return error
