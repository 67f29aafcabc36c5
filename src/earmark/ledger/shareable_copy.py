"""A copy of a run that may leave the machine: names instead of places, no addresses, no keys."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE, clearly, copy_run
from earmark.media.source import name_of
from earmark.redaction import HIDDEN, redact

_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]+://[^\s\"'<>]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\blocalhost(?::\d+)?\b",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?<![\w.:/])(?:[A-Za-z]:[\\/]|~?/)(?:[^\s\"'<>|:*?\\/]+[\\/])+([^\s\"'<>|\\/]*)"
)
_KEY = re.compile(r"\b(?:sk|pk|ghp|hf|AKIA)[-_]?[\w-]*\d[\w-]{5,}")

COLUMNS = {
    "plans": ("plan",),
    "recordings": ("path", "name", "chapters", "failure"),
    "heard": ("access", "warnings"),
    "choices": ("notes",),
    "picks": ("reason",),
    "tags": ("words",),
    "answers": ("text", "model", "data", "note"),
    "failures": ("reason",),
    "evidence": ("text", "origin", "data"),
    "corrections": ("text", "author"),
}
"""Where a run keeps words that a page or an export tells."""


@contextmanager
def shareable_copy(
    folder: Path, *, voices: bool = True, blur: FaceBlur | None = None
) -> Iterator[Run]:
    """The run in `folder` as it may be shared, to read from, for a while.

    Args:
        folder: Of the run, which stays as it is.
        voices: Whether what was said stays in it.
        blur: What is blurred in its pictures, where the run has not done so.

    Raises:
        LedgerError: there is no run, or it cannot be read.
    """
    with TemporaryDirectory() as scratch:
        copy = Path(scratch)
        copy_run(folder, copy)
        with closing(sqlite3.connect(copy / FILE)) as database, clearly(folder), database:
            _make_shareable(database)
            if not voices:
                database.execute("DELETE FROM evidence WHERE kind = 'said'")
        with Run.open(copy, blur=blur) as run:
            yield run


def hide_places(text: str, places: Collection[str] = ()) -> str:
    """A text without addresses and keys, and with the names of files instead of their paths.

    >>> hide_places("cannot read /mnt/cams/a.mp4 from http://10.0.0.2:8000/v1")
    'cannot read a.mp4 from ***'
    """
    for place in sorted(places, key=len, reverse=True):
        text = text.replace(place, name_of(place))
    text = _ADDRESS.sub(HIDDEN, redact(text))
    return _KEY.sub(HIDDEN, _PATH.sub(r"\1", text))


def _make_shareable(database: sqlite3.Connection) -> None:
    places = {
        place
        for path, chapters in database.execute("SELECT path, chapters FROM recordings")
        for place in (path, *(one for one, _ in json.loads(chapters)))
    }
    database.create_function("hide", 1, _hider(places), deterministic=True)
    database.execute("UPDATE recordings SET id = 'failed ' || number WHERE failure IS NOT NULL")
    for table, columns in COLUMNS.items():
        changes = ", ".join(f'"{column}" = hide("{column}")' for column in columns)
        database.execute(f"UPDATE {table} SET {changes}")  # noqa: S608 - names of our own


def _hider(places: Collection[str]) -> Callable[[str | None], str | None]:
    """What hides places in a column, be it text or JSON."""

    def hide(value: str | None) -> str | None:
        if value is None:
            return None
        if value in places:
            return name_of(value)
        if value[:1] in ("{", "["):
            try:
                return json.dumps(hide_within(json.loads(value)), ensure_ascii=False)
            except ValueError:  # a text that begins so
                pass
        return hide_places(value, places)

    def hide_within(value: Any) -> Any:
        if isinstance(value, str):
            return hide_places(value, places)
        if isinstance(value, list):
            return [hide_within(one) for one in value]
        if isinstance(value, dict):
            return {key: hide_within(one) for key, one in value.items()}
        return value

    return hide
