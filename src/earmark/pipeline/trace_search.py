"""Looks through files for what should not be in them any more."""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from earmark.media.source_listing import SUFFIXES
from earmark.reporting.html_document import embed_json

LEAST_TEXT = 8
"""Characters of a text that is looked for: a shorter one stands in many a file by chance."""

STRETCH, OVERLAP = 1 << 24, 1 << 16
"""Bytes read at a time, and of the stretch before that are looked at again."""

MOST = 300
"""Texts and pictures looked for, of each, the longest first: a search takes time."""


@dataclass(frozen=True, slots=True)
class TraceSearch:
    """What was looked for, where, and what was found."""

    looked_for: Mapping[str, int]
    """How many names, texts and pictures."""
    files: int
    """Those looked through; of media files and of whole recordings only their names are."""
    size_bytes: int
    found: tuple[tuple[Path, str], ...]
    """Files that still hold something, and what: names, texts or pictures."""


def search_files(
    folders: Sequence[Path], needles: Mapping[str, Sequence[bytes | str]], *, own: Collection[str]
) -> TraceSearch:
    """Look for `needles`, by what they are, in every file below `folders` and in its name.

    Archives (.zip) are opened. The files `own` are passed over: they are the recordings
    themselves.
    """
    used = {kind: [*some][: MOST if kind != "names" else None] for kind, some in needles.items()}
    forms = {kind: _forms(some) for kind, some in used.items()}
    files, size = 0, 0
    found: list[tuple[Path, str]] = []
    skipped = {*own}
    for path in _files(folders):
        if str(path) in skipped:
            continue
        files += 1
        size += path.stat().st_size
        kinds: set[str] = set().union(*(_kinds_in(chunk, forms) for chunk in _chunks(path)))
        found += [(path, kind) for kind in sorted(kinds)]
    return TraceSearch({kind: len(some) for kind, some in used.items()}, files, size, tuple(found))


def _files(folders: Sequence[Path]) -> Iterator[Path]:
    seen = set()
    for folder in folders:
        for place, _, names in os.walk(folder.absolute()):
            for name in names:
                path = Path(place, name)
                if path not in seen and path.is_file():
                    seen.add(path)
                    yield path


def _forms(needles: Iterable[bytes | str]) -> list[bytes]:
    """Each in all the ways our files write it."""
    return [
        form
        for needle in needles
        for form in ({needle} if isinstance(needle, bytes) else _written(needle))
    ]


def _written(text: str) -> set[bytes]:
    shown = (text, json.dumps(text)[1:-1], embed_json(text)[1:-1], quote(text))
    return {form.encode("utf-8", "replace") for form in shown}


def _kinds_in(content: bytes, forms: Mapping[str, Sequence[bytes]]) -> set[str]:
    return {
        kind
        for kind, these in forms.items()
        if any(form in content and (kind != "names" or _stands(form, content)) for form in these)
    }


def _stands(name: bytes, content: bytes) -> bool:
    """Whether a name stands by itself somewhere: `a.mp4` does not in `extra.mp4`."""
    return re.search(rb"(?<![\w.-])" + re.escape(name), content) is not None


def _chunks(path: Path) -> Iterator[bytes]:
    """The name of a file, then what it holds, a stretch at a time with a part of the one before."""
    yield path.name.encode("utf-8", "replace")
    if path.suffix.lower() in SUFFIXES:
        return
    if path.suffix.lower() == ".zip" and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                yield name.encode()
                yield b"" if Path(name).suffix.lower() in SUFFIXES else archive.read(name)
        return
    with path.open("rb") as file:
        before = b""
        while chunk := file.read(STRETCH):
            yield before + chunk
            before = chunk[-OVERLAP:]
