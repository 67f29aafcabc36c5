"""Deletes what a run stores about recordings or speech: the only place where answers are deleted.

Elsewhere a trigger of the schema refuses that. Here it is dropped and created again within the
transaction that deletes, so that no other process sees the run without it. Deleted rows are
overwritten and the file is vacuumed: no byte of them stays in the database or its journal.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from earmark.run.calls import SPENT
from earmark.run.records import RecordingRow
from earmark.run.run import RECORDING_COLUMNS, Run, read_recording

CLIPS = "clips of "

FORGETTING = "forgetting"

AGAIN = "forget the recording again"


@dataclass(frozen=True, slots=True)
class Deletion:
    ids: frozenset[str] = frozenset()
    has_page: bool = False
    is_noted: bool = False
    """In the run: an earlier deletion was interrupted, if only at its very end."""

    @classmethod
    def of(cls, run: Run) -> Deletion:
        note = run.note(FORGETTING)
        ids, has_page = json.loads(note or "[[], false]")
        return cls(frozenset(ids), has_page, is_noted=bool(note))

    def extended(self, ids: Iterable[str], *, has_page: bool) -> Deletion:
        return Deletion(self.ids | frozenset(ids), self.has_page or has_page)

    def note(self, run: Run) -> None:
        run.set_note(FORGETTING, json.dumps([sorted(self.ids), self.has_page]))

    def end(self, run: Run) -> None:
        # First the ids go from the file, then the note: a kill between leaves a note to find.
        with run.erasing(again=AGAIN) as database:
            left = json.dumps([[], self.has_page])
            database.execute("UPDATE notes SET value = ? WHERE name = ?", (left, FORGETTING))
        with run.writing() as database:
            database.execute("DELETE FROM notes WHERE name = ?", (FORGETTING,))


def note_clips(run: Run, recording: str, clips: Sequence[Path]) -> None:
    paths = {*map(str, clips_of(run, recording)), *(str(path.absolute()) for path in clips)}
    run.set_note(f"{CLIPS}{recording}", json.dumps(sorted(paths)))


def clips_of(run: Run, recording: str) -> list[Path]:
    return [Path(path) for path in json.loads(run.note(f"{CLIPS}{recording}") or "[]")]


def all_recordings(run: Run) -> list[RecordingRow]:
    """Failed and replaced ones too."""
    rows = run.rows(f"SELECT {', '.join(RECORDING_COLUMNS)} FROM recordings")  # noqa: S608
    return [read_recording(row, {}) for row in rows]


def delete_recordings(run: Run, ids: Collection[str]) -> None:
    """The cost of their calls still counts against the caps of the run."""
    with run.erasing(again=AGAIN) as database:
        before = database.execute(SPENT).fetchone()
        guard = "SELECT sql FROM sqlite_schema WHERE name = 'answer_stays'"
        (trigger,) = database.execute(guard).fetchone()
        database.execute("DROP TRIGGER answer_stays")
        for statement in _DELETE:
            database.execute(statement, (json.dumps(list(ids)),))
        database.execute(trigger)
        after = database.execute(SPENT).fetchone()
        # The cost of the deleted calls, without what they were about.
        row = database.execute("SELECT value FROM notes WHERE name = 'forgotten'").fetchone()
        known = json.loads(row[0]) if row else [0, 0, 0.0, 0]
        cost = [old + was - now for old, was, now in zip(known, before, after, strict=True)]
        forgotten = ("forgotten", json.dumps(cost))
        database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", forgotten)


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

_REFERRING = "corrections", "picks", "choices", "calls", "tags", "frames", "heard", "evidence"

_DELETE = (
    *(f"DELETE FROM {table} WHERE {_OF_CALLS}" for table in ("failures", "answers")),  # noqa: S608
    *(f"DELETE FROM {table} WHERE {_OF_RECORDINGS}" for table in _REFERRING),  # noqa: S608
    # Lists of clips, and the windows that an audit has drawn.
    "DELETE FROM notes WHERE name <> 'forgetting' AND EXISTS ("
    " SELECT 1 FROM json_each(?1) gone WHERE instr(name || notes.value, gone.value))",
    "DELETE FROM recordings WHERE id IN (SELECT value FROM json_each(?1))",
)
