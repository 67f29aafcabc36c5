"""The tables of a run, and how its database is opened.

    plans ──┬── choices, picks ──┐
            │                    ├── calls ──┬── answers
    recordings ─┬── heard        │           └── failures
                ├── frames, tags ┘               words: full text over captions and tags
                ├── evidence     what was heard, said, read or seen, at any time
                │                evidence_words: full text over it
                └── corrections  what people say about it; the answers stay as they are

A pick is identified by its recording and its span. A call is answered if and only if it has an
answer: triggers see to that, and to both full-text indexes.

The journal is a write-ahead log with `synchronous = NORMAL`: a commit is handed to the operating
system before it returns, so a killed process loses nothing it committed. The outcome of a call is
committed with `synchronous = FULL`: it is on the disk, and survives a power cut.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from earmark.errors import RunError

FILE = "run.db"

VERSION = 1

BUSY_TIMEOUT = 10.0
"""Seconds."""

APPLICATION = 0x6561726D

TABLES = """
CREATE TABLE notes (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE plans (id INTEGER PRIMARY KEY, plan TEXT NOT NULL UNIQUE, opened TEXT NOT NULL);
CREATE TABLE recordings (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    name TEXT NOT NULL, chapters TEXT NOT NULL, duration REAL NOT NULL, size_bytes INTEGER NOT NULL,
    frame_rate REAL NOT NULL, frame_count INTEGER NOT NULL, failure TEXT,
    is_replaced INTEGER NOT NULL DEFAULT 0, began TEXT NOT NULL DEFAULT '',
    marks TEXT NOT NULL DEFAULT '[]', transcribed_by TEXT NOT NULL DEFAULT '');
CREATE INDEX recordings_at ON recordings (path);
CREATE VIEW present AS SELECT * FROM recordings WHERE failure IS NULL AND NOT is_replaced;
CREATE TABLE heard (
    recording INTEGER PRIMARY KEY REFERENCES recordings, key TEXT NOT NULL,
    window REAL NOT NULL, duration REAL NOT NULL, windows INTEGER NOT NULL, expected REAL NOT NULL,
    scores BLOB NOT NULL, instants BLOB NOT NULL, rates BLOB NOT NULL,
    level BLOB, level_hop REAL, sound_bytes INTEGER NOT NULL, access TEXT NOT NULL,
    warnings TEXT NOT NULL, audio_track INTEGER NOT NULL DEFAULT 0);
CREATE TABLE choices (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    rule TEXT NOT NULL, forecast REAL, notes TEXT NOT NULL, forecast_range TEXT,
    PRIMARY KEY (plan, recording));
CREATE TABLE picks (
    plan INTEGER NOT NULL REFERENCES plans, recording INTEGER NOT NULL REFERENCES recordings,
    window INTEGER, "start" REAL NOT NULL, "end" REAL NOT NULL, instant REAL NOT NULL,
    score REAL NOT NULL, rate REAL NOT NULL, expected REAL NOT NULL, reason TEXT NOT NULL,
    tags INTEGER REFERENCES tags, call INTEGER REFERENCES calls, round INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (plan, recording, "start", "end")) WITHOUT ROWID;
CREATE TABLE tags (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL, words TEXT NOT NULL,
    UNIQUE (recording, "start", "end"));
CREATE TABLE frames (
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    thumbnail BLOB NOT NULL, frames_decoded INTEGER NOT NULL, frames_sent INTEGER NOT NULL,
    bytes_read INTEGER NOT NULL, faces_blurred INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (recording, "start", "end"));
CREATE TABLE calls (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE,
    recording INTEGER NOT NULL REFERENCES recordings, "start" REAL NOT NULL, "end" REAL NOT NULL,
    model TEXT NOT NULL, state TEXT NOT NULL
        CHECK (state IN ('waiting', 'in flight', 'interrupted', 'failed', 'answered')),
    asked INTEGER NOT NULL DEFAULT 0, interrupted INTEGER NOT NULL DEFAULT 0,
    reserve_tokens INTEGER NOT NULL DEFAULT 0, reserve_spend REAL NOT NULL DEFAULT 0);
CREATE INDEX calls_of_span ON calls (recording, "start", "end");
CREATE INDEX calls_in_flight ON calls (id) WHERE state = 'in flight';
CREATE INDEX calls_interrupted ON calls (interrupted) WHERE interrupted > 0;
CREATE INDEX calls_answered ON calls (id) WHERE state = 'answered';
CREATE TABLE answers (
    call INTEGER PRIMARY KEY REFERENCES calls, text TEXT NOT NULL, model TEXT NOT NULL,
    kind TEXT NOT NULL, data TEXT, prompt_tokens INTEGER CHECK (prompt_tokens >= 0),
    completion_tokens INTEGER CHECK (completion_tokens >= 0),
    latency REAL NOT NULL, form TEXT NOT NULL, finish TEXT NOT NULL, note TEXT NOT NULL,
    spend REAL NOT NULL CHECK (spend >= 0), at TEXT NOT NULL);
CREATE INDEX answers_of_kind ON answers (kind);
CREATE TRIGGER answer_kept AFTER INSERT ON answers BEGIN
    UPDATE calls SET state = 'answered' WHERE id = NEW.call; END;
CREATE TRIGGER answer_stays BEFORE DELETE ON answers BEGIN
    SELECT RAISE(ABORT, 'an answer is never deleted'); END;
CREATE TRIGGER call_begins_open BEFORE INSERT ON calls WHEN NEW.state = 'answered' BEGIN
    SELECT RAISE(ABORT, 'a call is answered by its answer'); END;
CREATE TRIGGER call_answered BEFORE UPDATE OF state ON calls
WHEN (NEW.state = 'answered') <> EXISTS (SELECT 1 FROM answers WHERE call = NEW.id) BEGIN
    SELECT RAISE(ABORT, 'a call is answered if and only if there is an answer'); END;
CREATE TABLE failures (
    id INTEGER PRIMARY KEY, call INTEGER NOT NULL REFERENCES calls, reason TEXT NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, spend REAL NOT NULL,
    at TEXT NOT NULL);
CREATE INDEX failures_of_call ON failures (call);
CREATE TABLE evidence (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('heard', 'said', 'read', 'seen')),
    text TEXT NOT NULL, confidence REAL NOT NULL, origin TEXT NOT NULL, data TEXT);
