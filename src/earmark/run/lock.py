"""One process at a time on a run.

The lock is SQLite's own exclusive lock on an empty file beside the database. The operating system
lets go of it when the process ends, however it ends, so a dead process's lock is simply free.
Readers are not held up: they never touch this file.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from earmark.errors import RunError
from earmark.run.schema import FILE, explain_errors

LOCK = "run.lock"

PATIENCE = 0.2
"""Seconds to wait for a lock: longer than `is_at_work` of another process takes."""


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
