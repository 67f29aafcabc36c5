"""Asks about one window that a user chose by hand, and tells its price in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from earmark.captioning.captioner import Captioner
from earmark.captioning.question import Question
from earmark.captioning.request import Request, Task
from earmark.captioning.usage import Tally
from earmark.errors import LedgerError
from earmark.evidence.sound_names import name_sounds
from earmark.evidence.window_sounds import sounds_in
from earmark.features.pretrained.vocabulary import class_names
from earmark.features.sound_tags import MAX_TAGS
from earmark.gate.frontline import everyday
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import HeardRow, RecordingRow
from earmark.ledger.run_calls import CallRecorder
from earmark.ledger.run_reader import Run
from earmark.media import Recording, open_recording
from earmark.pipeline.backend import InProcessBackend
from earmark.pipeline.resume import blur_report, question_of
from earmark.pipeline.run_plan import Plan
from earmark.redaction import is_redacted
from earmark.selection.pick import Pick, explain
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class WindowQuote:
    """The most that asking about one window can cost."""

    span: Span
    tokens: int
    money: float
    model: str
    is_answered: bool
    """Whether this model has already answered about this window: asking again is free."""


def quote_window(run: Run, recording: str, time: float, plan: Plan, model: str) -> WindowQuote:
    """The most that asking `model` about the window at `time` can cost; makes no call.

    Raises:
        ValueError: the run has not listened to the recording, or it has no window at `time`.
    """
    pick = window_at(_heard(run, recording), time)
    said = list(run.evidence(recording, kinds=("said",)))
    longest = max(class_names("audioset"), key=len)  # which sounds it has, only listening tells
    names = {pick.span: (longest,) * MAX_TAGS} if run.plan().get("sounds") else {}
    sounds = sounds_in([pick.span], level=None, names=names, said=said)[pick.span]
    request = Request.about(recording, pick, _question(run, plan), sounds, model)
    kept = run.answers(recording, pick.span)
    return WindowQuote(
        span=pick.span,
        tokens=sum(request.most_tokens),
        money=plan.limits.price(*request.most_tokens),
        model=model,
        is_answered=any(one.answer.kind == "caption" and one.answer.model == model for one in kept),
    )


def ask_window(
    folder: Path, recording: str, time: float, plan: Plan, captioner: Captioner, *, reason: str
) -> Tally:
    """Ask about the window at `time`, and store it as a pick of the run's current plan.

    The question is that of the run; limits and prices are those of `plan`, and what the run has
    spent counts against a cap. A later run of the same plan does not pay for the window again.

    Raises:
        ValueError: the run does not know the recording, or it has no window at `time`.
        LedgerError: the run is in use, or its recording cannot be opened again.
    """
    with Run(folder) as run:
        row, described = run.recording(recording), run.plan()
        if row is None:
            raise ValueError(f"the run does not know the recording {recording!r}")
        heard, question = _heard(run, recording), _question(run, plan)
        said = list(run.evidence(recording, kinds=("said",)))
        blur_report(run, question.blur)
    opened = open_again(row, audio_track=heard.audio_track)
    pick = window_at(heard, time, reason=reason)
    namer = plan.with_evidence().namer if described.get("sounds") else None
    ((names, _),) = name_sounds(namer, [(opened, [pick.span])], InProcessBackend().map)
    sounds = sounds_in([pick.span], level=heard.level, names=names, said=said)[pick.span]
    request = Request.about(recording, pick, question, sounds, captioner.model)
    with Ledger(folder, described, blur=question.blur) as ledger:
        ledger.add_pick(recording, pick, sounds.tags)
        waiting = ledger.unanswered([request])
        log = CallRecorder(plan.limits, ledger, ledger.spent(), len(waiting))
        tasks = [Task(opened, request)] if waiting else []
        return InProcessBackend().ask(iter(tasks), captioner, plan.limits, log)


def window_at(heard: HeardRow, time: float, *, reason: str = "asked by hand") -> Pick:
    """The window at `time` as a pick that adds nothing to the forecast.

    With windows on a grid, the grid's window that contains `time`; with freely placed windows, the
    one centred on `time`.

    Raises:
        ValueError: `time` is outside the recording.
    """
    if not (math.isfinite(time) and 0 <= time < heard.duration):
        raise ValueError(f"there is no window at {time:g} s of {heard.duration:g} s")
    windows = heard.windows(everyday())
    length = windows.length
    start = max(0.0, time - length / 2) if windows.per_call > 1 else time // length * length
    place = min(windows.window_at(start), len(windows) - 1)
    (pick,) = explain(windows, [place], lambda *_: reason)
    return replace(pick, expected=0.0)


def open_again(row: RecordingRow, *, audio_track: int = 0) -> Recording:
    """The recording of `row`, opened at its stored address.

    Raises:
        LedgerError: the address was stored without its secrets, or the content has changed.
        MediaError: it cannot be read.
    """
    if any(map(is_redacted, row.source.uris)):
        raise LedgerError(f"the address of {row.path} was kept without its key; run the command")
    found = open_recording(row.source, audio_track=audio_track)
    if found.key != row.id:
        raise LedgerError(f"{row.path} is another recording by now; run the command on it again")
    return found


def _heard(run: Run, recording: str) -> HeardRow:
    heard = run.heard(recording)
    if heard is None:
        raise ValueError(f"the run has not listened to a recording {recording!r}")
    return heard


def _question(run: Run, plan: Plan) -> Question:
    """The question of the run; that of `plan` if the run has none."""
    return question_of(run, plan) if "ask" in run.plan() else plan.question
