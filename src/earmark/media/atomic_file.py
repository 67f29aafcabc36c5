"""Atomic writes: a file is complete or does not exist."""

from __future__ import annotations

import errno
import hashlib
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
STALE = 3600.0  # seconds without a write after which a scratch file is taken to be abandoned


def remove_stale(folder: Path) -> None:
    for path in folder.glob(".*.scratch*"):
        with suppress(OSError):  # another process was faster
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """`path` is either unchanged or complete."""
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


def content_file(folder: Path, key: str, made_by: str, suffix: str) -> Path:
    """The name begins with the recording's hash, so that `files_of_recording` finds it."""
    owner, maker = (hashlib.sha256(text.encode()).hexdigest() for text in (key, made_by))
    return folder / owner[:2] / f"{owner[:32]}-{maker}{suffix}"


def files_of_recording(folder: Path, key: str) -> Iterator[Path]:
    owner = hashlib.sha256(key.encode()).hexdigest()[:32]
    return folder.glob(f"{owner[:2]}/{owner}-*")
