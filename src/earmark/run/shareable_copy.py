"""A copy of a run that may leave the machine: names instead of places, no addresses, no keys."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from earmark.evidence.face_blur import FaceBlur
from earmark.media.atomic_file import scratch_folder
from earmark.media.source import name_of
from earmark.redaction import HIDDEN, map_texts, redact
from earmark.run.run import Run
from earmark.run.schema import FILE, copy_run, explain_errors

_ADDRESS = re.compile(
    r"[a-z][a-z0-9+.-]{1,31}://[^\s\"'<>]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b|\blocalhost(?::\d+)?\b",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?<![\w.:/])(?:[A-Za-z]:[\\/]|~?/)(?:[^\s\"'<>|:*?\\/]+[\\/])+([^\s\"'<>|\\/]*)"
)
_KEY = re.compile(r"(?<![\w-])(?:sk|pk|ghp|hf|AKIA)(?=[\w-]*\d)[\w-]{7,}")

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


@contextmanager
def shareable_copy(
    folder: Path, beside: Path, *, voices: bool = True, blur: FaceBlur | None = None
) -> Iterator[Run]:
    """A temporary copy of the run as it may be shared; without `voices`, without what was said."""
    with scratch_folder(beside) as copy:
        copy_run(folder, copy)
        with closing(sqlite3.connect(copy / FILE)) as database, explain_errors(folder), database:
            _make_shareable(database)
            if not voices:
                database.execute("DELETE FROM evidence WHERE kind = 'said'")
        with Run(copy, blur=blur) as run:
            yield run


def hide_places(text: str, places: Collection[str] = ()) -> str:
    """Without addresses and keys, and with the names of files instead of their paths.

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
        for place in (path, *(chapter for chapter, _ in json.loads(chapters)))
    }
    clean = partial(hide_places, places=places)

    def hide(value: str | None) -> str | None:
        if value is None:
            return None
        if value in places:
            return name_of(value)
        if value[:1] in ("{", "["):
            with suppress(ValueError):  # a text that begins so
                return json.dumps(map_texts(json.loads(value), clean), ensure_ascii=False)
        return clean(value)

    database.create_function("hide", 1, hide, deterministic=True)
    database.execute("UPDATE recordings SET id = 'failed ' || number WHERE failure IS NOT NULL")
    for table, columns in COLUMNS.items():
        changes = ", ".join(f'"{column}" = hide("{column}")' for column in columns)
        database.execute(f"UPDATE {table} SET {changes}")  # noqa: S608 - names of our own
