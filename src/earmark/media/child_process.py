"""Starts child processes that share nothing with this one but their arguments."""

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
"""Held while a process is started, since the environment is changed for it."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment variables of the libraries behind NumPy; Ray sets the second for its workers."""


def cores() -> int:
    """Number of cores that this process may use."""
    with suppress(AttributeError):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def start_process(
    target: Callable[..., None], *arguments: Any, needs_script: bool = False
) -> SpawnProcess:
    """A started process that calls `target` with `arguments`, and ends with this one.

    With `needs_script` it imports the user's script first, for the classes defined there.
    """
    # Spawned, not forked: a fork copies locks that other threads may hold.
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    with _STARTING, _one_thread_each(), nullcontext() if needs_script else _without_script():
        process.start()
    return process


@contextmanager
def _without_script() -> Iterator[None]:
    """Processes started in the block do not import the user's script."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started in the block use one thread for linear algebra: there is one per core.

    Otherwise each would start one thread per core, and they would spin while waiting for each
    other: listening takes 1.5 times as long. The libraries read the variables once, when loaded.
    """
    unset = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(unset, "1"))
    try:
        yield
    finally:
        for name in unset:
            os.environ.pop(name, None)
