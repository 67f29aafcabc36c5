"""Spends a budget in rounds: each asks a part of it, and the answers steer the next choice.

choose ──▶ ask ──▶ answers ──▶ choose again ──▶ ask ──▶ …
                      └── activities seen, and probably missed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from earmark.captioning.answer_schema import compare_activities
from earmark.captioning.captioner import Captioner
from earmark.pipeline.choose import RunJob, choose_tasks, read_answers
from earmark.pipeline.session import Session
from earmark.run.tasks import CallRecorder, Tasks
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.rounds import (
    Sightings,
    Turn,
    choose_round,
    count_new_activities,
    turns,
)


def ask_in_rounds(job: RunJob, captioner: Captioner, log: CallRecorder) -> Sightings:
    """Choose and ask once for each round of the plan; returns what all answers saw.

    A call that fails in one round is not made again in the next. Rounds end early if a cap stops
    the calls. The next choice depends on the run alone, so the same command then resumes; it also
    resumes a killed run.
    """
    for turn in turns(job.plan.rounds):
        tasks = choose_in_round(job, replace(turn, lost=frozenset(log.unanswered)))
        if len(tasks) or tasks.is_whole:
            job.ask(tasks, captioner, log)
        if tasks.is_whole or log.tally.stopped:
            break
    if tasks.is_whole and not log.tally.stopped:
        job.run.set_note(_ending(job), "all rounds")
    return _count_sightings(job)


def choose_in_round(job: RunJob, turn: Turn | None = None) -> Tasks:
    """Spend the budget by the answers so far; returns the picks to ask about in this round.

    A round before the last asks only a part of the plan, spread over all of it; the rest is planned
    again from the next answers. Once all rounds are over the picks do not change: else the same
    command would add picks each time and never finish.
    """
    plan = job.plan
    run = job.run
    turn = turn or Turn(is_auto=plan.rounds == "auto")
    if run.note(_ending(job)) and all(run.choice(key).rule for key in job.recordings):
        waiting = Tasks(plan.question, job.model, run, job.recordings, lost=turn.lost)
        for key in job.recordings:
            waiting.open[key] = sum(not row.is_settled for row in run.picks(key))
        run.keep_forecast_error(plan.forecast_error)
        return waiting
    windows, paid = read_answers(job, turn.lost)
    is_priced = plan.budget.price is not None
    agree = _compare(plan, paid)
    spent, turn = choose_round(job.allocate, windows, paid, turn, agree=agree, is_priced=is_priced)
    return choose_tasks(job, spent, turn)


def _ending(job: RunJob) -> str:
    described = json.dumps([job.plan.run_json(job.model), sorted(job.recordings)], sort_keys=True)
    return f"ended {hashlib.sha256(described.encode()).hexdigest()}"


def _count_sightings(job: RunJob) -> Sightings:
    every, paid = read_answers(job)
    agree = _compare(job.plan, paid)
    total = Sightings()
    for windows, answers in zip(every, paid, strict=True):
        found = count_new_activities(windows, answers, agree)
        is_heard = len(windows) == 1 or windows.has_evidence
        total += found if is_heard else Sightings(seen=found.seen, unheard=1)
    return total


def _compare(
    plan: Session, paid: Sequence[Sequence[ObservedActivity]]
) -> Callable[[str, str], bool]:
    return compare_activities(plan.store, (one.activity for some in paid for one in some))
