"""Asks about one window that a user chose by hand, and tells its price in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from earmark.captioning.captioner import Captioner
from earmark.captioning.question import Question
from earmark.captioning.request import Request, Task
from earmark.captioning.usage import Tally
from earmark.evidence.sound_names import name_sounds, sounds_in
from earmark.features.sound_tags import MAX_TAGS, class_names
from earmark.gate.frontline import everyday
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.resume import blur_report, question_of, reopen
from earmark.pipeline.session import Session
from earmark.run.records import HeardRow
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder
from earmark.selection.pick import Pick, explain
from earmark.timeline import Span


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
    opened = reopen(row, heard)
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
    windows = heard.windows(everyday())
    index = min(int(time // windows.length), len(windows) - 1)
    (pick,) = explain(windows, [index], lambda *_: reason)
    return replace(pick, expected=0.0)


def _heard(run: Run, recording: str) -> HeardRow:
    heard = run.heard(recording)
    if heard is None:
        raise ValueError(f"the run has not listened to the recording {recording!r}")
    return heard


def _question(run: Run, plan: Session) -> Question:
    return question_of(run, plan) if "ask" in run.plan() else plan.question
