"""The whole job: listen, choose, decode only the picks, ask once a window, keep every answer.

paths ──▶ hear ──▶ spend ──▶ unanswered ──▶ decode ──▶ ask ──▶ ledger ──▶ page
            └─ ledger ─┘         ▲                       │
                                 └── a second run asks only what has no answer
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path

from earmark.captioning import Answer, Failure, Limits, Request, TagsCaptioner, Tally, ask_all
from earmark.ledger import Ledger, PickFrames, Totals
from earmark.media import Frame, Source
from earmark.media.prefetch import DecodedFrames, FrameRequest, prefetch
from earmark.pipeline.choosing import Tasks
from earmark.pipeline.job import Job
from earmark.pipeline.preparing import prepare
from earmark.pipeline.question import Task
from earmark.pipeline.triage import Ears, Watch
from earmark.reporting.archive_index import write_report

THUMBNAIL = 320
"""Pixels across a picture in the report."""


@dataclass(frozen=True, slots=True)
class Captioned:
    """What a run has come to."""

    folder: Path
    page: Path
    totals: Totals
    tally: Tally
    """Of the calls of this very run; `totals` are of all there ever were."""
    missed: int
    """Recordings that could not be worked on."""
    interrupted: int
    """Calls an earlier process left in flight; these may have been asked twice."""


Step = Callable[[Tally, int], None]
"""Told the calls so far and how many there are to make."""

Show = Callable[
    [Iterable[Task], Ledger, Callable[[Task, str], None]], Generator[Request, None, None]
]
"""Makes requests of tasks as `show` does."""


def caption(
    paths: Sequence[str | Path | Source],
    job: Job,
    *,
    folder: Path,
    watch: Watch | None = None,
    step: Step | None = None,
    ears: Ears | None = None,
    look: Show | None = None,
) -> Captioned:
    """Caption the windows of the recordings at `paths` most worth a call.

    Run again with the same `folder` it takes up where it stopped: no kept answer is asked for
    again, and a larger budget asks only the new windows.

    Args:
        paths: Files, folders, globs and addresses.
        job: How to listen, to choose and to ask, and whom.
        folder: The run: its ledger and its report.
        watch: Told how far listening has come.
        step: Told how far asking has come.
        ears: Who listens; this process, one recording after the other, if not given.
        look: Who decodes; this process, a few windows ahead of the calls, if not given.

    Raises:
        LedgerError: the run is in use, damaged or of another version.
        CallError: no call could succeed. A single failed call is a row, not an error.
    """
    job.captioner.check()
    with Ledger.open(folder, job.to_json()) as ledger:
        tasks, missed = prepare(paths, job, ledger, watch=watch, ears=ears)
        tally = _ask(tasks, job, ledger, step, look or show)
        page, totals = publish(ledger)
        return Captioned(folder, page, totals, tally, missed, ledger.interrupted)


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
    paths: Sequence[str | Path | Source],
    job: Job,
    *,
    folder: Path,
    watch: Watch | None = None,
    ears: Ears | None = None,
) -> Preview:
    """Listen and choose as `caption` would; decode and ask nothing, and leave the run as it is.

    Without a model the cost is that of asking one about every pick.
    """
    if job.captioner.model == TagsCaptioner().model:  # by name: on a cluster it is wrapped
        job = replace(job, captioner=TagsCaptioner(model="a model"))
    with _copied(folder) as trial, Ledger.open(trial, job.to_json()) as ledger:
        tasks, _ = prepare(paths, job, ledger, watch=watch, ears=ears)
        with ledger.run() as run:
            totals = run.totals()
        tokens, money = 0, 0.0
        for task in tasks:
            tokens += task.request.most_input_tokens + task.request.answer_tokens
            money += job.limits.price_at_most(task.request)
    return Preview(
        calls=len(tasks),
        kept=totals.picks - len(tasks),
        windows=totals.windows,
        tokens=tokens,
        money=money,
    )


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """A copy of the run in `folder`, if there is one, that is gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch:
        for file in folder.glob("run.db*"):
            shutil.copy2(file, scratch)
        yield Path(scratch)


