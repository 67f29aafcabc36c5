"""Atomic writes: a file is complete or does not exist."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STALE = 3600.0
"""Seconds without a write after which a scratch file is taken to be abandoned."""


def remove_stale(folder: Path) -> None:
    """Remove scratch files that killed processes have left in `folder`."""
    for path in folder.glob(".*.scratch*"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` to `path`, text as UTF-8: `path` is either unchanged or complete."""
    with replacing(path) as scratch:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file beside `path` that becomes `path` at the end of the block.

    Whatever happens, `path` is either unchanged or complete. The scratch file has the same suffix
    and is removed afterwards.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not derived from the name of `path`, which may be as long as a file system allows.
    scratch = path.with_name(f".{uuid.uuid4().hex}.scratch{path.suffix}")
    scratch.touch(exist_ok=False)
    try:
        yield scratch
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
