"""Starts processes of this machine that share nothing with this one but what they are given."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing.context import SpawnProcess
from types import ModuleType
from typing import Any

_STARTING = threading.Lock()
"""Held while a process is started: it inherits the environment of this one."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries behind NumPy read; Ray sets the second for its workers likewise."""


def cores() -> int:
    """Cores this process may use."""
    with suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_process(
    target: Callable[..., None], *arguments: Any, needs_script: bool = False
) -> SpawnProcess:
    """A process that calls `target` with `arguments`, and ends with this one.

    With `needs_script` it runs the user's script first, to learn what that defines.
    """
    # Spawned, not forked: a fork copies locks that other threads of ours may hold.
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    with _STARTING, _one_thread_each(), nullcontext() if needs_script else _without_script():
        process.start()
    return process


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes started here do not run the user's script again to learn what it defines."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


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
