"""The calls of a run: those still to make, and the record of their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from earmark.captioning.dispatch import Failure, Tally, cost_of
from earmark.captioning.request import Answer, Question, Request, Task
from earmark.evidence.evidence_entry import EvidenceEntry, EvidenceTimeline
from earmark.evidence.sound_names import sounds_in
from earmark.gate.forecast_error import ForecastError
from earmark.grid import Windows
from earmark.media import Recording
from earmark.run.records import HeardRow, RunPick
from earmark.run.run import Run
from earmark.selection.pick import Pick
from earmark.settings import Limits
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.evidence.sound_names import SoundNamer, SoundNames


@dataclass(frozen=True, slots=True)
class StoredWindows(Collection[Windows]):
    run: Run
    paid: Mapping[str, tuple[int, ...]]

    def __len__(self) -> int:
        return len(self.paid)

    def __iter__(self) -> Iterator[Windows]:
        for recording, paid in self.paid.items():
            yield replace(self.run.heard(recording), owned=paid)

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)


@dataclass(slots=True, eq=False)
class Tasks:
    question: Question
    model: str
    run: Run
    recordings: Mapping[str, Recording]
    open: dict[str, int] = field(default_factory=dict)
    lost: Collection[tuple[str, Span]] = ()
    """Failed in an earlier round, by recording and span: not asked again."""
    error: ForecastError | None = None
    is_whole: bool = True

    def __len__(self) -> int:
        return sum(self.open.values())

    def __iter__(self) -> Generator[Task, None, None]:
        for key in (key for key, count in self.open.items() if count):
            waiting = (
                row
                for row in self.run.picks(key)
                if not row.is_settled and (key, row.span) not in self.lost
            )
            for request in requests_about(self.run, key, waiting, self.question, self.model):
                yield Task(self.recordings[key], request)

    def requests(
        self,
        heard: HeardRow,
        picks: Sequence[Pick],
        names: SoundNames,
        namer: SoundNamer | None,
    ) -> list[Request]:
        """The request about each of `picks`; the answered one if its sounds had other names then.

        An answer that was paid for stays that of its window, whatever became of the cache of names.
        """
        speech = self.run.evidence(heard.recording, kinds=("said",))
        spans = [pick.span for pick in picks]
        sounds = sounds_in(spans, level=heard.level, names=names, said=speech)
        answered = self.run.answered(heard.recording)
        earlier = self.run.tags(heard.recording, sounds=namer.model) if namer and answered else {}
        requests = []
        for pick in picks:
            own, tags = sounds[pick.span], earlier.get(pick.span)
            request = Request.about(heard.recording, pick, self.question, own, self.model)
            if tags is not None and request.identity not in answered:
                own = replace(own, names=tags[: len(tags) - len(own.words)])
                again = Request.about(heard.recording, pick, self.question, own, self.model)
                request = again if again.identity in answered else request
            requests.append(request)
        return requests


def requests_about(
    run: Run, recording: str, rows: Iterable[RunPick], question: Question, model: str
) -> Iterator[Request]:
    level = run.heard(recording).level
    speech = EvidenceTimeline(run.evidence(recording, kinds=("said",)))
    for row in rows:
        yield Request.about(recording, row, question, row.sounds(level, speech), model)


@dataclass(slots=True, eq=False)
class CallRecorder:
    limits: Limits
    run: Run
    tally: Tally
    """Begins with what earlier processes of the run have spent, so that its caps hold over all."""
    calls: int = 0
    count_calls: Callable[[Tally, int], None] = lambda *_: None
    tasks: dict[str, Task] = field(default_factory=dict)
    unanswered: set[tuple[str, Span]] = field(default_factory=set)

    def together(self) -> AbstractContextManager[None]:
        return self.run.together()

    def add(self, task: Task) -> Task:
        self.tasks[task.request.identity] = task
        return task

    def begin(self, request: Request) -> None:
        most = request.most_tokens
        reserve = (sum(most), self.limits.price(*most))
        self.run.begin(request, reserve=reserve)
        self.count_calls(self.tally, self.calls)

    def withdraw(self, request: Request) -> None:
        del self.tasks[request.identity]
        self.run.withdraw(request)

    def lost(self, request: Request, *, was_sent: bool) -> None:
        if not was_sent:
            self.run.uncount(request)
            return
        tokens = request.most_tokens
        reason, spend = "an attempt broke off", self.limits.price(*tokens)
        self.run.fail(request, reason, was_sent=None, tokens=tokens, spend=spend)

    def answered(self, request: Request, answer: Answer) -> None:
        spend = cost_of(self.limits, request, answer)
        self.run.keep(request, answer, spend=spend)
        if answer.evidence:
            self.note_evidence(request, answer.evidence)
        del self.tasks[request.identity]
        self.count_calls(self.tally, self.calls)

    def note_evidence(self, request: Request, found: Sequence[EvidenceEntry]) -> None:
        kinds = {entry.kind for entry in found}
        self.run.keep_evidence(request.recording, found, kinds=kinds, within=request.span)

    def failed(self, failure: Failure) -> None:
        task = self.tasks.pop(failure.request.identity)
        self.unanswered.add((failure.request.recording, failure.request.span))
        self.tally.last_reason = f"{task}: {failure.reason}"
        self.run.fail(
            failure.request,
            failure.reason,
            was_sent=failure.attempts > 0,
            tokens=failure.tokens,
            spend=self.limits.price(*failure.tokens),
        )
        self.count_calls(self.tally, self.calls)
