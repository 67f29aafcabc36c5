"""Opens the published TFLite files (extras `yamnet` and `vision`); only here is LiteRT used."""

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

from earmark.errors import MissingExtra, ModelMismatch
from earmark.models.catalogue import MODELS


def open_network(name: str, path: Path, *, edits: Mapping[int, int] | None = None) -> Any:
    """A LiteRT interpreter of the file at `path`, on one thread; do not share it between threads.

    `ModelMismatch` unless it is the file `name` of the catalogue. `edits` are 32-bit numbers by
    byte offset that are written into the file first, to run only a part of the network.
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


OpenNetwork = TypeVar("OpenNetwork")

_idle: dict[tuple[Any, ...], list[Any]] = {}
"""Networks that are not in use, by the function that opened them and their file."""


@contextmanager
def borrow(open_file: Callable[[Path], OpenNetwork], path: Path) -> Iterator[OpenNetwork]:
    """The network that `open_file` opens at `path`, for exclusive use within the block.

    Opening takes 20 ms, which matters for thousands of short recordings, so a network is reused as
    long as the file is unchanged.
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
    """Suppress the INFO lines that LiteRT writes to the error stream in the block.

    It writes to the file descriptor directly and has no setting for it. The lock is needed because
    there is one error stream: two threads would each restore the redirection of the other.
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
    """The class names in a published file, in the order of its outputs: a ZIP at its end."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(archive.read(archive.namelist()[0]).decode().splitlines())
    except zipfile.BadZipFile as error:
        raise ModelMismatch(f"{path} is damaged: it has no class names ({error})") from error
