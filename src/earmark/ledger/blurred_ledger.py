"""Blurs the pictures that a run stores: a run that is blurred stays blurred."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.ledger.run_reader import BLURRED, Run
from earmark.ledger.schema import connect, explain_errors, transaction
from earmark.models import ModelStore

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur


def blur_of(run: Run, asked: FaceBlur | None, store: ModelStore) -> FaceBlur | None:
    """The blur for pictures of `run`: `asked` for, or because the run is blurred; else None."""
    if not asked and not run.is_blurred:
        return None
    from earmark.evidence.face_blur import FaceBlur

    return FaceBlur(store)


def blur_run(folder: Path, blur: FaceBlur) -> None:
    """Mark the run in `folder` as blurred, and blur the pictures that it stores.

    The old pictures are overwritten in the database. A run that is blurred already is unchanged.
    `ModelMissing` says that the face detector is not installed.
    """
    with closing(connect(folder, to_write=True)) as database, explain_errors(folder):
        if database.execute("SELECT 1 FROM notes WHERE name = ?", (BLURRED,)).fetchone():
            return
        blur.check()
        database.execute("PRAGMA secure_delete = ON")
        kept = database.execute(
            "SELECT rowid, thumbnail FROM frames WHERE thumbnail <> x''"
        ).fetchall()
        changes = ((blur.jpeg(picture), row) for row, picture in kept)
        with transaction(database):
            database.executemany("UPDATE frames SET thumbnail = ? WHERE rowid = ?", changes)
            database.execute("INSERT INTO notes VALUES (?, ?)", (BLURRED, blur.name))
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
