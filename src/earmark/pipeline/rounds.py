"""Rounds: ask part of the plan, choose the rest by the answers, and repeat until it is spent.

choose ──▶ ask ──▶ answers ──▶ choose anew ──▶ ask ──▶ …
                      └── what they saw, and what is probably missed
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from earmark.captioning.activity_meaning import compare_activities
from earmark.captioning.captioner import Captioner
from earmark.ledger.run_calls import CallRecorder, Tasks
from earmark.ledger.run_reader import Run
from earmark.pipeline.choose import RunJob, choose_tasks, read_answers
from earmark.pipeline.run_plan import Plan
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.round_choice import choose_round
from earmark.selection.round_schedule import ALL_AT_ONCE, Rounds, Turn, turns
from earmark.selection.stopping import RoundOptions, Sightings, count_new_activities


def ask_in_rounds(job: RunJob, captioner: Captioner, log: CallRecorder) -> Sightings:
    """Choose and ask once for each round of the plan; returns what the answers saw in all.

    A call that fails in one round is not asked again in the next. Rounds end early where calls
    stop, or where answers come later (a batch). What is asked next follows from the ledger alone,
    so the same command then goes on, and so does a run that was killed.
    """
    for turn in turns(Rounds.parse(job.plan.rounds)):
        tasks = choose_in_round(job, replace(turn, lost=frozenset(log.unanswered)))
        if len(tasks) or tasks.is_whole:
            job.ask(tasks, captioner, log)
        if tasks.is_whole or log.tally.stopped or (len(tasks) and job.backend.is_deferred):
            break
    if tasks.is_whole and not log.tally.stopped:
        job.ledger.note(_ending(job), "all rounds")
    return _count_sightings(job)


def choose_in_round(job: RunJob, turn: Turn = ALL_AT_ONCE) -> Tasks:
    """Spend the budget by the answers so far; returns the picks to ask about in this round.

    In a round that is not the last, a part of the plan alone: spread over it. What is kept then
    are the picks asked so far and now, and the rest is planned again when there are answers.
    Once all rounds are over the picks stay as they are: what a price buys follows from the answers,
    so planned again they would become more, and the same command would go on for ever.
    """
    plan = job.plan
    with Run(job.ledger.folder) as run:
        if run.note(_ending(job)) and all(run.choice(key).rule for key in job.recordings):
            waiting = Tasks(plan.question, job.model, job.ledger, job.recordings, lost=turn.lost)
            for key in job.recordings:
                waiting.open[key] = sum(not row.is_settled for row in run.picks(key))
            job.ledger.keep_forecast_error(plan.forecast_error)
            return waiting
    is_priced = plan.budget.price is not None
    options = RoundOptions(Rounds.parse(plan.rounds), turn, is_priced=is_priced)
    return choose_tasks(
        job,
        lost=turn.lost,
        steer=lambda spend, windows, paid: choose_round(
            spend, windows, paid, agree=_compare(plan, paid), options=options
        ),
    )


def _ending(job: RunJob) -> str:
    """The name of the note that marks this plan on these recordings as finished."""
    told = json.dumps([job.plan.run_json(job.model), sorted(job.recordings)], sort_keys=True)
    return f"ended {hashlib.sha256(told.encode()).hexdigest()}"


def _count_sightings(job: RunJob) -> Sightings:
    """What the answers saw that was new, and what the sound suggests is still unseen, in all."""
    windows, paid = read_answers(job)
    agree = _compare(job.plan, paid)
    return sum(
        (count_new_activities(*pair, agree) for pair in zip(windows, paid, strict=True)),
        Sightings(),
    )


def _compare(plan: Plan, paid: Sequence[Sequence[ObservedActivity]]) -> Callable[[str, str], bool]:
    """A function that says whether two answers describe the same activity."""
    return compare_activities(plan.store, (one.activity for some in paid for one in some))
