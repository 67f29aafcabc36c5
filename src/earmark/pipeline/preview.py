from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, Unpack

from earmark.captioning.request import TAGS_MODEL
from earmark.gate.listener import Failed
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import RunJob, choose_tasks
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.rounds import choose_in_round
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.run.run import Run
from earmark.run.schema import FILE, copy_run
from earmark.settings import Settings
from earmark.text_format import counted, format_spend

Amount = TypeVar("Amount", int, float)


@dataclass(frozen=True, slots=True)
class Preview:
    """How many calls a run would make, and the most tokens and money they can cost.

    Caps hold: none of the three is more than earlier commands of the run have left of its cap.
    """

    calls: int
    kept: int
    windows: int
    tokens: int
    money: float
    failures: tuple[Failed, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        return [
            f"{counted(self.calls, 'call')} to make ({counted(self.kept, 'answer')} kept already) "
            f"of {counted(self.windows, 'window')}; at most {self.tokens:,} tokens"
            f"{format_spend(self.money)}"
        ]


def preview(
    paths: Paths = (),
    *,
    run: str | Path,
    retry_failed: bool = False,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Preview:
    """Listen and choose as `caption` would, without decoding, asking or changing the run.

    Without a model, the preview assumes the one that answered last in this run. If none has
    answered yet, it gives the cost of asking about every pick.
    """
    plan = resume(open_session(paths, settings, **choices), run, retry_failed=retry_failed)
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
        with Run(trial, plan.run_json(model)) as stored:
            progress = progress or Progress()
            recordings, missed = listen_and_store(
                sources, plan.listening, stored, backend, progress
            )
            choose = choose_tasks if plan.rounds == 1 else choose_in_round
            tasks = choose(RunJob(plan, model, recordings, stored, backend))
            totals = stored.totals()
            failures = [Failed(row.path, row.reason) for row in stored.failed_recordings()]
            limits, spent = plan.limits, stored.spent()
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
        tuple(failures if missed else ()),  # else all are of earlier commands
    )


def _within(cap: Amount | None, spent: Amount, wanted: Amount) -> Amount:
    return wanted if cap is None else min(wanted, max(cap - spent, 0))
