"""Files of a cache, named by the recording they tell of first: all of one are found by its key."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def content_file(folder: Path, key: str, made_by: str, suffix: str) -> Path:
    """Where `folder` keeps what `made_by` (which names the key too) made of the recording `key`."""
    owner, maker = (hashlib.sha256(each.encode()).hexdigest() for each in (key, made_by))
    path = folder / owner[:2] / f"{owner[:32]}-{maker}{suffix}"
    legacy_path = folder / maker[:2] / f"{maker}{suffix}"  # as it was called before
    with suppress(OSError):
        if legacy_path.exists():
            path.parent.mkdir(exist_ok=True)
            legacy_path.replace(path)
    # Of a cache that can only be read; `Path.exists` raises where not even that is allowed.
    return legacy_path if os.path.exists(legacy_path) else path  # noqa: PTH110


def files_of_recording(folder: Path, key: str) -> Iterator[Path]:
    """What `folder` keeps of the recording `key`, and what does not say of which it is."""
    owner = hashlib.sha256(key.encode()).hexdigest()[:32]
    yield from folder.glob(f"{owner[:2]}/{owner}-*")
    for path in folder.glob("[0-9a-f][0-9a-f]/*"):
        if "-" not in path.stem and len(path.stem) == hashlib.sha256().digest_size * 2:
            yield path
