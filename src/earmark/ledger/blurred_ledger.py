"""The ledger of a run whose pictures are to be blurred."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from earmark.captioning.question import Question
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.blurred_pictures import blur_run
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.models import ModelStore


def blur_of(run: Run, asked: FaceBlur | None, store: ModelStore) -> FaceBlur | None:
    """What is blurred in what is shown of `run`: what it has blurred, and what is `asked` for."""
    return FaceBlur(store) if asked or run.is_blurred else None


def open_ledger(folder: Path, described: Mapping[str, Any], question: Question) -> Ledger:
    """The ledger of the run in `folder`, whose pictures are blurred if those of `question` are.

    Raises:
        LedgerError: another process has it, or it cannot be used.
        ModelMissing: what finds faces is not here.
    """
    ledger = Ledger.open(folder, described)
    try:
        if question.blur:
            blur_run(folder, question.blur)
    except BaseException:
        ledger.close()
        raise
    return ledger
