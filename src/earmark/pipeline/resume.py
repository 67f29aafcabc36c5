"""Resumes an existing run: its question, its blurring of faces, its recordings, only what failed.

a folder ──▶ its run.db ──▶ the plan, the question and the recordings to resume with
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.captioning.model_choice import ModelAddress
from earmark.captioning.question import Question
from earmark.errors import MediaError, RunError
from earmark.media import Recording, open_recording
from earmark.media.source import stored_path
from earmark.pipeline.session import Session
from earmark.redaction import is_redacted
from earmark.report.run_report import write_report
from earmark.run.records import HeardRow, RecordingRow, differences
from earmark.run.run import Run, blur_of
from earmark.run.schema import FILE

if TYPE_CHECKING:
    from earmark.evidence.face_blur import FaceBlur

PAGE = "report.html"
"""In the folder of a run."""


def resume(plan: Session, folder: str | Path, *, retry_failed: bool = False) -> Session:
    """The plan with which to start or resume the run in `folder`; faces blurred if the run's are.

    `retry_failed` limits it to recordings that failed or had failed calls; not if they share one
    budget, because the price depends on all of them. `RunError` if the run was made with other
    choices.
    """
    if Path(folder, FILE).is_file():
        plan = blurred_like(plan, folder)
    plan = plan.with_evidence()
    if not retry_failed:
        return plan
    with Run(Path(folder)) as run:
        failed_paths, before = run.failed_paths(), run.plan()
    model = ModelAddress.parse(plan.settings.model)
    now = plan.run_json(model.name or before["model"])
    if name := next(differences(before, json.loads(json.dumps(now))), None):
        raise RunError(
            f"{folder} was made with other settings: {name} is {before.get(name)!r} there and "
            f"{now.get(name)!r} here; use the same settings, or retry more than what failed"
        )
    if not failed_paths or plan.settings.across:
        return plan
    failed = [source for source in plan.sources() if stored_path(source.uris[0]) in failed_paths]
    return replace(plan, paths=failed)


def blurred_like(plan: Session, folder: str | Path) -> Session:
    if plan.question.blur:
        return plan
    with Run(Path(folder)) as run:
        blur = blur_of(run, None, plan.store)
    return replace(plan, question=replace(plan.question, blur=blur))


def blur_report(run: Run, blur: FaceBlur | None) -> None:
    """Before the run is blurred, so that a process killed in between leaves it to the next."""
    page = run.folder / PAGE
    if blur is None or run.is_blurred or not page.is_file():
        return
    blur.check()
    with Run(run.folder, blur=blur) as blurred:
        write_report(blurred, page)


def question_of(run: Run, plan: Session) -> Question:
    described = run.plan()
    if "ask" not in described:
        raise RunError(f"{run.folder} has no plan to ask with; create it with `earmark caption`")
    question = Question.from_json(described["ask"])
    return replace(question, blur=blur_of(run, plan.question.blur, plan.store))


def reopen(row: RecordingRow, heard: HeardRow | None = None) -> Recording:
    """`MediaError` if it cannot be opened, or has changed since the run."""
    if any(map(is_redacted, row.source.uris)):
        raise MediaError(
            f"{row.path} cannot be reopened: the secret part of its address was not stored; "
            "give the address to `earmark caption` again"
        )
    recording = open_recording(row.source, audio_track=heard.audio_track if heard else 0)
    if recording.key != row.id:
        raise MediaError(f"{row.path} has changed since the run; run `earmark caption` on it again")
    return recording
