"""Going on with a run: by its own choices, blurred as it is, and with what failed if that is asked.

a folder ──▶ what its ledger says ──▶ the plan, or the question, that goes on with it
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from earmark.captioning.question import Question
from earmark.errors import LedgerError
from earmark.ledger.blurred_ledger import blur_of
from earmark.ledger.row_values import differences
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE
from earmark.media.source import as_place
from earmark.pipeline.run_plan import Plan


def resume(plan: Plan, folder: str | Path, *, retry_failed: bool = False) -> Plan:
    """The plan ready to go on with the run in `folder`, which there may not be yet.

    Faces are blurred where the run has them blurred, and those are at hand who name sounds, texts
    and objects. To retry what failed is to do its recordings alone: all of them where they share a
    budget, whose price is found over all; and where none failed: they are answered, and nothing is
    asked.

    Raises:
        LedgerError: what failed is to be retried, and the run was made by other choices: its good
            recordings would not be in it.
    """
    if Path(folder, FILE).is_file():
        plan = blurred_like(plan, folder)
    plan = plan.with_evidence()
    if not retry_failed:
        return plan
    with Run(Path(folder)) as run:
        places, kept = run.failed_paths(), run.plan()
    wanted = plan.run_json(plan.model_choice.model or kept["model"])
    if name := next(differences(kept, json.loads(json.dumps(wanted))), None):
        raise LedgerError(
            f"{folder} was made by other choices: {name} is {kept.get(name)!r} there and "
            f"{wanted.get(name)!r} here; repeat them, or leave out --retry-failed"
        )
    if not places or plan.across:
        return plan
    failed = [source for source in plan.sources() if as_place(source.uris[0]) in places]
    return replace(plan, paths=failed)


def blurred_like(plan: Plan, folder: str | Path) -> Plan:
    """The plan, with faces blurred where the run in `folder` has them blurred."""
    if plan.question.blur:
        return plan
    with Run(Path(folder)) as run:
        blur = blur_of(run, None, plan.store)
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
