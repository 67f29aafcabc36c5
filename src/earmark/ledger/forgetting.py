"""What a run keeps of a recording, deleted for good: the one place where answers are.

Everywhere else a trigger of the schema refuses that. Here it is put aside within the transaction
that deletes, so that no other process ever meets the run without it. Deleted rows are written over
(`secure_delete`), both indexes of words are made anew, and the file is written anew without the
free pages that held them: no byte of the recording stays in the database or its journal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from earmark.errors import LedgerError
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.row_values import SPENT
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import connect, explain_errors, transaction

CLIPS = "clips of "
"""Begins the name of the note that lists what was cut from a recording, before its id."""


@dataclass(frozen=True, slots=True)
class StoredTraces:
    """What a run knows recordings by: what must not be found when they are forgotten."""

    ids: tuple[str, ...]
    places: tuple[str, ...]
    """Their files and addresses."""
    names: tuple[str, ...]
    """What manifests call them."""
    texts: tuple[str, ...]
    """Captions, speech, read text and corrections; names of sounds and objects tell of no one."""
    pictures: tuple[bytes, ...]
    clips: tuple[Path, ...]


def note_clips(ledger: Ledger, recording: str, clips: Sequence[Path]) -> None:
    """Keep where clips of a recording were written to, beside those noted before."""
    with Run(ledger.folder) as run:
        known = json.loads(run.note(f"{CLIPS}{recording}") or "[]")
    paths = sorted({*known, *(str(path.absolute()) for path in clips)})
    ledger.note(f"{CLIPS}{recording}", json.dumps(paths))


def all_recordings(folder: Path) -> list[RecordingRow]:
    """Every recording the run in `folder` has ever met: failed and replaced ones too."""
    with closing(connect(folder, to_write=False)) as database, explain_errors(folder):
        rows = database.execute("SELECT id, path, name, chapters FROM recordings").fetchall()
    return [
        RecordingRow(key, path, 0.0, 0, name=name, chapters=tuple(map(tuple, json.loads(chapters))))
        for key, path, name, chapters in rows
    ]


def read_traces(folder: Path, recordings: Sequence[RecordingRow]) -> StoredTraces:
    """What the run in `folder` keeps of `recordings`."""
    ids = [one.id for one in recordings]
    with Run(folder) as run:
        clips = [run.note(f"{CLIPS}{key}") for key in ids]
    with closing(connect(folder, to_write=False)) as database, explain_errors(folder):
        _mark(database, ids)
        texts = [text for (text,) in database.execute(_TEXTS)]
        pictures = [picture for (picture,) in database.execute(_PICTURES)]
    return StoredTraces(
        tuple(ids),
        tuple({place for one in recordings for place, _ in (*one.files, (one.path, 0.0))}),
        tuple({one.name for one in recordings if one.name}),
        tuple(texts),
        tuple(pictures),
        tuple(Path(path) for each in clips if each for path in json.loads(each)),
    )


def still_held(folder: Path, traces: Iterable[str | bytes]) -> set[str | bytes]:
    """Those of some texts and pictures that the run in `folder` keeps of any recording."""
    with closing(connect(folder, to_write=False)) as database, explain_errors(folder):
        return {one for one in traces if database.execute(_HOLDS, (one,)).fetchone()[0]}


def delete_recordings(folder: Path, ids: Collection[str]) -> None:
    """Delete every row about the recordings `ids`; the caller holds the lock of the run.

    What their calls took still counts against the caps of the run. A `LedgerError` says that
    somebody is reading the run just now, or that it cannot be written.
    """
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        database.execute("PRAGMA secure_delete = ON")
        _empty_journal(database, folder)  # before anything is deleted: it must be possible
        before = database.execute(SPENT).fetchone()
        _mark(database, ids)
        (guard,) = database.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'answer_stays'"
        ).fetchone()
        with transaction(database):
            database.execute("DROP TRIGGER answer_stays")
            for statement in _DELETE:
                database.execute(statement)
            database.execute(guard)
            _count_forgotten(database, before)
        database.execute("VACUUM")
        _empty_journal(database, folder)


def has_speech(folder: Path) -> bool:
    """Whether the run in `folder` has a transcript, or one that was not deleted to the end."""
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        return bool(database.execute(_HAS_SPEECH).fetchone()[0])


def delete_speech(folder: Path) -> None:
    """Delete every transcript of the run in `folder`; stopped, it can be done again.

    The caller holds the lock of the run. No word of it stays in the database or its journal; a
    `LedgerError` says that somebody is reading the run just now.
    """
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        database.execute("PRAGMA secure_delete = ON")
        _empty_journal(database, folder, again="run the command again")
        with transaction(database):
            database.execute("DELETE FROM evidence WHERE kind = 'said'")
            database.execute(_REBUILD)
        database.execute("VACUUM")
        _empty_journal(database, folder, again="run the command again")
        with transaction(database):  # last: it says that nothing is left to delete
            database.execute("UPDATE recordings SET transcribed_by = ''")


def _mark(database: sqlite3.Connection, ids: Collection[str]) -> None:
    """The recordings meant, as the temporary table `gone`."""
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("CREATE TEMP TABLE gone (number INTEGER PRIMARY KEY, id TEXT)")
    database.executemany(
        "INSERT INTO gone SELECT number, id FROM recordings WHERE id = ?", ((key,) for key in ids)
    )


def _empty_journal(
    database: sqlite3.Connection, folder: Path, *, again: str = "forget the recording again"
) -> None:
    (is_busy, *_) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise LedgerError(
            f"the run in {folder} is being read by another process: stop `earmark serve` and "
            f"whatever else reads it, then {again}"
        )


def _count_forgotten(database: sqlite3.Connection, before: tuple[float, ...]) -> None:
    """Keep what the deleted calls took, without what they were about."""
    row = database.execute("SELECT value FROM notes WHERE name = 'forgotten'").fetchone()
    known = json.loads(row[0]) if row else [0, 0, 0.0, 0]
    after = database.execute(SPENT).fetchone()
    taken = [old + was - now for old, was, now in zip(known, before, after, strict=True)]
    database.execute("INSERT OR REPLACE INTO notes VALUES ('forgotten', ?)", (json.dumps(taken),))


_TEXTS = """
SELECT text FROM answers WHERE call IN (
    SELECT id FROM calls WHERE recording IN (SELECT number FROM gone))
