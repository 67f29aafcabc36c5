"""The calls a run still has to make, read from its picks."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass, field

from earmark.captioning.question import Question
from earmark.captioning.request import Request, Task
from earmark.gate.forecast_error import ForecastError
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import PickRow
from earmark.ledger.run_reader import Run
from earmark.media import Recording
from earmark.timeline import Span


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
    error: ForecastError | None = None
    """How far forecasts may be off, where that was measured."""
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
