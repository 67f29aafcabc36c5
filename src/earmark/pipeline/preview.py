"""Dry run: how many calls a run would make, and the most they can cost."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from earmark.captioning.request import TAGS_MODEL
from earmark.gate.listener import Failed
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE, copy_run
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import RunJob, choose_tasks
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.rounds import choose_in_round
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.reporting.progress import Progress

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True, slots=True)
class Preview:
    """How many calls a run would make, and the most tokens and money they can cost.

    Caps hold: none of the three is more than earlier commands of the run have left of its cap.
    """

    calls: int
    kept: int
    """Picks whose answer is stored already."""
    windows: int
    tokens: int
    money: float
    failures: tuple[Failed, ...] = ()
    """Recordings that failed in this preview, and why."""


def preview(
    paths: Paths = (),
    *,
    run: str | Path,
    retry_failed: bool = False,
    plan: Plan | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Preview:
    """Listen and choose as `caption` would, without decoding, asking or changing the run.

    Without a model, the preview assumes the one that answered last in this run. If none has
    answered yet, it gives the cost of asking about every pick.
    """
    plan = resume(make_plan(paths, plan, **choices), run, retry_failed=retry_failed)
    model = plan.open_captioner(api_key=api_key).model
    sources = plan.sources(allow_none=retry_failed)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_backend(plan.backend, len(sources)) as backend,
    ):
        trial = Path(scratch)
        if Path(run, FILE).is_file():
            copy_run(Path(run), trial)
            with Run(trial) as kept:
                model = kept.last_model() if model == TAGS_MODEL else model
        model = "a model" if model in (TAGS_MODEL, "") else model
        with Ledger(trial, plan.run_json(model)) as ledger:
            progress = progress or Progress()
            recordings, missed = listen_and_store(
                sources, plan.listening, ledger, backend, progress
            )
            choose = choose_tasks if plan.rounds == 1 else choose_in_round
            tasks = choose(RunJob(plan, model, recordings, ledger, backend))
            with Run(ledger.folder) as chosen:
                totals = chosen.totals()
                failures = [Failed(one.path, one.reason) for one in chosen.failed_recordings()]
            limits, spent = plan.limits, ledger.spent()
            calls = _within(limits.max_calls, spent.calls_before, len(tasks))
            most = [task.request.most_tokens for task in islice(tasks, calls)]
    tokens = _within(limits.max_tokens, spent.tokens_before, sum(map(sum, most)))
    money = _within(limits.max_spend, spent.spend_before, sum(limits.price(*each) for each in most))
    return Preview(
        calls,
        totals.picks - len(tasks),
        totals.windows,
        tokens,
        money,
        failures=tuple(failures if missed else ()),  # else all are of earlier commands
    )


def _within(cap: Amount | None, spent: Amount, wanted: Amount) -> Amount:
    """As much of `wanted` as `cap` leaves beside what is `spent`."""
    return wanted if cap is None else min(wanted, max(cap - spent, 0))
