"""Room set aside, so that a full disk does not cost the answers still in flight."""

from __future__ import annotations

from pathlib import Path

from earmark.ledger.schema import clearly

SIZE_BYTES = 1 << 20
"""Enough for the answers of some dozens of calls."""


class DiskReserve:
    """A file of zeros beside the database, dropped when there is no other room."""

    def __init__(self, folder: Path) -> None:
        """Set the room aside, or find it set aside.

        Raises:
            LedgerError: There is not even this much room.
        """
        self._path = folder / "run.reserve"
        with clearly(folder):
            if not self._path.exists() or self._path.stat().st_size != SIZE_BYTES:
                self._path.write_bytes(bytes(SIZE_BYTES))

    def drop(self) -> None:
        """Give the room back."""
        self._path.unlink(missing_ok=True)
