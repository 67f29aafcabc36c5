"""Deletes what a run stores about recordings or speech: the only place where answers are deleted.

Elsewhere a trigger of the schema refuses that. Here it is dropped and created again within the
transaction that deletes, so that no other process sees the run without it. Deleted rows are
overwritten and the file is vacuumed: no byte of them stays in the database or its journal.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import RunError
from earmark.run.calls import SPENT, count_unlisted
from earmark.run.records import RecordingRow
from earmark.run.run import Run, read_recording
from earmark.run.schema import connect, explain_errors, transaction

WRITTEN = "written"

FORGETTING = "forgetting"


@dataclass(frozen=True, slots=True)
class Deletion:
    """A deletion that has begun; a note in the run until all of it is done."""

    ids: frozenset[str] = frozenset()
    """Empty once the rows are deleted."""
    has_page: bool = False
    is_noted: bool = False

    @classmethod
    def of(cls, run: Run) -> Deletion:
        note = run.note(FORGETTING)
        ids, has_page = json.loads(note or "[[], false]")
        return cls(frozenset(ids), has_page, is_noted=bool(note))

    @classmethod
    def begin(cls, run: Run, ids: Collection[str], *, has_page: bool) -> Deletion:
        """Includes what an interrupted deletion has left."""
        earlier = cls.of(run)
        every, has_page = earlier.ids.union(ids), earlier.has_page or has_page
        run.set_note(FORGETTING, json.dumps([sorted(every), has_page]))
        return cls(every, has_page, is_noted=True)

    def end(self, run: Run) -> None:
        with run.writing() as database:
            database.execute("DELETE FROM notes WHERE name = ?", (FORGETTING,))


def note_written(folder: Path, paths: Iterable[Path]) -> None:
    """Note in the run what was exported from it, so that `forget` can list it.

    A run that cannot be written, such as one on a read-only disk, stays without the note.
    """
    with (
        suppress(RunError),
        explain_errors(folder),
        closing(connect(folder, to_write=True)) as database,
        transaction(database),
    ):
        row = database.execute("SELECT value FROM notes WHERE name = ?", (WRITTEN,)).fetchone()
        known = set(json.loads(row[0]) if row else ())
        every = sorted(known.union(str(path.absolute()) for path in paths))
        note = (WRITTEN, json.dumps(every))
        database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", note)


def files_written(run: Run) -> list[Path]:
    """What the run says was exported from it and is still there. The run may be somebody else's."""
    paths = json.loads(run.note(WRITTEN) or "[]")
    return [Path(path) for path in paths if isinstance(path, str) and os.path.lexists(path)]


def all_recordings(run: Run) -> list[RecordingRow]:
    """Failed and replaced ones too."""
    return [read_recording(row, {}) for row in run.rows("SELECT * FROM recordings")]


def delete_recordings(run: Run, ids: Collection[str]) -> None:
    """The cost of their calls still counts against the caps of the run.

    Their ids go from the note of the `Deletion` with the rows, and the note stays: if the process
    is killed before the file is vacuumed, the next deletion does it.
    """
    with run.erasing(again="forget the recording again") as database:
        before = database.execute(SPENT).fetchone()
        guard = "SELECT sql FROM sqlite_schema WHERE name = 'answer_stays'"
        (trigger,) = database.execute(guard).fetchone()
        database.execute("DROP TRIGGER answer_stays")
        forget_ids = "UPDATE notes SET value = json_set(value, '$[0]', json_array()) WHERE name = ?"
        database.execute(forget_ids, (FORGETTING,))
        for statement in _DELETE:
            database.execute(statement, (json.dumps(list(ids)),))
        database.execute(trigger)
        after = database.execute(SPENT).fetchone()
        count_unlisted(database, *(was - now for was, now in zip(before, after, strict=True)))


def delete_speech(run: Run) -> None:
    """If interrupted, it can be repeated."""
    with run.erasing(again="run the command again") as database:
        database.execute("DELETE FROM evidence WHERE kind = 'said'")
    with run.writing() as database:  # last: this marks the deletion as complete
        database.execute("UPDATE recordings SET transcribed_by = ''")


def has_speech(run: Run) -> bool:
    (has_any,) = run.rows(
        "SELECT EXISTS (SELECT 1 FROM recordings WHERE transcribed_by <> '')"
        " OR EXISTS (SELECT 1 FROM evidence WHERE kind = 'said')"
    )[0]
    return bool(has_any)


_OF_RECORDINGS = """
recording IN (SELECT number FROM recordings WHERE id IN (SELECT value FROM json_each(?1)))
"""

_OF_CALLS = f"call IN (SELECT id FROM calls WHERE {_OF_RECORDINGS})"  # noqa: S608 - of our own

_REFERRING = (
    *("corrections", "picks", "choices", "calls", "tags"),
    *("frames", "heard", "evidence", "gaps"),
)

_DELETE = (
    *(f"DELETE FROM {table} WHERE {_OF_CALLS}" for table in ("failures", "answers")),  # noqa: S608
    *(f"DELETE FROM {table} WHERE {_OF_RECORDINGS}" for table in _REFERRING),  # noqa: S608
    # Such as the windows that an audit has drawn; the list of exports stays.
    "DELETE FROM notes WHERE name <> 'written' AND EXISTS ("
    " SELECT 1 FROM json_each(?1) gone WHERE instr(name || notes.value, gone.value))",
    "DELETE FROM recordings WHERE id IN (SELECT value FROM json_each(?1))",
)
