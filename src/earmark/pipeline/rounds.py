"""Rounds: part of the calls is made, the answers change the rates, the rest is planned again.

choose ──▶ ask ──▶ answers in the ledger ─┐
   ▲                                      │   until all is asked, or the calls stop
   └──────── rates changed ◀──────────────┘

What is asked next follows from the ledger alone, so a killed run goes on where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from earmark.captioning.captioner import Captioner
from earmark.captioning.usage import Tally
from earmark.ledger.ledger import Ledger
from earmark.media import Recording, Source
from earmark.pipeline.ask import CallRecorder
from earmark.pipeline.backend import Backend
from earmark.pipeline.choose import choose_tasks
from earmark.pipeline.run_plan import Plan
from earmark.reporting.progress import Progress
from earmark.selection.round_schedule import turns

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where a run keeps its answers, who does its work, and who is told."""

    ledger: Ledger
    backend: Backend
    progress: Progress


def ask_in_rounds(
    recordings: Mapping[Source, Recording], plan: Plan, captioner: Captioner, place: Workplace
) -> Tally:
    """Choose and ask, as often as the plan has rounds; what all calls together came to.

    A call that fails in one round is not asked again in the next. Rounds end early where calls
    stop, or where answers come later (a batch): the same command then goes on.
    """
    ledger, backend, now = place.ledger, place.backend, place.progress
    log = CallRecorder(plan.limits, ledger, now, 0)
    for each in turns(plan.rounds):
        turn = replace(each, lost=frozenset(log.lost))
        tasks = choose_tasks(recordings, plan, captioner.model, ledger, backend, turn=turn)
        log.calls += len(tasks)
        now.count_calls(log.tally, log.calls)
        logger.info("%d calls to make to %s", len(tasks), captioner.model)
        if len(tasks) or tasks.is_whole:
            with closing(iter(tasks)) as waiting:
                backend.ask(waiting, captioner, plan.limits, log)
        if tasks.is_whole or log.tally.stopped or (len(tasks) and backend.is_deferred):
            break
    return log.tally
