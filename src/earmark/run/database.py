"""The connections of a run: what it commits survives a kill and a full disk.

A run that is written has two: one that writes, from any thread, and one that reads what is
committed. A transaction is complete or absent. The outcome of a call is on the disk before the next
step; disk space is reserved for it, so that a full disk does not cost the answers still in flight.

One process at a time writes a run. Its lock is SQLite's own exclusive lock on an empty file beside
the database: the operating system releases it when the process ends, however it ends. Readers never
touch this file.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from earmark.errors import RunError
from earmark.media.source import storable_text
from earmark.redaction import map_texts, redact
from earmark.run.schema import (
    FILE,
    connect,
    explain_errors,
    is_disk_error,
    is_full,
    refuse_links,
    transaction,
)

RESERVE = "run.reserve"
"""A file of zeros beside the database, deleted when there is no other room."""

RESERVE_BYTES = 1 << 20
"""Enough for the answers of some dozens of calls."""

LOCK = "run.lock"

PATIENCE = 0.2
"""Seconds to wait for a lock: longer than `is_at_work` of another process takes."""

Write = Callable[[sqlite3.Connection], object]


class RunDatabase:
    def __init__(self, folder: Path, plan: Mapping[str, Any] | None = None) -> None:
        self.folder = folder
        self.interrupted = 0
        """Calls in flight when an earlier process died; they may be asked twice."""
        self._is_full = False
        self._waiting: list[Write] | None = None
        self._write_lock, self._read_lock = threading.RLock(), threading.Lock()
        self._writer: sqlite3.Connection | None = None
        with ExitStack() as stack:
            if plan is not None:
                stack.callback(lock_run(folder).close)
                self._writer = stack.enter_context(closing(connect(folder, to_write=True)))
                self._begin(plan)
            # Closed before the writer, which then clears the journal.
            self._reader = stack.enter_context(closing(connect(folder, to_write=False)))
            self._reader.row_factory = sqlite3.Row
            self.refresh()
            self._resources = stack.pop_all()

    def close(self, *_: object) -> None:
        with self._write_lock:
            self._resources.close()

    __exit__ = close

    def _begin(self, plan: Mapping[str, Any]) -> None:
        reserve = self.folder / RESERVE
        with explain_errors(self.folder):
            if not reserve.exists() or reserve.stat().st_size != RESERVE_BYTES:
                reserve.write_bytes(bytes(RESERVE_BYTES))
        with self.writing() as database:
            remember_plan(database, plan)
            lost = (
                "UPDATE calls SET state = 'interrupted', interrupted = interrupted + 1"
                " WHERE state = 'in flight'"
            )
            self.interrupted = database.execute(lost).rowcount

    def refresh(self) -> None:
        row = self._row("SELECT value FROM notes WHERE name = 'plan'")
        self.plan_number = int(row[0]) if row else 0

    def rows(self, query: str, *values: object) -> list[Any]:
        with self._read_lock, explain_errors(self.folder):
            return self._reader.execute(query, values).fetchall()

    def stream(self, query: str, *values: object) -> Iterator[Any]:
        """Until the last row, reads see the run as it was."""
        with explain_errors(self.folder):
            cursor = self._reader.execute(query, values)
            # Not the cursor itself: an abandoned one would be closed late, after its database.
            yield from (row for row in cursor)

    def _row(self, query: str, *values: object) -> Any:
        return next(iter(self.rows(query, *values)), None)

    def _values(self, query: str, *values: object) -> set[str]:
        return {value for (value,) in self.rows(query, *values)}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Outcomes within the block are committed and synced once, when it ends.

        If they cannot be written together, they are written one by one, and the first error is
        raised.
        """
        with self._write_lock:
            if self._waiting is not None:
                yield
                return
            self._waiting = []
            try:
                yield
            finally:
                writes, self._waiting = self._waiting, None
                self._write_all(writes)

    def _write_all(self, writes: Sequence[Write]) -> None:
        errors: list[Exception] = []
        with suppress(RunError, ValueError):
            self._write_durably(lambda database: [write(database) for write in writes])
            writes = ()
        for write in writes:
            try:
                self._write_durably(write)
            except (RunError, ValueError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def make_room(self) -> bool:
        """Whether the disk has room again, and if so reserve it; calls may then begin again."""
        scratch = self.folder / f"{RESERVE}.new"
        try:
            scratch.write_bytes(bytes(RESERVE_BYTES))
            scratch.replace(self.folder / RESERVE)
        except OSError:
            scratch.unlink(missing_ok=True)
            return False
        self._is_full = False
        return True

    def _write_durably(self, write: Write) -> None:
        """Write the outcome of a call and sync it to the disk; tried twice if the disk fails.

        On a full disk the reserve is deleted first, and the journal is written to the database.
        """
        if self._waiting is not None:
            self._waiting.append(write)
            return
        try:
            with self.writing(is_synced=True) as database:
                write(database)
        except RunError as error:
            if not is_disk_error(error.__cause__):
                raise
            if is_full(error.__cause__) and not self._is_full:
                self._is_full = True
                (self.folder / RESERVE).unlink(missing_ok=True)
                with self._write_lock, suppress(sqlite3.Error):  # the reserve was room enough
                    self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            with self.writing(is_synced=True) as database:
                write(database)

    @property
    def _database(self) -> sqlite3.Connection:
        if self._writer is None:
            raise ValueError(f"the run in {self.folder} is open for reading only")
        return self._writer

    @contextmanager
    def writing(self, *, is_synced: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it committed when the block ends, or none of it.

        One that `is_synced` is on the disk then, and so is all that was committed before it.
        """
        with self._write_lock, explain_errors(self.folder):
            self._database.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            with transaction(self._database) as database:
                yield database

    @contextmanager
    def erasing(self, *, again: str) -> Iterator[sqlite3.Connection]:
        """No byte of what it deletes stays in the run or in a temporary file."""
        with self._write_lock, explain_errors(self.folder):
            self._database.execute("PRAGMA secure_delete = ON")
            self._database.execute("PRAGMA temp_store = MEMORY")
            self._empty_journal(again)  # before anything is deleted: it must be possible
            with transaction(self._database) as database:
                yield database
                # An index keeps the words of deleted rows until it is merged.
                database.execute("INSERT INTO words (words) VALUES ('optimize')")
                database.execute("INSERT INTO evidence_words (evidence_words) VALUES ('optimize')")
            self._database.execute("VACUUM")
            self._empty_journal(again)

    def _empty_journal(self, again: str) -> None:
        is_busy, *_ = self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise RunError(
                f"another process is reading the run in {self.folder}: stop `earmark serve` and "
                f"whatever else reads it, then {again}"
            )


def is_at_work(folder: Path) -> bool:
    if not (folder / LOCK).is_file():
        return False
    address = f"{(folder / LOCK).resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, timeout=0, uri=True)) as connection:
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
    return False


def lock_run(folder: Path) -> sqlite3.Connection:
    """Holds the run until the connection is closed or the process ends."""
    refuse_links(folder)
    with explain_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = sqlite3.connect(
            folder / LOCK, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            lock.close()
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise RunError(
                f"the run in {folder} is in use by {_holder(folder)}: wait for it to end, "
                f"or choose another folder"
            ) from error
    return lock


def _holder(folder: Path) -> str:
    try:
        address = f"{(folder / FILE).resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            row = connection.execute("SELECT value FROM notes WHERE name = 'holder'").fetchone()
    except sqlite3.Error:
        return "another process"  # it has not come as far as making the tables
    return str(row[0]) if row else "another process"


def remember_plan(database: sqlite3.Connection, plan: Mapping[str, Any]) -> int:
    text = as_json(plan, sort_keys=True)
    database.execute("INSERT OR IGNORE INTO plans (plan, opened) VALUES (?, ?)", (text, now()))
    number = database.execute("SELECT id FROM plans WHERE plan = ?", (text,)).fetchone()[0]
    notes = {"plan": str(number), "holder": f"process {os.getpid()} on {platform.node()}"}
    database.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", notes.items())
    return int(number)


def number_of(database: sqlite3.Connection, recording: str) -> int:
    row = database.execute("SELECT number FROM recordings WHERE id = ?", (recording,)).fetchone()
    if row is None:
        raise ValueError(f"the run does not know the recording {recording!r}; add it first")
    return int(row[0])


def as_text(words: str) -> str:
    return redact(storable_text(words))


def as_json(value: object, *, sort_keys: bool = False) -> str:
    return json.dumps(map_texts(value, as_text), sort_keys=sort_keys, ensure_ascii=False)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