CREATE INDEX evidence_of ON evidence (recording, kind, "start");
CREATE TABLE corrections (
    id INTEGER PRIMARY KEY, recording INTEGER NOT NULL REFERENCES recordings,
    "start" REAL NOT NULL, "end" REAL NOT NULL,
    verdict TEXT NOT NULL CHECK (verdict IN ('right', 'wrong', 'reworded', 'missed')),
    text TEXT NOT NULL, author TEXT NOT NULL, at TEXT NOT NULL, call INTEGER REFERENCES calls,
    withdrawn TEXT);
CREATE INDEX corrections_of ON corrections (recording, "start");

CREATE VIRTUAL TABLE evidence_words USING fts5(
    text, content='evidence', content_rowid='id',
    tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER evidence_added AFTER INSERT ON evidence BEGIN
    INSERT INTO evidence_words (rowid, text) VALUES (NEW.id, NEW.text); END;
CREATE TRIGGER evidence_removed AFTER DELETE ON evidence BEGIN
    INSERT INTO evidence_words (evidence_words, rowid, text)
        VALUES ('delete', OLD.id, OLD.text); END;

-- An answer has the number of its call in the index and comes with the tags of its span, so that
-- words from both find it; tags have their negative number. Tags are indexed as JSON, whose signs
-- are no part of a word. The index stores no text: to delete a row takes exactly what was indexed.
CREATE VIRTUAL TABLE words USING fts5(
    caption, tags, content='', tokenize='porter unicode61 remove_diacritics 2');
CREATE VIEW captions AS
    SELECT call, text, recording, "start", "end" FROM calls JOIN answers ON call = id;
CREATE TRIGGER answer_indexed AFTER INSERT ON answers BEGIN
    INSERT INTO words (rowid, caption, tags)
    SELECT NEW.call, NEW.text, coalesce(tags.words, '') FROM calls
        LEFT JOIN tags USING (recording, "start", "end") WHERE calls.id = NEW.call; END;
CREATE TRIGGER answer_removed AFTER DELETE ON answers BEGIN
    INSERT INTO words (words, rowid, caption, tags)
    SELECT 'delete', OLD.call, OLD.text, coalesce(tags.words, '') FROM calls
        LEFT JOIN tags USING (recording, "start", "end") WHERE calls.id = OLD.call; END;
CREATE TRIGGER tags_added AFTER INSERT ON tags BEGIN
    INSERT INTO words (words, rowid, caption, tags) SELECT 'delete', call, text, ''
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) SELECT call, text, NEW.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) VALUES (-NEW.id, '', NEW.words); END;
CREATE TRIGGER tags_changed AFTER UPDATE OF words ON tags WHEN OLD.words <> NEW.words BEGIN
    INSERT INTO words (words, rowid, caption, tags) SELECT 'delete', call, text, OLD.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (rowid, caption, tags) SELECT call, text, NEW.words
        FROM captions WHERE recording = NEW.recording AND "start" = NEW."start"
        AND "end" = NEW."end";
    INSERT INTO words (words, rowid, caption, tags) VALUES ('delete', -OLD.id, '', OLD.words);
    INSERT INTO words (rowid, caption, tags) VALUES (-NEW.id, '', NEW.words); END;
