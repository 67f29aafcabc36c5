"""Atomic writes: a file is complete or does not exist.

Scratch files lie beside their target, and this process holds a lock on each while it writes: those
without one were left by a process that was killed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def remove_stale(folder: Path) -> None:
    """Remove what killed processes have left in `folder`."""
    for path in folder.glob(".*.scratch*"):
        with suppress(OSError), _locked(path):  # else its process is alive, or not ours
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def scratch_folder(beside: Path | None = None) -> Iterator[Path]:
    """A private folder beside a file to write, or for temporary files; removed at the end.

    If the process is killed, the next `scratch_folder` in the same place removes it.
    """
    parent = beside.absolute().parent if beside else Path(tempfile.gettempdir())
    parent.mkdir(parents=True, exist_ok=True)
    remove_stale(parent)
    folder = parent / f".{uuid.uuid4().hex}.scratch"
    folder.mkdir(mode=0o700)
    try:
        with _locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """`OSError` if another process holds it; a link is not followed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: str | bytes) -> None:
    """`path` is either unchanged or complete."""
    with replacing(path) as scratch:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch file beside `path` that becomes `path` at the end of the block.

    Whatever happens, a power cut included, `path` is either unchanged or complete. The scratch file
    has the same suffix and is removed afterwards. An `OSError` because it cannot be written names
    `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not derived from the name of `path`, which may be as long as a file system allows.
    scratch = path.with_name(f".{uuid.uuid4().hex}.scratch{path.suffix}")
    try:
        scratch.touch(exist_ok=False)
        try:
            with _locked(scratch) as descriptor:
                yield scratch
                os.fsync(descriptor)
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
