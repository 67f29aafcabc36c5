"""Asking: windows decoded a few ahead of the calls, every outcome into the ledger as it arrives."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from itertools import tee

from earmark.captioning.captioner import Captioner
from earmark.captioning.dispatch import dispatch
from earmark.captioning.limits import Limits
from earmark.captioning.question import Question
from earmark.captioning.request import Answer, Request
from earmark.captioning.usage import Failure, Tally
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import CallRow, PickFrames, PickRow
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.media.prefetch import FrameRequest, prefetch
from earmark.reporting.progress import Progress
from earmark.timeline import Span


@dataclass(frozen=True, slots=True)
class Task:
    """One picked window on its way to a model."""

    recording: Recording
    request: Request

    def __str__(self) -> str:
        span = self.request.span
        return f"{self.recording.source.name} at {span.start:g}-{span.end:g} s"


@dataclass(slots=True, eq=False)
class Tasks:
    """The picks without an answer; read from the ledger as they are come to, as often as asked."""

    question: Question
    model: str
    """To be asked."""
    ledger: Ledger
    recordings: Mapping[str, Recording]
    """By key."""
    open: dict[str, int] = field(default_factory=dict)
    """Picks without an answer, by recording."""
    lost: Collection[tuple[str, Span]] = ()
    """Calls that failed in an earlier round, by recording and span: not asked again."""
    is_whole: bool = True
    """Whether nothing is left for a later round."""

    def __len__(self) -> int:
        return sum(self.open.values())

    def __iter__(self) -> Generator[Task, None, None]:
        with self.ledger.run() as run:
            for key in (key for key, count in self.open.items() if count):
                rows = list(run.picks(key))
                waiting = (
                    row for row in rows if not row.is_settled and (key, row.span) not in self.lost
                )
                for request in requests_about(run, key, waiting, self.question, self.model):
                    yield Task(self.recordings[key], request)


def requests_about(
    run: Run, recording: str, rows: Iterator[PickRow], question: Question, model: str
) -> Iterator[Request]:
    """The requests about picks of a run, the same as when they were picked."""
    heard = run.heard(recording)
    level = heard.level if heard else None
    said = list(run.evidence(recording, kinds=("said",)))
    for row in rows:
        yield question.request(recording, row.pick, row.sounds(level, said), model)


@dataclass(slots=True, eq=False)
class CallRecorder:
    """Keeps in the ledger what becomes of each call, and tells how far it has come."""

    limits: Limits
    ledger: Ledger
    progress: Progress
    calls: int
    """To make."""
    tally: Tally = field(init=False)
    """Begins with what earlier processes of the run have spent, so that its caps hold over all."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """By identity, those under way."""
    lost: set[tuple[str, Span]] = field(default_factory=set)
    """Calls that failed, by recording and span."""

    def __post_init__(self) -> None:
        spent = self.ledger.spent()
        self.tally = Tally(
            calls_before=spent.calls, tokens_before=spent.tokens, spend_before=spent.spend
        )

    def together(self) -> AbstractContextManager[None]:
        """What is noted within is committed once, when this ends."""
        return self.ledger.together()

    def add(self, task: Task) -> Task:
        """A task is under way: it is known here until it has an outcome."""
        self.tasks[task.request.identity] = task
        return task

    def begin(self, request: Request) -> None:
        """A call is about to be sent."""
        tokens = request.most_input_tokens + request.answer_tokens
        most = (tokens, self.limits.price_at_most(request))
        self.ledger.begin(CallRow.of(request), reserve=most)

    def withdraw(self, request: Request) -> None:
        """A call was not sent after all."""
        del self.tasks[request.identity]
        self.ledger.withdraw(CallRow.of(request))

    def answered(self, request: Request, answer: Answer) -> None:
        """A call was answered: kept before another is begun."""
        spend = self.limits.cost(request, answer)
        self.ledger.keep(CallRow.of(request), answer, spend=spend)
        if answer.evidence:
            kinds = {entry.kind for entry in answer.evidence}
            self.ledger.keep_evidence(
                request.recording, answer.evidence, kinds=kinds, within=request.span
            )
        del self.tasks[request.identity]
        self.progress.count_calls(self.tally, self.calls)

    def failed(self, failure: Failure) -> None:
        """A call stays unanswered, or could not be made."""
        task = self.tasks.pop(failure.request.identity)
        self.lost.add((failure.request.recording, failure.request.span))
        self.tally.last_reason = f"{task}: {failure.reason}"
        self.ledger.fail(
            CallRow.of(failure.request),
            failure.reason,
            was_sent=failure.attempts > 0,
            tokens=failure.tokens,
            spend=self.limits.price(*failure.tokens),
        )
        self.progress.count_calls(self.tally, self.calls)


def decode(tasks: Iterable[Task], log: CallRecorder) -> Generator[Request | Failure, None, None]:
    """The requests with their frames, in order, decoded a few ahead.

    A window that cannot be decoded is a failure in its place.
    """
    ahead, behind = tee(map(log.add, tasks))  # apart by no more than is decoded ahead
    wanted = (FrameRequest(task.recording, task.request.times) for task in ahead)
    with closing(prefetch(wanted)) as decoded:
        for task, found in zip(behind, decoded, strict=True):
            if not found.frames:
                yield Failure(task.request, found.failure, attempts=0)
                continue
            frames = PickFrames.of(task.request.span, found)
            log.ledger.keep_frames(task.recording.key, frames)
            yield task.request.showing(found.frames)


def ask_here(
    tasks: Iterable[Task], captioner: Captioner, limits: Limits, log: CallRecorder
) -> Tally:
    """Decode a few windows ahead of the calls, and call; outcomes go to `log` as they arrive."""
    with closing(decode(tasks, log)) as requests:
        return dispatch(requests, captioner, limits, log, tally=log.tally)