UNION SELECT text FROM evidence WHERE recording IN (SELECT number FROM gone)
    AND kind IN ('said', 'read')
UNION SELECT text FROM corrections WHERE recording IN (SELECT number FROM gone) AND text <> ''
"""

_PICTURES = """
SELECT DISTINCT thumbnail FROM frames
WHERE recording IN (SELECT number FROM gone) AND thumbnail <> x''
"""

_HOLDS = """
SELECT EXISTS (SELECT 1 FROM answers WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM evidence WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM corrections WHERE instr(text, ?1))
    OR EXISTS (SELECT 1 FROM plans WHERE instr(plan, ?1))
    OR EXISTS (SELECT 1 FROM frames WHERE thumbnail = ?1)
"""

_OF_CALLS = "call IN (SELECT id FROM calls WHERE recording IN (SELECT number FROM gone))"

_REFERRING = "corrections", "picks", "choices", "calls", "tags", "frames", "heard", "evidence"

_HAS_SPEECH = """
SELECT EXISTS (SELECT 1 FROM recordings WHERE transcribed_by <> '')
    OR EXISTS (SELECT 1 FROM evidence WHERE kind = 'said')
"""

_REBUILD = "INSERT INTO evidence_words (evidence_words) VALUES ('rebuild')"

_DELETE = (
    f"DELETE FROM failures WHERE {_OF_CALLS}",  # noqa: S608 - of our own
    f"DELETE FROM answers WHERE {_OF_CALLS}",  # noqa: S608
    *(
        f"DELETE FROM {table} WHERE recording IN (SELECT number FROM gone)"  # noqa: S608
        for table in _REFERRING
    ),
    # Lists of clips, and the windows that an audit has drawn.
    "DELETE FROM notes WHERE EXISTS (SELECT 1 FROM gone WHERE instr(name || value, gone.id))",
    "DELETE FROM recordings WHERE number IN (SELECT number FROM gone)",
    # An index of words keeps those of deleted rows until it is merged: both are made anew.
    _REBUILD,
    "INSERT INTO words (words) VALUES ('delete-all')",
    """
    INSERT INTO words (rowid, caption, tags)
    SELECT id, text, coalesce((
        SELECT group_concat(value, ' ') FROM tags, json_each(tags.words)
        WHERE tags.recording = calls.recording AND tags."start" = calls."start"
            AND tags."end" = calls."end"), '')
    FROM answers JOIN calls ON id = call
    """,
    """
    INSERT INTO words (rowid, caption, tags)
    SELECT -id, '', (SELECT group_concat(value, ' ') FROM json_each(tags.words)) FROM tags
    """,
)
"""From what refers to what it refers to."""
