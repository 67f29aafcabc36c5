"""Opens the published TFLite files (extras `yamnet` and `vision`); LiteRT lives here alone."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from earmark.errors import MissingExtra
from earmark.models.catalogue import MODELS


def open_network(name: str, path: Path, *, keeps_all: bool = False) -> Any:
    """A LiteRT interpreter of the file at `path`, on one thread; not to be shared between threads.

    `ModelMismatch` unless it is the file that the catalogue calls `name`. With `keeps_all` the
    values between its layers can be read afterwards.
    """
    model = MODELS.named(name)
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise MissingExtra(f"{name} needs LiteRT: pip install 'earmark[{model.extra}]'") from error
    data = path.read_bytes()
    model.check(len(data), hashlib.sha256(data).hexdigest(), str(path))
    with warnings.catch_warnings(), _without_info_lines():
        # It warns that keeping all values costs memory; a few megabytes here.
        warnings.simplefilter("ignore", UserWarning)
        interpreter = Interpreter(
            model_content=data, num_threads=1, experimental_preserve_all_tensors=keeps_all
        )
        interpreter.allocate_tensors()
    return interpreter


@contextmanager
def _without_info_lines() -> Iterator[None]:
    """What LiteRT writes to the error stream in the block, but for its INFO lines.

    It writes there by itself, past Python, and has no setting for it.
    """
    before = os.dup(2)
    with tempfile.TemporaryFile() as caught:
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
