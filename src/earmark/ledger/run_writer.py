"""The one connection that writes a run: what it commits survives a kill and a full disk.

A transaction is complete or absent. The outcome of a call is on the disk before the next step; disk
space is reserved for it, so that a full disk does not cost the answers still in flight.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.errors import LedgerError
from earmark.ledger.blurred_ledger import blur_run
from earmark.ledger.row_values import count_interrupted, index_again, remember_plan
from earmark.ledger.run_lock import lock_run
from earmark.ledger.schema import connect, explain_errors, is_disk_error, is_full, transaction

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur

RESERVE = "run.reserve"
"""The disk reserve: a file of zeros beside the database, dropped when there is no other room."""

RESERVE_BYTES = 1 << 20
"""Enough for the answers of some dozens of calls."""

Write = Callable[[sqlite3.Connection], object]
"""Writes something in an open transaction."""


class RunWriter:
    """Holds and writes one run; safe to use from several threads."""

    def __init__(
        self, folder: Path, plan: Mapping[str, Any], *, blur: FaceBlur | None = None
    ) -> None:
        """Create the run in `folder`, or resume it under `plan` (anything JSON can hold).

        All its pictures are blurred from here if there is a `blur`. A `LedgerError`: another
        process has it, it is damaged or of another version, no room.
        """
        self.folder = folder
        self._thread_lock = threading.RLock()
        self._reserve = folder / RESERVE
        self._is_full = False
        self._waiting: list[Write] | None = None
        with ExitStack() as held:
            held.callback(lock_run(folder).close)
            self._connection = connect(folder, to_write=True)
            held.callback(self._connection.close)
            with explain_errors(folder):
                if not self._reserve.exists() or self._reserve.stat().st_size != RESERVE_BYTES:
                    self._reserve.write_bytes(bytes(RESERVE_BYTES))
            with self._transaction() as database:
                self._plan = remember_plan(database, plan)
                self.interrupted = count_interrupted(database)
                """Calls in flight when an earlier process died; they may be asked twice."""
                index_again(database)
            held.callback(self._index_again)
            if blur:
                blur_run(folder, blur)
            self._held = held.pop_all()

    def close(self, *_: object) -> None:
        """Close the run; it can be opened again."""
        with self._thread_lock:
            self._held.close()

    __exit__ = close

    def _index_again(self) -> None:
        """The last step: if it fails, as on a full disk, the next process takes it."""
        with suppress(LedgerError), self._transaction() as database:
            index_again(database)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Outcomes of calls within the block are committed and synced once, when it ends.

        So answers that arrive together cost one sync. If they cannot be written together, they are
        written one by one, and the first error is raised.
        """
        with self._thread_lock:
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
        with suppress(LedgerError, ValueError):
            self._write_durably(lambda database: [write(database) for write in writes])
            writes = ()
        for write in writes:
            try:
                self._write_durably(write)
            except (LedgerError, ValueError) as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def _write_durably(self, write: Write) -> None:
        """Write the outcome of a call and sync it to the disk; tried twice where the disk fails.

        On a full disk the reserve is deleted first, and the journal is written to the database.
        """
        if self._waiting is not None:
            self._waiting.append(write)
            return
        try:
            with self._transaction(is_synced=True) as database:
                write(database)
        except LedgerError as error:
            if not is_disk_error(error.__cause__):
                raise
            if is_full(error.__cause__) and not self._is_full:
                self._is_full = True
                self._reserve.unlink(missing_ok=True)
                with self._thread_lock, suppress(sqlite3.Error):  # the reserve was room enough
                    self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            with self._transaction(is_synced=True) as database:
                write(database)

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with self._thread_lock, explain_errors(self.folder):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self, *, is_synced: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it committed when the block ends, or none of it.

        One that `is_synced` is on the disk then, and so is all that was committed before it.
        """
        with self._thread_lock, explain_errors(self.folder):
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if is_synced else 'NORMAL'}")
            with transaction(self._connection) as database:
                yield database
