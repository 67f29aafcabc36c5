"""Works on an existing run: resumes it, reopens its recordings, asks about one window of it.

a folder ──▶ its run.db ──▶ the plan, the question and the recordings to resume with
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.captioning.captioner import Captioner, ModelAddress
from earmark.captioning.dispatch import Tally
from earmark.captioning.request import Question, Request, Task
from earmark.errors import MediaError, RunError
from earmark.evidence.sound_names import name_sounds, sounds_in
from earmark.features.sound_tags import MAX_TAGS, class_names
from earmark.media import Recording, open_recording
from earmark.media.source import is_below, is_remote, place_of, stored_path
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.session import Session
from earmark.redaction import is_redacted
from earmark.report.run_report import write_report
from earmark.run.records import HeardRow, RecordingRow, differences
from earmark.run.run import Run, blur_of
from earmark.run.schema import FILE
from earmark.run.tasks import CallRecorder
from earmark.selection.pick import Pick, explain
from earmark.settings import Folders
from earmark.timeline import Span

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


def reopen(
    row: RecordingRow, heard: HeardRow | None = None, *, folders: Folders | None = None
) -> Recording:
    """`MediaError` if it cannot be opened, or has changed since the run.

    A run may come from anybody, so an address that it names is asked only if `folders` allow it.
    """
    if any(map(is_redacted, row.source.uris)):
        raise MediaError(
            f"{row.path} cannot be reopened: the secret part of its address was not stored; "
            "give the address to `earmark caption` again"
        )
    addresses = folders.addresses if folders else ""
    for uri in row.source.uris:
        if is_remote(uri) and not is_below(uri, addresses):
            raise MediaError(
                f"the run names {place_of(uri)}: if you trust that address, allow it with "
                f"`--addresses {place_of(uri).rpartition('/')[0]}`"
            )
    recording = open_recording(row.source, audio_track=heard.audio_track if heard else 0)
    if recording.key != (row.content or row.id):
        raise MediaError(f"{row.path} has changed since the run; run `earmark caption` on it again")
    return replace(recording, first_key=row.id)


def reopen_all(
    run: Run, rows: Iterable[RecordingRow], folders: Folders
) -> tuple[dict[str, Recording], list[MediaError]]:
    """By id, and why others cannot be reopened; `MediaError` if none can."""
    recordings, failures = {}, []
    for row in rows:
        try:
            recordings[row.id] = reopen(row, run.heard(row.id), folders=folders)
        except MediaError as error:
            failures.append(error)
    if failures and not recordings:
        raise failures[0]
    return recordings, failures


@dataclass(frozen=True, slots=True)
class WindowQuote:
    span: Span
    tokens: int
    money: float
    model: str
    is_answered: bool


def quote_window(run: Run, recording: str, time: float, plan: Session, model: str) -> WindowQuote:
    """Makes no call."""
    pick = window_at(_heard(run, recording), time)
    speech = list(run.evidence(recording, kinds=("said",)))
    longest = max(class_names("audioset"), key=len)  # which sounds it has, only listening tells
    names = {pick.span: (longest,) * MAX_TAGS} if run.plan().get("sounds") else {}
    sounds = sounds_in([pick.span], level=None, names=names, said=speech)[pick.span]
    request = Request.about(recording, pick, _question(run, plan), sounds, model)
    answers = run.answers(recording, pick.span)
    return WindowQuote(
        span=pick.span,
        tokens=sum(request.most_tokens),
        money=plan.settings.limits.price(*request.most_tokens),
        model=model,
        is_answered=any(answer.kind == "caption" and answer.model == model for answer in answers),
    )


def ask_window(
    folder: Path, recording: str, time: float, plan: Session, captioner: Captioner, *, reason: str
) -> Tally:
    """Ask about the window at `time`, and store it as a pick of the run's current plan.

    The question is that of the run; limits and prices are those of `plan`.
    """
    with Run(folder) as run:
        row, described = run.recording(recording), run.plan()
        if row is None:
            raise ValueError(f"the run does not know the recording {recording!r}")
        heard, question = _heard(run, recording), _question(run, plan)
        speech = list(run.evidence(recording, kinds=("said",)))
        blur_report(run, question.blur)
    opened = reopen(row, heard, folders=plan.settings.folders)
    pick = window_at(heard, time, reason=reason)
    namer = plan.with_evidence().namer if described.get("sounds") else None
    ((names, _),) = name_sounds(namer, [(opened, [pick.span])], InProcessBackend().map)
    sounds = sounds_in([pick.span], level=heard.level, names=names, said=speech)[pick.span]
    request = Request.about(recording, pick, question, sounds, captioner.model)
    with Run(folder, described, blur=question.blur) as run:
        run.add_pick(recording, pick, sounds.tags)
        waiting = run.unanswered([request])
        log = CallRecorder(plan.settings.limits, run, run.spent(), len(waiting))
        tasks = [Task(opened, request)] if waiting else []
        return InProcessBackend().ask(iter(tasks), captioner, log)


def window_at(heard: HeardRow, time: float, *, reason: str = "asked by hand") -> Pick:
    """A pick that adds nothing to the forecast; `ValueError` if `time` is outside the recording."""
    if not (math.isfinite(time) and 0 <= time < heard.duration):
        raise ValueError(f"there is no window at {time:g} s of {heard.duration:g} s")
    index = min(int(time // heard.length), len(heard) - 1)
    (pick,) = explain(heard, [index], lambda *_: reason)
    return replace(pick, expected=0.0)


def _heard(run: Run, recording: str) -> HeardRow:
    heard = run.heard(recording)
    if not heard:
        raise ValueError(f"the run has not listened to the recording {recording!r}")
    return heard


def _question(run: Run, plan: Session) -> Question:
    return question_of(run, plan) if "ask" in run.plan() else plan.question
