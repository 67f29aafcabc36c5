"""Spends the budget on the stored windows; returns the picks that have no answer yet.

stored windows ──▶ allocate ──▶ picks ──▶ sounds named ──▶ ledger ──▶ Tasks
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from earmark.gate.listener import SILENCE, Heard
from earmark.grid import Windows
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_calls import CallRecorder, StoredWindows, Tasks
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.pipeline.backend import Backend
from earmark.pipeline.run_plan import Plan
from earmark.selection import Choice, allocate
from earmark.selection.coverage_forecast import forecast_coverage, recording_notes
from earmark.selection.pick import explain
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner
    from earmark.evidence.sound_names import SoundNames
    from earmark.selection.answer_evidence import ObservedActivity
    from earmark.selection.round_schedule import Turn

logger = logging.getLogger(__name__)

NAMED_TOGETHER = 1024
"""Recordings per group in naming sounds: few enough for memory, and enough that starting the
workers, which happens once per group, takes a small share of the time with short files."""


@dataclass(frozen=True, slots=True)
class RunJob:
    """A run in progress: its plan, its recordings, its ledger and its backend."""

    plan: Plan
    model: str
    """Name of the model to ask."""
    recordings: Mapping[str, Recording]
    """By key."""
    ledger: Ledger
    backend: Backend

    def allocate(self, windows: Collection[Windows]) -> Iterator[Choice]:
        """Spend the budget on the windows of all recordings; the choice of each, in order."""
        plan, weights = self.plan, [one.source.weight for one in self.recordings.values()]
        return allocate(plan.rule, windows, plan.budget, across=plan.across, weights=weights)

    def ask(self, tasks: Tasks, captioner: Captioner, log: CallRecorder) -> None:
        """Ask `captioner` about all of `tasks`; `log` records the outcome of each."""
        log.calls += len(tasks)
        log.count_calls(log.tally, log.calls)
        logger.info("%d calls to make to %s", len(tasks), captioner.model)
        with closing(iter(tasks)) as waiting:
            self.backend.ask(waiting, captioner, self.plan.limits, log)


def choose_tasks(
    job: RunJob, spent: Iterator[Choice] | None = None, turn: Turn | None = None
) -> Tasks:
    """Spend the budget and store the picks of every recording; returns those without an answer.

    A round gives the choices `spent` on it, and its `turn`: see `earmark.pipeline.rounds`.
    """
    tasks = Tasks(job.plan.question, job.model, job.ledger, job.recordings)
    tasks.error = job.plan.forecast_error
    job.ledger.keep_forecast_error(tasks.error)
    if turn:
        tasks.lost, tasks.is_whole = turn.lost, turn.is_last
    if spent is None:
        spent = job.allocate(read_answers(job)[0])
    chosen = zip(job.recordings.values(), spent, strict=True)
    named = _name_sounds(job, chosen) if job.plan.namer else ((*each, {}) for each in chosen)
    number = turn.number if turn else None
    with Run(job.ledger.folder) as run:
        for one, choice, names in named:
            _keep_choice(job, run, one, choice, names=names, tasks=tasks, number=number)
    return tasks


def _name_sounds(
    job: RunJob, chosen: Iterator[tuple[Recording, Choice]]
) -> Iterator[tuple[Recording, Choice, SoundNames]]:
    """Each choice with the names of the sounds in its picks; a note says why if there are none."""
    from earmark.evidence.sound_names import name_sounds

    while some := list(islice(chosen, NAMED_TOGETHER)):
        spans = ((one, [pick.span for pick in choice.picks]) for one, choice in some)
        named = name_sounds(job.plan.namer, spans, job.backend.map)
        for (one, choice), (names, unnamed) in zip(some, named, strict=True):
            yield one, replace(choice, note="; ".join(filter(None, [choice.note, unnamed]))), names


def read_answers(
    job: RunJob, lost: Collection[tuple[str, Span]] = ()
) -> tuple[StoredWindows, list[list[ObservedActivity]]]:
    """The windows of all recordings, and for each recording the paid windows with their answers."""
    paid = {key: _paid_windows(job, one, lost) for key, one in job.recordings.items()}
    owned = {key: tuple(one.window for one in some) for key, some in paid.items()}
    windows = StoredWindows(job.ledger.folder, job.plan.listening.survival, owned)
    return windows, list(paid.values())


def _paid_windows(
    job: RunJob, recording: Recording, lost: Collection[tuple[str, Span]]
) -> list[ObservedActivity]:
    """The paid windows of `recording`, each with the activity that its answer names, if any.

    Paid are windows with a stored answer to this same question: a larger budget adds to them
    instead of choosing anew. Paid are also windows whose call was lost in an earlier round, or is
    in a batch whose results are not imported yet: their share of the budget is spent.
    """
    unanswered = [span for key, span in lost if key == recording.key]
    if job.backend.is_deferred:
        with Run(job.ledger.folder) as run:
            unanswered += [
                row.span for row in run.picks(recording.key) if row.status == "not asked"
            ]
    answered = {row.identity: row.span for row in job.ledger.answered(recording.key)}
    if not answered and not unanswered:
        return []
    from earmark.evidence.sound_names import name_sounds
    from earmark.selection.answer_evidence import ObservedActivity

    with Run(job.ledger.folder) as run:
        heard = run.heard(recording.key)
        assert heard is not None, "it was stored"
        grid = heard.windows(job.plan.listening.survival)
        places = {grid.window_at(span.start) for span in (*answered.values(), *unanswered)}
        picks = explain(grid, sorted(one for one in places if one < len(grid)), lambda *_: "")
        spans = [pick.span for pick in picks]
        ((names, _),) = name_sounds(job.plan.namer, [(recording, spans)], job.backend.map)
        tasks = Tasks(job.plan.question, job.model, job.ledger, job.recordings)
        requests = tasks.requests(run, heard, picks, names, job.plan.namer)
    activities = job.ledger.said(recording.key)
    paid = []
    for pick, request in zip(picks, requests, strict=True):
        if request.identity in answered or pick.span in unanswered:
            activity = activities.get(request.identity)
            paid.append(ObservedActivity(grid.window_at(pick.start), activity, pick.start))
    return paid


def _keep_choice(
    job: RunJob,
    run: Run,
    recording: Recording,
    choice: Choice,
    *,
    names: SoundNames,
    tasks: Tasks,
    number: int | None,
) -> None:
    """Store the picks of one recording with their sounds; count those to ask in `tasks`."""
    heard = run.heard(recording.key)
    assert heard is not None, "it was stored"
    requests = tasks.requests(run, heard, choice.picks, names, job.plan.namer)
    listened = Heard(recording, "", SILENCE, heard.level, heard.access, 0, 0.0, heard.warnings)
    actions = float(heard.rates.sum())
    share, forecast = forecast_coverage(
        listened, choice, tasks.error, actions=actions, duration=heard.duration
    )
    tasks.ledger.choose(
        recording.key,
        choice.picks,
        tags={request.span: request.tags for request in requests},
        rule=choice.rule_used,
        forecast=forecast or share,
        notes=recording_notes(listened, choice),
        round=number,
    )
    waiting = tasks.ledger.unanswered(requests)
    tasks.open[recording.key] = sum((recording.key, row.span) not in tasks.lost for row in waiting)
