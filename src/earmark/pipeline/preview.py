"""The dry run: what a run would ask, and what that costs at most."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.captioning.request import FREE
from earmark.ledger.ledger import Ledger
from earmark.ledger.run_reader import Run
from earmark.ledger.schema import FILE, copy_run
from earmark.pipeline.backend import open_backend
from earmark.pipeline.blurred_run import blurred_like
from earmark.pipeline.choose import choose_tasks
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.reporting.progress import Progress


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run would ask, and what that costs at most."""

    calls: int
    kept: int
    """Picks whose answer is kept already."""
    windows: int
    tokens: int
    money: float


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
    """Listen and choose as `caption` would; decode and ask nothing, and leave the run as it is.

    Without a model it is as if the one were asked that has answered last in this run; before any
    has, the cost is that of asking one about every pick.
    """
    plan = make_plan(paths, plan, **choices)
    if retry_failed:
        from earmark.pipeline.retry_failed import only_failed

        plan = only_failed(plan, run)
    plan = blurred_like(plan, run).with_evidence()
    captioner = plan.open_captioner(api_key=api_key)
    is_asking = captioner.model != FREE
    model = captioner.model if is_asking else _last_model(Path(run)) or "a model"
    sources = plan.sources()
    with (
        open_backend(plan.backend, len(sources)) as backend,
        _copied(Path(run)) as trial,
        Ledger.open(trial, plan.run_json(model)) as ledger,
    ):
        recordings, _ = listen_and_store(
            sources, plan.listening, ledger, backend, progress or Progress()
        )
        tasks = choose_tasks(recordings, plan, model, ledger, backend)
        with ledger.run() as so_far:
            totals = so_far.totals()
        tokens, money = 0, 0.0
        for task in tasks:
            tokens += task.request.most_input_tokens + task.request.answer_tokens
            money += plan.limits.price_at_most(task.request)
    return Preview(len(tasks), totals.picks - len(tasks), totals.windows, tokens, money)


def _last_model(folder: Path) -> str:
    """The model that has answered last in the run in `folder`; empty where none has."""
    if not (folder / FILE).is_file():
        return ""
    with Run.open(folder) as run:
        return run.last_model()


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """A copy of the run in `folder`, if there is one, that is gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        if (folder / FILE).is_file():
            copy_run(folder, Path(scratch))
        yield Path(scratch)
