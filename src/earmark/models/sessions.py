"""Opens models: TFLite files with LiteRT (extras `yamnet` and `vision`), ONNX with ONNX Runtime."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, TypeVar

from earmark.errors import MissingExtra, ModelMismatch
from earmark.models.catalogue import find_model, install_command
from earmark.timeline import FloatArray


def open_network(name: str, path: Path, *, edits: Mapping[int, int] | None = None) -> Any:
    """A LiteRT interpreter on one thread; do not share it between threads.

    `edits` are 32-bit numbers by byte offset that are written into the file first, to run only a
    part of the network.
    """
    model = find_model(name)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MissingExtra(f"{name} needs LiteRT: {install_command(model.extra)}") from error
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


@contextmanager
def borrow(open_file: Callable[[Path], OpenNetwork], path: Path) -> Iterator[OpenNetwork]:
    """For exclusive use within the block; reused while the file is unchanged."""
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
    """LiteRT has no setting for the INFO lines it writes to the error stream.

    With a lock, as two threads would each restore the redirection of the other.
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
    """In the order of the outputs, from a ZIP at the end of a published file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return tuple(archive.read(archive.namelist()[0]).decode().splitlines())
    except zipfile.BadZipFile as error:
        raise ModelMismatch(f"{path} is damaged: it has no class names ({error})") from error


def open_session(
    model: Path | bytes,
    *,
    threads: int | None = 1,
    weights: Mapping[str, FloatArray] | None = None,
) -> Any:
    """On the CPU; None for the library's default of `threads`.

    `weights` are those that the model refers to by name instead of holding them.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # read once, when it is imported
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if weights:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
        options.add_external_initializers([*weights], values)
    name, source = (model.name, str(model)) if isinstance(model, Path) else ("the model", model)
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own have no common parent but this
        reason = str(error).split("\n", 1)[0][:200]
        raise ModelMismatch(f"{name} is cut off or no ONNX model: {reason}") from error


shared_session = lru_cache(maxsize=16)(open_session)
