"""Opens the published TFLite files (extras `yamnet` and `vision`); LiteRT lives here alone."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from earmark.errors import MissingExtra
from earmark.models.catalogue import MODELS


def open_network(name: str, path: Path, *, edits: Mapping[int, int] | None = None) -> Any:
    """A LiteRT interpreter of the file at `path`, on one thread; not to be shared between threads.

    `ModelMismatch` unless it is the file that the catalogue calls `name`. With `edits`, 32-bit
    numbers to put at places of that file, a part of the network is run alone.
    """
    model = MODELS.named(name)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MissingExtra(f"{name} needs LiteRT: pip install 'earmark[{model.extra}]'") from error
    data = bytearray(path.read_bytes())
    model.check(len(data), hashlib.sha256(data).hexdigest(), str(path))
    for place, number in (edits or {}).items():
        struct.pack_into("<i", data, place, number)
    with _hide_info_lines():
        interpreter = Interpreter(model_content=bytes(data), num_threads=1)
        interpreter.allocate_tensors()
    return interpreter


Network = TypeVar("Network")

_idle: dict[tuple[Any, ...], list[Any]] = {}
"""Networks that nobody uses now, by what opened them and the file they are of."""


@contextmanager
def borrow(open_file: Callable[[Path], Network], path: Path) -> Iterator[Network]:
    """What `open_file` makes of the file at `path`, for nobody else until the block ends.

    Opening one takes 20 ms, which thousands of short recordings would feel; so it is kept for the
    next, as long as the file is the same.
    """
    state = path.stat()
    idle = _idle.setdefault((open_file, path, state.st_size, state.st_mtime_ns), [])
    try:
        network = idle.pop()
    except IndexError:
        network = open_file(path)
    try:
        yield network
    finally:
        idle.append(network)


_stderr_lock = threading.Lock()


@contextmanager
def _hide_info_lines() -> Iterator[None]:
    """What LiteRT writes to the error stream in the block, but for its INFO lines.

    It writes there by itself, past Python, and has no setting for it. There is one error stream, so
    one thread at a time: two would each put back what the other had put there.
    """
    with _stderr_lock, tempfile.TemporaryFile() as caught:
        before = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
            caught.seek(0)
            for line in caught:
                if not line.startswith(b"INFO:"):
                    os.write(2, line)


@cache
def class_names(path: Path) -> tuple[str, ...]:
    """The classes a published file names, in the order of its outputs: a list zipped to its end."""
    with zipfile.ZipFile(path) as archive:
        return tuple(archive.read(archive.namelist()[0]).decode().splitlines())
