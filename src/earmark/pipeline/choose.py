"""Spends the budget on the stored windows; returns the picks that have no answer yet.

stored windows ──▶ allocate ──▶ picks ──▶ sounds named ──▶ run ──▶ Tasks
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from earmark.grid import Windows
from earmark.media import Recording
from earmark.pipeline.backend import Backend
from earmark.pipeline.session import Session
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder, StoredWindows, Tasks
from earmark.selection import Choice, allocate
from earmark.selection.pick import explain
from earmark.selection.result import forecast_coverage, recording_notes
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.evidence.sound_names import SoundNames
    from earmark.selection.answer_evidence import ObservedActivity
    from earmark.selection.rounds import Turn

logger = logging.getLogger(__name__)

NAMED_TOGETHER = 1024
"""Recordings per group in naming sounds: few enough for memory, and enough that starting the
workers, which happens once per group, takes a small share of the time with short files."""


@dataclass(frozen=True, slots=True)
class RunJob:
    plan: Session
    model: str
    recordings: Mapping[str, Recording]
    run: Run
    backend: Backend

    def allocate(self, windows: Collection[Windows]) -> Iterator[Choice]:
        plan, weights = self.plan, [one.source.weight for one in self.recordings.values()]
        return allocate(plan.rule, windows, plan.budget, across=plan.across, weights=weights)

    def ask(self, tasks: Tasks, captioner: Captioner, log: CallRecorder) -> None:
        log.calls += len(tasks)
        log.count_calls(log.tally, log.calls)
        logger.info("%d calls to make to %s", len(tasks), captioner.model)
        with closing(iter(tasks)) as waiting:
            self.backend.ask(waiting, captioner, self.plan.limits, log)


def choose_tasks(
    job: RunJob, spent: Iterator[Choice] | None = None, turn: Turn | None = None
) -> Tasks:
    """A round gives the choices `spent` on it, and its `turn`: see `earmark.pipeline.rounds`."""
    tasks = Tasks(job.plan.question, job.model, job.run, job.recordings)
    tasks.error = job.plan.forecast_error
    job.run.keep_forecast_error(tasks.error)
    if turn:
        tasks.lost, tasks.is_whole = turn.lost, turn.is_last
    if spent is None:
        spent = job.allocate(read_answers(job)[0])
    chosen = zip(job.recordings.values(), spent, strict=True)
    named = _name_sounds(job, chosen) if job.plan.namer else ((*each, {}) for each in chosen)
    number = turn.number if turn else None
    for one, choice, names in named:
        _keep_choice(job, one, choice, names=names, tasks=tasks, number=number)
    return tasks


def _name_sounds(
    job: RunJob, chosen: Iterator[tuple[Recording, Choice]]
) -> Iterator[tuple[Recording, Choice, SoundNames]]:
    from earmark.evidence.sound_names import name_sounds

    while some := list(islice(chosen, NAMED_TOGETHER)):
        spans = ((one, [pick.span for pick in choice.picks]) for one, choice in some)
        named = name_sounds(job.plan.namer, spans, job.backend.map)
        for (one, choice), (names, unnamed) in zip(some, named, strict=True):
            yield one, replace(choice, note="; ".join(filter(None, [choice.note, unnamed]))), names


def read_answers(
    job: RunJob, lost: Collection[tuple[str, Span]] = ()
) -> tuple[StoredWindows, list[list[ObservedActivity]]]:
    paid = {key: _paid_windows(job, one, lost) for key, one in job.recordings.items()}
    owned = {key: tuple(one.window for one in some) for key, some in paid.items()}
    windows = StoredWindows(job.run, job.plan.listening.survival, owned)
    return windows, list(paid.values())


def _paid_windows(
    job: RunJob, recording: Recording, lost: Collection[tuple[str, Span]]
) -> list[ObservedActivity]:
    """Paid are windows with a stored answer to this same question.

    Paid are also windows whose call was lost in an earlier round: its share of the budget is spent.
    """
    unanswered = [span for key, span in lost if key == recording.key]
    answered = job.run.answered(recording.key)
    if not answered and not unanswered:
        return []
    from earmark.evidence.sound_names import name_sounds
    from earmark.selection.answer_evidence import ObservedActivity

    heard = job.run.heard(recording.key)
    grid = replace(heard, survival=job.plan.listening.survival)
    places = {grid.window_at(span.start) for span in (*answered.values(), *unanswered)}
    picks = explain(grid, sorted(one for one in places if one < len(grid)), lambda *_: "")
    spans = [pick.span for pick in picks]
    ((names, _),) = name_sounds(job.plan.namer, [(recording, spans)], job.backend.map)
    tasks = Tasks(job.plan.question, job.model, job.run, job.recordings)
    requests = tasks.requests(heard, picks, names, job.plan.namer)
    activities = job.run.activities(recording.key)
    paid = []
    for pick, request in zip(picks, requests, strict=True):
        if request.identity in answered or pick.span in unanswered:
            activity = activities.get(request.identity)
            paid.append(ObservedActivity(grid.window_at(pick.start), activity))
    return paid


def _keep_choice(
    job: RunJob,
    recording: Recording,
    choice: Choice,
    *,
    names: SoundNames,
    tasks: Tasks,
    number: int | None,
) -> None:
    heard = job.run.heard(recording.key)
    requests = tasks.requests(heard, choice.picks, names, job.plan.namer)
    actions = float(heard.rates.sum())
    share, forecast = forecast_coverage(
        heard, choice, tasks.error, actions=actions, duration=heard.duration
    )
    tasks.run.choose(
        recording.key,
        choice.picks,
        tags={request.span: request.tags for request in requests},
        rule=choice.rule_used,
        forecast=forecast or share,
        notes=recording_notes(heard, choice),
        round=number,
    )
    waiting = tasks.run.unanswered(requests)
    tasks.open[recording.key] = sum((recording.key, row.span) not in tasks.lost for row in waiting)
