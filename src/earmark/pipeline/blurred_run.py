"""Runs whose pictures are blurred: whoever goes on with one blurs too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from earmark.captioning.question import Question
from earmark.errors import LedgerError
from earmark.ledger.blurred_ledger import blur_of
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE
from earmark.pipeline.run_plan import Plan


def blurred_like(plan: Plan, folder: str | Path) -> Plan:
    """The plan, with faces blurred where the run in `folder` has them blurred."""
    if plan.question.blur or not Path(folder, FILE).is_file():
        return plan
    with Run.open(Path(folder)) as run:
        blur = blur_of(run, plan.question.blur, plan.store)
    return replace(plan, question=replace(plan.question, blur=blur))


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
