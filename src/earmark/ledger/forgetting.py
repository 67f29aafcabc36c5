"""Deletes what a run stores about a recording: the only place where answers are deleted.

Elsewhere a trigger of the schema refuses that. Here it is dropped and created again within the
transaction that deletes, so that no other process sees the run without it. Deleted rows are
overwritten (`secure_delete`), both word indexes are rebuilt, and the file is vacuumed: no byte of
the recording stays in the database or its journal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import LedgerError
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.row_values import INDEX_AGAIN, RECORDING_COLUMNS, SPENT
from earmark.ledger.run_reader import Run, read_recording
from earmark.ledger.schema import connect, explain_errors, transaction

CLIPS = "clips of "
"""Start of the name of the note that lists the clips of a recording; its id follows."""


@dataclass(frozen=True, slots=True)
class StoredTraces:
    """What a run stores about recordings, apart from their names; none of it may remain."""

    texts: tuple[str, ...]
    """Captions, speech, read text and corrections; names of sounds and objects tell of no one."""
    pictures: tuple[bytes, ...]
    clips: tuple[Path, ...]


def note_clips(ledger: Ledger, recording: str, clips: Sequence[Path]) -> None:
    """Add clips that were cut from a recording to the list of its clips."""
    with Run(ledger.folder) as run:
        known = json.loads(run.note(f"{CLIPS}{recording}") or "[]")
    paths = sorted({*known, *(str(path.absolute()) for path in clips)})
    ledger.note(f"{CLIPS}{recording}", json.dumps(paths))


def all_recordings(folder: Path) -> list[RecordingRow]:
    """Every recording that the run in `folder` ever had: failed and replaced ones too."""
    with Run(folder) as run:
        rows = run.rows(f"SELECT {', '.join(RECORDING_COLUMNS)} FROM recordings")  # noqa: S608
        return [read_recording(row, {}) for row in rows]


def read_traces(folder: Path, recordings: Sequence[RecordingRow]) -> StoredTraces:
    """What the run in `folder` stores about `recordings`."""
    ids = [one.id for one in recordings]
    with Run(folder) as run:
        lists = [json.loads(run.note(f"{CLIPS}{key}") or "[]") for key in ids]
        texts, pictures = (
            tuple(one for (one,) in run.rows(query, json.dumps(ids)))
            for query in (_TEXTS, _PICTURES)
        )
    return StoredTraces(texts, pictures, tuple(Path(path) for clips in lists for path in clips))


def still_held(folder: Path, traces: Iterable[str | bytes]) -> set[str | bytes]:
    """Those of `traces` that the run in `folder` still stores, about any recording."""
    with Run(folder) as run:
        return {one for one in traces if next(run.rows(_HOLDS, one))[0]}


def delete_recordings(folder: Path, ids: Collection[str]) -> None:
    """Delete every row about the recordings `ids`; the caller holds the lock of the run.

    The cost of their calls still counts against the caps of the run. A `LedgerError` says that
    another process is reading the run, or that it cannot be written.
    """
    gone = (json.dumps(list(ids)),)
    with _erasing(folder, again="forget the recording again") as database:
        before = database.execute(SPENT).fetchone()
        guard = "SELECT sql FROM sqlite_schema WHERE name = 'answer_stays'"
        (trigger,) = database.execute(guard).fetchone()
        database.execute("DROP TRIGGER answer_stays")
        for statement in _DELETE:
            database.execute(statement, gone)
        database.execute(trigger)
        for statement in _INDEX_BOTH_AGAIN:
            database.execute(statement)
        _count_forgotten(database, before)


def has_speech(folder: Path) -> bool:
    """Whether the run in `folder` has a transcript, or one whose deletion was interrupted."""
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        return bool(database.execute(_HAS_SPEECH).fetchone()[0])


def delete_speech(folder: Path) -> None:
    """Delete every transcript of the run in `folder`; if interrupted, it can be repeated.

    The caller holds the lock of the run. No word of it stays in the database or its journal; a
    `LedgerError` says that another process is reading the run.
    """
    with _erasing(folder, again="run the command again") as database:
        database.execute("DELETE FROM evidence WHERE kind = 'said'")
        database.execute(_REBUILD)
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        # Last: this marks the deletion as complete.
        database.execute("UPDATE recordings SET transcribed_by = ''")


@contextmanager
def _erasing(folder: Path, *, again: str) -> Iterator[sqlite3.Connection]:
    """A transaction; no byte of what it deletes stays in the run or in a temporary file."""
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        database.execute("PRAGMA secure_delete = ON")
        database.execute("PRAGMA temp_store = MEMORY")
        _empty_journal(database, folder, again)  # before anything is deleted: it must be possible
        with transaction(database):
            yield database
        database.execute("VACUUM")
        _empty_journal(database, folder, again)


def _empty_journal(database: sqlite3.Connection, folder: Path, again: str) -> None:
    (is_busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise LedgerError(
            f"the run in {folder} is being read by another process: stop `earmark serve` and "
            f"whatever else reads it, then {again}"
        )


def _count_forgotten(database: sqlite3.Connection, before: tuple[float, ...]) -> None:
    """Store the cost of the deleted calls, without what they were about."""
    row = database.execute("SELECT value FROM notes WHERE name = 'forgotten'").fetchone()
    known = json.loads(row[0]) if row else [0, 0, 0.0, 0]
    after = database.execute(SPENT).fetchone()
    taken = [old + was - now for old, was, now in zip(known, before, after, strict=True)]
    database.execute("INSERT OR REPLACE INTO notes VALUES ('forgotten', ?)", (json.dumps(taken),))


_OF_RECORDINGS = """
recording IN (SELECT number FROM recordings WHERE id IN (SELECT value FROM json_each(?1)))
"""
"""Takes the ids of the recordings meant, as JSON; so do the queries made of it."""

_OF_CALLS = f"call IN (SELECT id FROM calls WHERE {_OF_RECORDINGS})"  # noqa: S608 - of our own

_TEXTS = f"""
SELECT text FROM answers WHERE {_OF_CALLS}
UNION SELECT text FROM evidence WHERE {_OF_RECORDINGS} AND kind IN ('said', 'read')
UNION SELECT text FROM corrections WHERE {_OF_RECORDINGS} AND text <> ''
"""  # noqa: S608

_PICTURES = f"""
SELECT DISTINCT thumbnail FROM frames WHERE {_OF_RECORDINGS} AND thumbnail <> x''
"""  # noqa: S608

_HOLDS = """
SELECT EXISTS (SELECT 1 FROM answers WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM evidence WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM corrections WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM plans WHERE instr(plan, ?1))
    OR EXISTS (SELECT 1 FROM frames WHERE thumbnail = ?1)
"""

_HAS_SPEECH = """
SELECT EXISTS (SELECT 1 FROM recordings WHERE transcribed_by <> '')
    OR EXISTS (SELECT 1 FROM evidence WHERE kind = 'said')
"""

_REFERRING = "corrections", "picks", "choices", "calls", "tags", "frames", "heard", "evidence"

_DELETE = (
    *(f"DELETE FROM {table} WHERE {_OF_CALLS}" for table in ("failures", "answers")),  # noqa: S608
    *(f"DELETE FROM {table} WHERE {_OF_RECORDINGS}" for table in _REFERRING),  # noqa: S608
    # Lists of clips, and the windows that an audit has drawn.
    "DELETE FROM notes WHERE EXISTS ("
    " SELECT 1 FROM json_each(?1) gone WHERE instr(name || notes.value, gone.value))",
    "DELETE FROM recordings WHERE id IN (SELECT value FROM json_each(?1))",
)
"""From what refers to what it refers to."""

_REBUILD = "INSERT INTO evidence_words (evidence_words) VALUES ('rebuild')"

_INDEX_BOTH_AGAIN = (_REBUILD, *INDEX_AGAIN)
"""A word index keeps the words of deleted rows until it is merged, so both are rebuilt."""
