"""Options for archives: who works, on which part, and how that is watched."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from earmark.captioning import Tally
from earmark.cli.console import err
from earmark.cli.listening_bar import hearing_bar
from earmark.cli.recording_arguments import sources_at
from earmark.distributed.archive_listener import ManyEars, Shard
from earmark.distributed.archive_namer import ManyNamers
from earmark.distributed.backend import Backend
from earmark.distributed.progress import Progress, Tell, WatchedEars, metrics
from earmark.distributed.ray_backend import RayBackend
from earmark.distributed.ray_captioner import RayCaptioner
from earmark.distributed.worker_pool import WorkerPool
from earmark.evidence.sound_names import SoundNamer
from earmark.ledger import Run
from earmark.ledger.row_values import as_place
from earmark.media import Source
from earmark.pipeline.caption import Show, Step
from earmark.pipeline.job import Job
from earmark.pipeline.triage import Ears, OwnEars
from earmark.selection import Budget

PANEL = "Archives"


class BackendKind(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


class LogKind(StrEnum):
    """How progress is told."""

    bar = "bar"
    json = "json"


EngineName = Annotated[
    BackendKind,
    typer.Option("--engine", help="Processes of this machine, or Ray.", rich_help_panel=PANEL),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers", help="At work at once.", show_default="cores", min=1, rich_help_panel=PANEL
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address", help="Of a Ray cluster, or auto; else one is started.", rich_help_panel=PANEL
    ),
]
ShardText = Annotated[
    str | None,
    typer.Option(
        "--shard", help="Only a part, such as 3/16; see `earmark merge`.", rich_help_panel=PANEL
    ),
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed",
        help="Only recordings that failed, or had calls that did; all of them with --across.",
        rich_help_panel=PANEL,
    ),
]
Log = Annotated[
    LogKind,
    typer.Option("--log", help="Progress as a bar or as JSON lines.", rich_help_panel=PANEL),
]
MetricsPort = Annotated[
    int | None,
    typer.Option("--metrics-port", help="Serve Prometheus metrics here.", rich_help_panel=PANEL),
]


@dataclass(frozen=True, slots=True)
class Hands:
    """Who works on a job, and who is told."""

    job: Job | None
    ears: Ears
    look: Show | None
    """None where this process looks."""
    step: Step


@dataclass(frozen=True, slots=True)
class Scaling:
    """What was said about engines, shards and watching."""

    engine: BackendKind = BackendKind.local
    workers: int | None = None
    address: str | None = None
    shard: str | None = None
    log: LogKind = LogKind.bar
    metrics_port: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and self.engine is BackendKind.local:
            raise ValueError(f"--address {self.address} needs --engine ray")

    def sources(
        self, paths: Sequence[str], *, budget: Budget | None = None, across: bool = False
    ) -> list[Source]:
        """The recordings at `paths` that belong to the shard.

        Raises:
            ValueError: One number of calls over all recordings, of which a shard sees only some.
        """
        found = self._part(sources_at(paths), budget=budget, across=across)
        if self.engine is BackendKind.local:
            return found
        # A worker may have been started in another folder.
        return [replace(one, uris=tuple(map(as_place, one.uris))) for one in found]

    def _part(self, found: list[Source], *, budget: Budget | None, across: bool) -> list[Source]:
        """Those of `found` that belong to the shard."""
        if self.shard is None:
            return found
        part = Shard.parse(self.shard)
        if across and budget is not None and budget.count is not None:
            raise ValueError(
                f"{budget} calls over all recordings cannot be split among shards: "
                "give a share such as 20%, or a price such as price=0.4"
            )
        return [source for source in found if part.holds(source)]

    def run_name(self, paths: Sequence[str]) -> str:
        """What to call the run of these paths: after the first of them, and the shard.

        After the words of the command, not what they match, so that a folder with one file more is
        still the same run.
        """
        stem = Path(paths[0].rstrip("/")).stem or Path(paths[0]).resolve().name
        stem = re.sub(r"[^\w.+-]+", "_", stem).strip("._-") or "run"
        return stem if self.shard is None else f"{stem}-{self.shard.replace('/', '-of-')}"

    @contextmanager
    def at_work(self, sources: Sequence[Source], job: Job | None = None) -> Iterator[Hands]:
        """The hands for `sources`, let go at the end."""
        progress = Progress()
        with ExitStack() as stack:
            if self.metrics_port is not None:
                stack.enter_context(metrics(progress, self.metrics_port))
            many = len(sources) > 1 or self.log is LogKind.json
            tell = stack.enter_context(json_lines() if self.log is LogKind.json else bars(many))
            engine, look = self._engine(stack, len(sources)), None
            ears: Ears = OwnEars() if engine is None else ManyEars(engine)
            if engine is None and self.log is LogKind.bar:
                ears = OwnEars(stack.enter_context(hearing_bar()))
            if job is not None and engine is not None and isinstance(job.namer, SoundNamer):
                job = replace(job, namer=ManyNamers(engine, job.namer))
            if job is not None and self.engine is BackendKind.ray:
                job, look = self._eyes(stack, job)

            def step(tally: Tally, calls: int) -> None:
                progress.ask(tally, calls)
                tell(progress)

            yield Hands(job, WatchedEars(ears, progress, tell), look, step)

    def _engine(self, stack: ExitStack, count: int) -> Backend | None:
        """Who works beside this process; None where it had better do the work itself."""
        if self.engine is BackendKind.ray:
            return stack.enter_context(RayBackend(self.address, workers=self.workers))
        if min(self.workers or count, count) <= 1:
            return None
        return WorkerPool(self.workers) if self.workers is not None else WorkerPool()

    def _eyes(self, stack: ExitStack, job: Job) -> tuple[Job, Show]:
        # The stack's own engine is connected by now; this one shares the connection.
        engine = RayBackend(self.address, workers=self.workers)
        eyes = RayCaptioner(engine, job.captioner, concurrency=job.limits.concurrency)
        stack.callback(eyes.close)
        return replace(job, captioner=eyes), eyes.show


def only_failed(sources: Sequence[Source], folder: Path, *, across: bool) -> list[Source]:
    """Those of `sources` that the run in `folder` failed on.

    All of them where they share a budget: its price is found over all.
    """
    with Run.open(folder) as run:
        places = run.failed_paths()
    if not places or across:
        return list(sources) if places else []
    return [source for source in sources if as_place(source.uris[0]) in places]


@contextmanager
def json_lines(*, apart: float = 1.0) -> Iterator[Tell]:
    """A line of JSON on stderr for the first and last state, and one a second between."""
    said, last = -apart, ""

    def write(progress: Progress) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": now, "event": "progress", **progress.to_json()}
        sys.stderr.write(json.dumps(line, allow_nan=False) + "\n")
        sys.stderr.flush()

    latest: list[Progress] = []

    def tell(progress: Progress) -> None:
        nonlocal said, last
        latest[:] = [progress]
        moment = time.monotonic()
        if moment - said >= apart or progress.stage != last:
            said, last = moment, progress.stage
            write(progress)

    try:
        yield tell
    finally:
        for progress in latest:
            write(progress)


@contextmanager
def bars(has_many: bool) -> Iterator[Tell]:
    """Recordings heard and calls made, where a person is looking."""
    columns = (
        TextColumn("{task.fields[verb]}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.description}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        hearing = bar.add_task("recordings", total=0, visible=False, verb="listening")
        asking = bar.add_task("calls", total=0, visible=False, verb="asking")

        def tell(progress: Progress) -> None:
            heard = progress.heard + progress.missed
            said = f", {progress.missed} failed" if progress.missed else ""
            bar.update(
                hearing,
                completed=heard,
                total=progress.recordings,
                description=f"recordings{said}",
                visible=has_many,
            )
            bar.update(
                asking,
                completed=progress.done,
                total=progress.calls,
                description=f"calls{_spent(progress)}",
                visible=progress.calls > 0,
            )

        yield tell


def _spent(progress: Progress) -> str:
    said = f", {progress.failed} failed" if progress.failed else ""
    said += f", {progress.tokens:,} tokens" if progress.tokens else ""
    said += f", {progress.spend:.4g} spent" if progress.spend else ""
    return said + (f", {progress.rate:.3g} a second" if progress.done else "")
