"""The calls of a run: those still to make, and the record of their outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.captioning.limits import Limits
from earmark.captioning.question import Question
from earmark.captioning.request import Answer, Request, Task
from earmark.captioning.usage import Failure, Tally
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.window_sounds import SpokenSentences, sounds_in
from earmark.gate.forecast_error import ForecastError
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import HeardRow, PickRow
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.selection.pick import Pick
from earmark.timeline import Span

if TYPE_CHECKING:
    from earmark.evidence.sound_names import SoundNamer, SoundNames


@dataclass(frozen=True, slots=True)
class StoredWindows(Collection[Windows]):
    """The windows of all recordings of a run, read from its database on every iteration."""

    folder: Path
    """Of the run."""
    survival: Survival
    paid: Mapping[str, tuple[int, ...]]
    """The windows whose call is paid already, by recording; each has been heard."""

    def __len__(self) -> int:
        return len(self.paid)

    def __iter__(self) -> Iterator[Windows]:
        with Run(self.folder) as run:
            for recording, paid in self.paid.items():
                heard = run.heard(recording)
                assert heard is not None, "only what was heard is read back"
                yield heard.windows(self.survival, owned=paid)

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)


@dataclass(slots=True, eq=False)
class Tasks:
    """The picks without an answer, read from the ledger on every iteration."""

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
    error: ForecastError | None = None
    """How far forecasts may be off, where that was measured."""
    is_whole: bool = True
    """Whether nothing is left for a later round."""

    def __len__(self) -> int:
        return sum(self.open.values())

    def __iter__(self) -> Generator[Task, None, None]:
        with Run(self.ledger.folder) as run:
            for key in (key for key, count in self.open.items() if count):
                rows = list(run.picks(key))
                waiting = (
                    row for row in rows if not row.is_settled and (key, row.span) not in self.lost
                )
                for request in requests_about(run, key, waiting, self.question, self.model):
                    yield Task(self.recordings[key], request)

    def requests(
        self,
        run: Run,
        heard: HeardRow,
        picks: Sequence[Pick],
        names: SoundNames,
        namer: SoundNamer | None,
    ) -> list[Request]:
        """The request about each of `picks`; the answered one if its sounds had other names then.

        The same `namer` names a window from a cached track or from the window alone, by what its
        cache holds. An answer that was paid for stays that of its window, whatever became of the
        cache.
        """
        speech = run.evidence(heard.recording, kinds=("said",))
        spans = [pick.span for pick in picks]
        sounds = sounds_in(spans, level=heard.level, names=names, said=speech)
        answered = {row.identity for row in self.ledger.answered(heard.recording)}
        earlier = run.tags(heard.recording, sounds=namer.model) if namer and answered else {}
        made = []
        for pick in picks:
            own, tags = sounds[pick.span], earlier.get(pick.span)
            request = Request.about(heard.recording, pick, self.question, own, self.model)
            if tags is not None and request.identity not in answered:
                own = replace(own, names=tags[: len(tags) - len(own.words)])
                again = Request.about(heard.recording, pick, self.question, own, self.model)
                request = again if again.identity in answered else request
            made.append(request)
        return made


def requests_about(
    run: Run, recording: str, rows: Iterator[PickRow], question: Question, model: str
) -> Iterator[Request]:
    """The requests about picks of a run, the same as when they were picked."""
    heard = run.heard(recording)
    level = heard.level if heard else None
    said = SpokenSentences(run.evidence(recording, kinds=("said",)))
    for row in rows:
        yield Request.about(recording, row.pick, question, row.sounds(level, said), model)


@dataclass(slots=True, eq=False)
class CallRecorder:
    """Records the outcome of each call in the ledger, and reports progress."""

    limits: Limits
    ledger: Ledger
    tally: Tally
    """Begins with what earlier processes of the run have spent, so that its caps hold over all."""
    calls: int = 0
    """To make."""
    count_calls: Callable[[Tally, int], None] = lambda *_: None
    """Called with the tally so far, and the number of calls to make."""
    tasks: dict[str, Task] = field(default_factory=dict)
    """By identity, those under way."""
    unanswered: set[tuple[str, Span]] = field(default_factory=set)
    """Calls that failed, by recording and span."""

    def together(self) -> AbstractContextManager[None]:
        """Outcomes recorded within the block are committed together, when it ends."""
        return self.ledger.together()

    def add(self, task: Task) -> Task:
        """Remember a task until it has an outcome."""
        self.tasks[task.request.identity] = task
        return task

    def begin(self, request: Request) -> None:
        """A call is about to be sent."""
        most = request.most_tokens
        reserve = (sum(most), self.limits.price(*most))
        self.ledger.begin(request, reserve=reserve)

    def withdraw(self, request: Request) -> None:
        """A call was not sent after all."""
        del self.tasks[request.identity]
        self.ledger.withdraw(request)

    def lost(self, request: Request) -> None:
        """An attempt broke off: the most it can have cost is counted."""
        tokens = request.most_tokens
        reason, spend = "an attempt broke off", self.limits.price(*tokens)
        self.ledger.fail(request, reason, was_sent=None, tokens=tokens, spend=spend)

    def answered(self, request: Request, answer: Answer) -> None:
        """A call was answered: stored before another begins."""
        spend = self.limits.cost(request, answer)
        self.ledger.keep(request, answer, spend=spend)
        if answer.evidence:
            self.note_evidence(request, answer.evidence)
        del self.tasks[request.identity]
        self.count_calls(self.tally, self.calls)

    def note_evidence(self, request: Request, found: Sequence[EvidenceEntry]) -> None:
        """Small models found this in the frames of a call."""
        kinds = {entry.kind for entry in found}
        self.ledger.keep_evidence(request.recording, found, kinds=kinds, within=request.span)

    def failed(self, failure: Failure) -> None:
        """A call stays unanswered, or could not be made."""
        task = self.tasks.pop(failure.request.identity)
        self.unanswered.add((failure.request.recording, failure.request.span))
        self.tally.last_reason = f"{task}: {failure.reason}"
        self.ledger.fail(
            failure.request,
            failure.reason,
            was_sent=failure.attempts > 0,
            tokens=failure.tokens,
            spend=self.limits.price(*failure.tokens),
        )
        self.count_calls(self.tally, self.calls)
