"""The dry run: what a run would ask, and what that costs at most."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.captioning.tags_captioner import TagsCaptioner
from earmark.ledger.ledger import Ledger
from earmark.pipeline.backend import open_backend
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
    plan: Plan | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Preview:
    """Listen and choose as `caption` would; decode and ask nothing, and leave the run as it is.

    Without a model the cost is that of asking one about every pick.
    """
    plan = make_plan(paths, plan, **choices)
    captioner = plan.open_captioner(api_key=api_key)
    model = "a model" if isinstance(captioner, TagsCaptioner) else captioner.model
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


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """A copy of the run in `folder`, if there is one, that is gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in folder.glob("run.db*"):
            shutil.copy2(file, scratch)
        yield Path(scratch)