def publish(ledger: Ledger) -> tuple[Path, Totals]:
    """Write the report of the run as it stands."""
    with ledger.run() as run:
        return write_report(run, ledger.folder / "report.html"), run.totals()


def _ask(tasks: Tasks, job: Job, ledger: Ledger, step: Step | None, look: Show) -> Tally:
    """Decode and ask, and keep each outcome as it arrives."""
    keeper = _Keeper(job.limits, ledger, step, len(tasks))
    keeper.moved()
    with closing(look(keeper.noting(tasks), ledger, keeper.unseen)) as shown:
        return ask_all(
            shown,
            job.captioner,
            job.limits,
            keeper.answered,
            keeper.failed,
            log=keeper,
            tally=keeper.tally,
        )


@dataclass(slots=True, eq=False)
class _Keeper:
    """Keeps in the ledger what becomes of each task."""

    limits: Limits
    ledger: Ledger
    step: Step | None
    total: int
    tally: Tally = field(default_factory=Tally)
    under_way: dict[str, Task] = field(default_factory=dict)
    """By identity."""

    def noting(self, tasks: Iterable[Task]) -> Iterator[Task]:
        """The tasks as they are, each remembered until it has an outcome."""
        for task in tasks:
            self.under_way[task.request.identity] = task
            yield task

    def begin(self, request: Request) -> None:
        self.ledger.begin(self.under_way[request.identity].row)

    def withdraw(self, request: Request) -> None:
        self.ledger.withdraw(self.under_way.pop(request.identity).row)

    def answered(self, request: Request, answer: Answer) -> None:
        task = self.under_way.pop(request.identity)
        spent = self.limits.price(answer.prompt_tokens or 0, answer.completion_tokens or 0)
        self.ledger.keep(task.row, answer, spend=spent)
        self.moved()

    def failed(self, failure: Failure) -> None:
        task = self.under_way.pop(failure.request.identity)
        self.tally.last_reason = f"{task}: {failure.reason}"
        self.ledger.fail(
            task.row,
            failure.reason,
            was_sent=failure.attempts > 0,
            tokens=failure.tokens,
            spend=self.limits.price(*failure.tokens),
        )
        self.moved()

    def unseen(self, task: Task, reason: str) -> None:
        """A window could not be decoded, so there is nothing to ask."""
        failure = Failure(task.request, reason, attempts=0)
        self.tally.fail(failure)
        self.failed(failure)

    def moved(self) -> None:
        """Say how far it has come."""
        if self.step is not None:
            self.step(self.tally, self.total)


def show(
    tasks: Iterable[Task], ledger: Ledger, unseen: Callable[[Task, str], None]
) -> Generator[Request, None, None]:
    """The requests with their frames, in order.

    A window that cannot be decoded is left out; `unseen` is told which and why.
    """
    ahead_of, behind = tee(tasks)  # apart by no more than is decoded ahead
    wanted = (FrameRequest(task.recording, task.request.times) for task in ahead_of)
    with closing(prefetch(wanted)) as ahead:
        for task, seen in zip(behind, ahead, strict=True):
            if not seen.frames:
                unseen(task, seen.failure)
                continue
            ledger.keep_frames(task.recording.key, frames_of(task, seen))
            yield task.request.showing(seen.frames)


def frames_of(task: Task, seen: DecodedFrames) -> PickFrames:
    """What looking at a window took, with a picture of it."""
    return PickFrames(
        span=task.request.span,
        thumbnail=thumbnail(seen.frames[len(seen.frames) // 2]),
        frames_decoded=seen.frames_decoded,
        frames_sent=len(seen.frames),
        bytes_read=seen.bytes_read,
    )


def thumbnail(frame: Frame) -> bytes:
    """A small JPEG of `frame`, for the report."""
    width = min(THUMBNAIL, frame.width)
    height = max(1, round(frame.height * width / frame.width))
    return frame.resized(width, height).jpeg(quality=80)