CREATE TRIGGER tags_removed AFTER DELETE ON tags BEGIN
    INSERT INTO words (words, rowid, caption, tags) VALUES ('delete', -OLD.id, '', OLD.words); END;
"""

_HAS_TABLES = "SELECT EXISTS (SELECT 1 FROM sqlite_schema)"


def connect(folder: Path, *, to_write: bool) -> sqlite3.Connection:
    if not to_write:
        require_run(folder)
    with explain_errors(folder):
        if to_write:
            folder.mkdir(parents=True, exist_ok=True)
        connection = _open(folder / FILE, to_write=to_write)
        try:
            _check(connection, folder, to_write)
            if to_write:
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def require_run(folder: Path) -> None:
    if not (folder / FILE).is_file():
        raise RunError(f"no run in {folder}: it has no {FILE}; give the folder of a run")


def _open(path: Path, *, to_write: bool) -> sqlite3.Connection:
    mode = "mode=rwc"
    if not to_write:
        # A medium that cannot be written to has no room for the files that readers share.
        is_still = not os.access(path.parent, os.W_OK) and not Path(f"{path}-wal").exists()
        mode = "immutable=1" if is_still else "mode=ro"
    address = f"{path.resolve().as_uri()}?{mode}"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout = {round(BUSY_TIMEOUT * 1000)}")
    return connection


def _check(connection: sqlite3.Connection, folder: Path, to_write: bool) -> None:
    if to_write and not connection.execute(_HAS_TABLES).fetchone()[0]:
        connection.execute("PRAGMA journal_mode = WAL")
        # All the tables in one transaction: a killed process leaves all of them or none.
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            f"{TABLES} COMMIT;"
        )
        return
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise RunError(f"{folder / FILE} is not a run of earmark; choose another folder")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise RunError(
            f"the run in {folder} was made by another version of earmark (tables {version}, this "
            f"one uses {VERSION}): use that version, or run the command again into a new folder"
        )


def has_tables(folder: Path) -> bool:
    """A process killed early leaves none."""
    if not (folder / FILE).is_file():
        return False
    with explain_errors(folder), closing(_open(folder / FILE, to_write=False)) as connection:
        return bool(connection.execute(_HAS_TABLES).fetchone()[0])


def copy_run(folder: Path, into: Path) -> None:
    with (
        explain_errors(folder),
        closing(connect(folder, to_write=False)) as connection,
        closing(_open(into / FILE, to_write=True)) as copy,
    ):
        connection.backup(copy)


@contextmanager
def explain_errors(folder: Path) -> Iterator[None]:
    """Errors of SQLite and the file system become one clear line about the run."""
    try:
        yield
    except sqlite3.Error as error:
        raise RunError(_explain(error, folder)) from error
    except OSError as error:
        raise RunError(f"cannot use the run folder {folder}: {error.strerror}") from error


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All that is written in the block is committed when it ends, or none of it."""
    try:  # Ctrl-C is raised when BEGIN returns, and must not leave the transaction open
        database.execute("BEGIN IMMEDIATE")
        yield database
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_full(error: BaseException | None) -> bool:
    code = _code_of(error)
    # SQLITE_FULL, or SQLITE_IOERR while writing, as a quota or a size limit shows, or while the
    # file is made that processes share, as opening a run on a full disk does.
    lacks_room = (sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
    return code & 0xFF == sqlite3.SQLITE_FULL or code in lacks_room


def is_disk_error(error: BaseException | None) -> bool:
    return _code_of(error) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _code_of(error: BaseException | None) -> int:
    return getattr(error, "sqlite_errorcode", 0) or 0


def _explain(error: sqlite3.Error, folder: Path) -> str:
    code = _code_of(error) & 0xFF
    if is_full(error):
        return f"no room left for the run in {folder}: free some space and run it again"
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return (
            f"the database of the run in {folder} is damaged ({error}): recover it with "
            f"`sqlite3 {FILE} .recover`, restore a copy, or choose another folder"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"the run in {folder} cannot be opened here ({error}): check its permissions"
    return f"the database of the run in {folder} failed: {error}"
