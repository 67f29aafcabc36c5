"""Files that are whole or not there."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE = 3600.0
"""Seconds after which a scratch file nobody has written to is that of a process that is gone."""


def remove_stale(folder: Path) -> None:
    """Remove what killed processes have left of their scratch files in `folder`."""
    for path in folder.glob(".*.scratch*"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file beside `path` that becomes `path` at the end of the block.

    Whatever happens, `path` is either what it was or whole; the scratch file keeps the suffix and
    is gone afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not after `path`: its name may be as long as a file system takes.
    scratch = path.with_name(f".{uuid.uuid4().hex}.scratch{path.suffix}")
    scratch.touch(exist_ok=False)
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
