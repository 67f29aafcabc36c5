"""Atomic writes: a file is complete or does not exist."""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of writing that name no file."""

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
    and is removed afterwards. An `OSError` because it cannot be written names `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not derived from the name of `path`, which may be as long as a file system allows.
    scratch = path.with_name(f".{uuid.uuid4().hex}.scratch{path.suffix}")
    try:
        scratch.touch(exist_ok=False)
        try:
            yield scratch
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        is_unnamed = error.filename is None and error.errno in _NO_ROOM
        if is_unnamed or error.filename in (scratch, str(scratch)):
            error.filename = str(path)
        raise
