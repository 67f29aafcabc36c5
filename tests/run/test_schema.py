"""How a run's database is opened, and what its faults are called."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from earmark.errors import RunError
from earmark.run.corrections import withdraw
from earmark.run.database import LOCK
from earmark.run.run import Run
from earmark.run.schema import (
    FILE,
    connect,
    copy_run,
    explain_errors,
    is_disk_error,
    is_full,
    transaction,
)
from small_runs import open_run


def failure(code: int) -> sqlite3.OperationalError:
    """What SQLite raises, with a code of its own."""
    error = sqlite3.OperationalError("as it says")
    error.sqlite_errorcode = code
    return error


def test_who_writes_is_held_to_what_tables_refer_to(tmp_path: Path):
    with open_run(tmp_path):
        pass
    with closing(connect(tmp_path, to_write=True)) as database:
        assert database.execute("PRAGMA synchronous").fetchone() == (1,), "NORMAL"
        assert database.execute("PRAGMA busy_timeout").fetchone() == (10_000,)
        with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
            database.execute("INSERT INTO choices VALUES (99, 99, '', NULL, '', NULL)")
    with (
        closing(connect(tmp_path, to_write=False)) as database,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        database.execute("DELETE FROM notes")


@pytest.mark.parametrize(
    "read",
    [
        Run,
        Run.resume,
        lambda folder: copy_run(folder, folder.parent),
        lambda folder: withdraw(folder, 1),
    ],
    ids=["run", "resume", "copy", "correction"],
)
def test_who_reads_makes_no_run(tmp_path: Path, read):
    with pytest.raises(RunError, match=r"no run in .*: it has no run.db"):
        read(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("use", [Run, Run.resume, lambda folder: Run(folder, {})])
def test_a_run_of_another_version_is_left_alone_and_one_line_says_what_to_do(tmp_path: Path, use):
    open_run(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        database.execute("PRAGMA user_version = 6")
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(RunError, match=r"another version of earmark .*into a new folder") as caught:
        use(tmp_path)
    assert "\n" not in str(caught.value)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_copy_is_the_run_as_it_stands(tmp_path: Path):
    (tmp_path / "copy").mkdir()
    with open_run(tmp_path / "run"):
        copy_run(tmp_path / "run", tmp_path / "copy")
    with Run(tmp_path / "copy") as run:
        assert [one.id for one in run.recordings()] == ["a"]


@pytest.mark.parametrize(
    ("code", "words", "full", "disk"),
    [
        (sqlite3.SQLITE_FULL, "no room left", True, True),
        (sqlite3.SQLITE_IOERR_WRITE, "no room left", True, True),
        (sqlite3.SQLITE_IOERR_SHMSIZE, "no room left", True, True),
        (sqlite3.SQLITE_IOERR_READ, "failed: as it says", False, True),
        (sqlite3.SQLITE_CORRUPT, "is damaged", False, False),
        (sqlite3.SQLITE_CORRUPT_INDEX, "is damaged", False, False),
        (sqlite3.SQLITE_NOTADB, "is damaged", False, False),
        (sqlite3.SQLITE_READONLY, "check its permissions", False, False),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, "check its permissions", False, False),
        (sqlite3.SQLITE_BUSY, "failed: as it says", False, False),
    ],
)
def test_every_fault_has_its_line(tmp_path: Path, code: int, words: str, full: bool, disk: bool):
    error = failure(code)
    assert (is_full(error), is_disk_error(error)) == (full, disk)
    with pytest.raises(RunError, match=words) as caught, explain_errors(tmp_path):
        raise error
    assert caught.value.__cause__ is error


def test_what_is_no_fault_of_sqlite_s_is_none_of_the_disk_s(tmp_path: Path):
    for error in (None, ValueError(), sqlite3.OperationalError()):
        assert not is_full(error) and not is_disk_error(error)
    with pytest.raises(RunError, match=r"cannot use the run folder .*: Not a directory"):
        (tmp_path / "file").touch()
        connect(tmp_path / "file" / "run", to_write=True)


def test_what_cannot_be_opened_leaves_no_connection_open(tmp_path: Path, monkeypatch):
    """Neither a run that is damaged nor its lock."""
    for name in ("damaged", "locked", "whole"):
        Run(tmp_path / name, {}).close()
    path = tmp_path / "damaged" / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    (tmp_path / "locked" / LOCK).write_bytes(b"no lock" * 1000)
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*given: Any, **how: Any) -> sqlite3.Connection:
        opened.append(connect(*given, **how))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    for opening in (
        lambda: Run(tmp_path / "damaged"),
        lambda: copy_run(tmp_path / "whole", tmp_path / "nowhere"),
        lambda: Run(tmp_path / "locked", {}),
    ):
        before = len(opened)
        with pytest.raises(RunError):
            opening()
        assert len(opened) > before
        for connection in opened[before:]:
            with pytest.raises(sqlite3.ProgrammingError, match="closed"):
                connection.execute("SELECT 1")


def test_an_interrupt_at_the_start_of_a_transaction_does_not_leave_it_open():
    class Interrupted(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> Any:
            result = super().execute(statement, *values)
            if statement.startswith("BEGIN"):
                raise KeyboardInterrupt
            return result

    with closing(
        sqlite3.connect(":memory:", isolation_level=None, factory=Interrupted)
    ) as database:
        with pytest.raises(KeyboardInterrupt), transaction(database):
            pass
        assert not database.in_transaction
