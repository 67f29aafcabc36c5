"""Starts child processes that share nothing with this one but their arguments."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
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

    With `needs_script` it imports the user's script first, for the classes defined there. It uses
    one thread for linear algebra, as there is one process per core: otherwise each would start one
    per core, and they would spin while waiting for each other, so that listening takes 1.5 times as
    long. The libraries read the variables once, when loaded.
    """
    # Spawned, not forked: a fork copies locks that other threads may hold.
    process = multiprocessing.get_context("spawn").Process(
        target=target, args=arguments, daemon=True
    )
    with _STARTING:
        script = sys.modules["__main__"]
        unset = [name for name in THREADS if name not in os.environ]
        try:
            os.environ.update(dict.fromkeys(unset, "1"))
            if not needs_script:
                sys.modules["__main__"] = ModuleType("__main__")
            process.start()
        finally:
            sys.modules["__main__"] = script
            for name in unset:
                os.environ.pop(name, None)
    return process
