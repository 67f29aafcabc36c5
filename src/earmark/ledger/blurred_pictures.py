"""A run whose pictures are blurred: once it is, it stays so, and keeps no other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.schema import clearly, connect

NOTE = "blur"
"""Where a run says what is blurred in it."""


def blur_run(folder: Path, blur: FaceBlur) -> None:
    """Note that pictures of the run in `folder` are blurred, and blur those it keeps already.

    What they showed before is overwritten in its database. Nothing is done where it was before.

    Raises:
        ModelMissing: what finds faces is not here.
        LedgerError: there is no run, or it cannot be written.
    """
    with closing(connect(folder, to_write=True)) as database, clearly(folder):
        if database.execute("SELECT 1 FROM notes WHERE name = ?", (NOTE,)).fetchone():
            return
        blur.check()
        database.execute("PRAGMA secure_delete = ON")
        kept = database.execute(
            "SELECT rowid, thumbnail FROM frames WHERE thumbnail <> x''"
        ).fetchall()
        changes = ((blur.jpeg(picture), row) for row, picture in kept)
        database.execute("BEGIN IMMEDIATE")
        database.executemany("UPDATE frames SET thumbnail = ? WHERE rowid = ?", changes)
        database.execute("INSERT INTO notes VALUES (?, ?)", (NOTE, blur.name))
        database.execute("COMMIT")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
