"""Spends the budget on the stored windows, at once or in rounds, and asks about the picks.

stored windows ──▶ allocate ──▶ picks ──▶ sounds named ──▶ run ──▶ Tasks ──▶ ask ──▶ answers
                      ▲                                                                 │
                      └── in rounds: each asks a part, and its answers steer the next ◀─┘
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from earmark.captioning.answer_schema import compare_activities
from earmark.evidence.sound_names import SoundNames, name_sounds
from earmark.grid import Windows
from earmark.media import Recording
from earmark.pipeline.backend import Backend
from earmark.pipeline.session import Session
from earmark.report.progress import Progress
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder, StoredWindows, Tasks
from earmark.selection import Choice, allocate
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.pick import explain
from earmark.selection.result import forecast_coverage, recording_notes
from earmark.selection.rounds import (
    Sightings,
    Turn,
    choose_round,
    count_new_activities,
    turns,
)
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.captioning.captioner import Captioner

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
    progress: Progress = field(default_factory=Progress)

    def allocate(self, windows: Collection[Windows]) -> Iterator[Choice]:
        plan = self.plan
        weights = [recording.source.weight for recording in self.recordings.values()]
        across = plan.settings.across
        return allocate(plan.rule, windows, plan.budget, across=across, weights=weights)


def choose_and_ask(job: RunJob, captioner: Captioner, log: CallRecorder) -> Sightings | None:
    """Choose and ask once for each round of the plan; returns what all answers saw.

    None with a single round. A call that fails in one round is not made again in the next. Rounds
    end early if a cap stops the calls. The next choice depends on the run alone, so the same
    command then resumes; it also resumes a killed run.
    """
    plan = job.plan
    for turn in turns(plan.rounds):
        tasks = choose_tasks(job, replace(turn, lost=frozenset(log.unanswered)))
        if len(tasks) or tasks.is_whole:
            log.calls += len(tasks)
            job.progress.update(calls=log.calls)
            job.progress.enter("decoding")
            logger.info("%d calls to make to %s", len(tasks), captioner.model)
            with closing(iter(tasks)) as waiting:
                job.backend.ask(waiting, captioner, log)
        if tasks.is_whole or log.tally.stopped:
            break
    if plan.rounds == 1:
        return None
    if tasks.is_whole and not log.tally.stopped:
        job.run.set_note(_ending(job), "all rounds")
    return _count_sightings(job)


def choose_tasks(job: RunJob, turn: Turn | None = None) -> Tasks:
    """Spend the budget by the answers so far; returns the picks to ask about in this round.

    A round before the last asks only a part of the plan, spread over all of it; the rest is planned
    again from the next answers. Once all rounds are over the picks do not change: else the same
    command would add picks each time and never finish.
    """
    plan, run = job.plan, job.run
    job.progress.enter("choosing", sum(item.duration for item in job.recordings.values()))
    turn = turn or Turn(is_auto=plan.rounds == "auto")
    tasks = Tasks(plan.question, job.model, run, job.recordings, lost=turn.lost)
    tasks.error = plan.forecast_error
    run.keep_forecast_error(tasks.error)
    if plan.rounds == 1:
        _choose(job, tasks, job.allocate(read_answers(job)[0]), None)
        return tasks
    if run.note(_ending(job)) and all(run.choice(key).rule for key in job.recordings):
        for key in job.recordings:
            tasks.open[key] = sum(not row.is_settled for row in run.picks(key))
        return tasks
    windows, paid = read_answers(job, turn.lost)
    is_priced = plan.budget.price is not None
    agree = _compare(plan, paid)
    spent, turn = choose_round(job.allocate, windows, paid, turn, agree=agree, is_priced=is_priced)
    tasks.lost, tasks.is_whole = turn.lost, turn.is_last
    _choose(job, tasks, spent, turn.number)
    return tasks


def _choose(job: RunJob, tasks: Tasks, choices: Iterator[Choice], number: int | None) -> None:
    """Store the picks of each recording, and count those without an answer in `tasks`."""
    chosen = zip(job.recordings.values(), choices, strict=True)
    named = _name_sounds(job, chosen) if job.plan.namer else ((*pair, {}) for pair in chosen)
    for recording, spent, names in named:
        key = recording.id
        heard, choice = job.run.heard(key), _with_paid(job, recording, spent)
        requests = tasks.requests(heard, choice.picks, names, job.plan.namer)
        actions = float(heard.rates.sum())
        share, forecast = forecast_coverage(
            heard, choice, tasks.error, actions=actions, duration=heard.duration
        )
        job.run.choose(
            key,
            choice.picks,
            tags={request.span: request.tags for request in requests},
            rule=choice.rule_used,
            forecast=forecast or share,
            notes=recording_notes(heard, choice),
            round=number,
        )
        job.progress.advance(recording.duration)
        waiting = job.run.unanswered(requests)
        tasks.open[key] = sum((key, row.span) not in tasks.lost for row in waiting)


def _with_paid(job: RunJob, recording: Recording, choice: Choice) -> Choice:
    """What was answered before the recording grew stays a pick, its last short window too."""
    if recording.id == recording.key:
        return choice
    picks = {pick.start: pick for pick in choice.picks}
    for pick in job.run.picks(recording.id):
        if pick.answer and pick.answer.kind == "caption":
            picks[pick.start] = pick
    return replace(choice, picks=[picks[start] for start in sorted(picks)])


def _name_sounds(
    job: RunJob, chosen: Iterator[tuple[Recording, Choice]]
) -> Iterator[tuple[Recording, Choice, SoundNames]]:
    while group := list(islice(chosen, NAMED_TOGETHER)):
        spans = ((recording, [pick.span for pick in choice.picks]) for recording, choice in group)
        named = name_sounds(job.plan.namer, spans, job.backend.map)
        for (recording, choice), (names, unnamed) in zip(group, named, strict=True):
            note = "; ".join(filter(None, [choice.note, unnamed]))
            yield recording, replace(choice, note=note), names


def read_answers(
    job: RunJob, lost: Collection[tuple[str, Span]] = ()
) -> tuple[StoredWindows, list[list[ObservedActivity]]]:
    paid = {key: _paid_windows(job, item, lost) for key, item in job.recordings.items()}
    owned = {key: tuple(answer.window for answer in answers) for key, answers in paid.items()}
    windows = StoredWindows(job.run, owned)
    return windows, list(paid.values())


def _paid_windows(
    job: RunJob, recording: Recording, lost: Collection[tuple[str, Span]]
) -> list[ObservedActivity]:
    """Paid are windows with a stored answer to this same question.

    Paid are also windows whose call was lost in an earlier round: its share of the budget is spent.
    """
    unanswered = [span for key, span in lost if key == recording.id]
    answered = job.run.answered(recording.id)
    if not answered and not unanswered:
        return []
    heard = job.run.heard(recording.id)
    indices = {heard.window_at(span.start) for span in (*answered.values(), *unanswered)}
    picks = explain(heard, sorted(index for index in indices if index < len(heard)), lambda *_: "")
    spans = [pick.span for pick in picks]
    ((names, _),) = name_sounds(job.plan.namer, [(recording, spans)], job.backend.map)
    tasks = Tasks(job.plan.question, job.model, job.run, job.recordings)
    requests = tasks.requests(heard, picks, names, job.plan.namer)
    activities = job.run.activities(recording.id)
    paid = []
    for pick, request in zip(picks, requests, strict=True):
        if request.identity in answered or pick.span in unanswered:
            activity = activities.get(request.identity)
            paid.append(ObservedActivity(heard.window_at(pick.start), activity))
    return paid


def _ending(job: RunJob) -> str:
    described = json.dumps([job.plan.run_json(job.model), sorted(job.recordings)], sort_keys=True)
    return f"ended {hashlib.sha256(described.encode()).hexdigest()}"


def _count_sightings(job: RunJob) -> Sightings:
    stored, paid = read_answers(job)
    agree = _compare(job.plan, paid)
    total = Sightings()
    for windows, answers in zip(stored, paid, strict=True):
        sightings = count_new_activities(windows, answers, agree)
        is_heard = len(windows) == 1 or windows.has_evidence
        total += sightings if is_heard else Sightings(seen=sightings.seen, unheard=1)
    return total


def _compare(
    plan: Session, paid: Sequence[Sequence[ObservedActivity]]
) -> Callable[[str, str], bool]:
    activities = (answer.activity for answers in paid for answer in answers)
    return compare_activities(plan.store, activities)
