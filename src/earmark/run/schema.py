"""How the database of a run is opened; its tables are in `schema.sql`.

The journal is a write-ahead log with `synchronous = NORMAL`: a commit is handed to the operating
system before it returns, so a killed process loses nothing it committed. The outcome of a call is
committed with `synchronous = FULL`: it is on the disk, and survives a power cut.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path

from earmark.errors import RunError

FILE = "run.db"

VERSION = 4

BUSY_TIMEOUT = 10.0
"""Seconds."""

APPLICATION = 0x6561726D

OWN_NAMES = (
    *(FILE, f"{FILE}-wal", f"{FILE}-shm", "run.lock", "run.reserve", "sources.json"),
    *("report.html", "report_pictures", "recordings", "meaning.npy"),
)
"""Files and folders that earmark writes in the folder of a run."""

_SCHEMA = "SELECT name, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*' ORDER BY type, name"


def connect(folder: Path, *, to_write: bool) -> sqlite3.Connection:
    if not to_write:
        require_run(folder)
    refuse_links(folder)
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


def refuse_links(folder: Path) -> None:
    """A run from somebody else must not make earmark write to another place."""
    for name in OWN_NAMES:
        if (folder / name).is_symlink():
            raise RunError(f"{folder / name} is a link, and a run has none: delete the link")


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
    if to_write and not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        connection.execute("PRAGMA journal_mode = WAL")
        # All the tables in one transaction: a killed process leaves all of them or none.
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION};"
            f"{read_sql('schema.sql')} COMMIT;"
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
    # Views and triggers of somebody else could hang a reader, or change what is stored.
    if connection.execute(_SCHEMA).fetchall() != _own_schema():
        raise RunError(f"{folder / FILE} has other tables than a run; choose another folder")


@cache
def _own_schema() -> list[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(read_sql("schema.sql"))
        return connection.execute(_SCHEMA).fetchall()


def read_sql(name: str) -> str:
    return files("earmark.run").joinpath(name).read_text(encoding="utf-8")


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
