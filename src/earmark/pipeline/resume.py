"""Resumes an existing run: its question, its blurring of faces, its recordings, only what failed.

a folder ──▶ its ledger ──▶ the plan, the question and the recordings to resume with
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.captioning.question import Question
from earmark.errors import LedgerError, MediaError
from earmark.ledger.blurred_ledger import blur_of
from earmark.ledger.records import RecordingRow
from earmark.ledger.row_values import differences
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE
from earmark.media import Recording, open_recording
from earmark.media.source import stored_path
from earmark.pipeline.run_plan import Plan
from earmark.redaction import is_redacted
from earmark.reporting.run_report import write_report

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur


def resume(plan: Plan, folder: str | Path, *, retry_failed: bool = False) -> Plan:
    """The plan with which to start or resume the run in `folder`.

    Faces are blurred if the run has them blurred, and the models that name sounds, texts and
    objects are attached if they are installed. `retry_failed` limits the plan to recordings that
    failed or had failed calls. It keeps all recordings if they share one budget, because the
    price depends on all of them, and if none failed, because then every answer is stored already.

    Raises:
        LedgerError: `retry_failed` is given, and the run was made with other choices.
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
            f"{wanted.get(name)!r} here; repeat them, or leave out --retry-failed "
            "(in Python: retry_failed)"
        )
    if not places or plan.across:
        return plan
    failed = [source for source in plan.sources() if stored_path(source.uris[0]) in places]
    return replace(plan, paths=failed)


def blurred_like(plan: Plan, folder: str | Path) -> Plan:
    """The plan, with faces blurred if the run in `folder` has them blurred."""
    if plan.question.blur:
        return plan
    with Run(Path(folder)) as run:
        blur = blur_of(run, None, plan.store)
    return replace(plan, question=replace(plan.question, blur=blur))


def blur_report(run: Run, blur: FaceBlur | None) -> None:
    """Write the report of `run` again with its pictures blurred, if it has one and they are not.

    Before the run is blurred, so that a process killed in between leaves it to the next.
    """
    page = run.folder / "report.html"
    if blur is None or run.is_blurred or not page.is_file():
        return
    blur.check()
    with Run(run.folder, blur=blur) as blurred:
        write_report(blurred, page)


def question_of(run: Run, plan: Plan) -> Question:
    """The question of `run`, with faces blurred if the run or `plan` says so.

    Raises:
        LedgerError: the run stores no question.
    """
    kept = run.plan()
    if "ask" not in kept:
        raise LedgerError(f"{run.folder} holds no plan to ask by; make it with `earmark caption`")
    question = Question.from_json(kept["ask"])
    return replace(question, blur=blur_of(run, plan.question.blur, plan.store))


def reopen(run: Run, row: RecordingRow) -> Recording:
    """The recording of `row`, opened with the audio track that `run` listened to.

    Raises:
        MediaError: it cannot be opened, or has changed since the run.
    """
    if any(map(is_redacted, row.source.uris)):
        raise MediaError(
            f"{row.path} cannot be opened again: what is secret in its address was not kept; "
            "give the address to `earmark caption`, for a batch with `--engine batch --batch FILE`"
        )
    heard = run.heard(row.id)
    recording = open_recording(row.source, audio_track=heard.audio_track if heard else 0)
    if recording.key != row.id:
        raise MediaError(f"{row.path} has changed since the run; run `earmark caption` on it again")
    return recording
