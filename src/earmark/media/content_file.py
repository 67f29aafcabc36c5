"""File names in a cache: they begin with the recording's hash, so that its files can be found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def content_file(folder: Path, key: str, made_by: str, suffix: str) -> Path:
    """The cache file of recording `key` made by `made_by`, a text that includes the key."""
    owner, maker = (hashlib.sha256(each.encode()).hexdigest() for each in (key, made_by))
    path = folder / owner[:2] / f"{owner[:32]}-{maker}{suffix}"
    legacy_path = folder / maker[:2] / f"{maker}{suffix}"  # the name in earlier versions
    with suppress(OSError):
        if legacy_path.exists():
            path.parent.mkdir(exist_ok=True)
            legacy_path.replace(path)
    # Of a cache that can only be read; `Path.exists` raises where not even that is allowed.
    return legacy_path if os.path.exists(legacy_path) else path  # noqa: PTH110


def files_of_recording(folder: Path, key: str) -> Iterator[Path]:
    """The cache files of the recording `key`, and those whose name does not tell the recording."""
    owner = hashlib.sha256(key.encode()).hexdigest()[:32]
    yield from folder.glob(f"{owner[:2]}/{owner}-*")
    for path in folder.glob("[0-9a-f][0-9a-f]/*"):
        if "-" not in path.stem and len(path.stem) == hashlib.sha256().digest_size * 2:
            yield path
