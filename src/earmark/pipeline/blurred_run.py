"""Runs whose pictures are blurred: whoever goes on with one blurs too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from earmark.captioning.question import Question
from earmark.errors import LedgerError
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.blurred_pictures import blur_run
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE
from earmark.models import ModelStore
from earmark.pipeline.run_plan import Plan


def blurred_like(plan: Plan, folder: str | Path) -> Plan:
    """The plan, with faces blurred where the run in `folder` has them blurred."""
    if plan.question.blur or not Path(folder, FILE).is_file():
        return plan
    with Run.open(Path(folder)) as run:
        blur = blur_of(run, plan.question.blur, plan.store)
    return replace(plan, question=replace(plan.question, blur=blur))


def blur_of(run: Run, asked: FaceBlur | None, store: ModelStore) -> FaceBlur | None:
    """What is blurred in what is shown of `run`: what it has blurred, and what is `asked` for."""
    return FaceBlur(store) if asked or run.is_blurred else None


def question_of(run: Run, plan: Plan) -> Question:
    """How `run` asks, with faces blurred where it does, or `plan` wants it.

    Raises:
        LedgerError: the run does not say how it asks.
    """
    kept = run.plan()
    if "ask" not in kept:
        raise LedgerError(f"{run.folder} holds no plan to ask by; make it with `earmark caption`")
    question = Question.from_json(kept["ask"])
    return replace(question, blur=blur_of(run, plan.question.blur, plan.store))


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
