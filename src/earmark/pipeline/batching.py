"""A run asked by post: its open questions as OpenAI Batch files, and the results taken back in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from earmark.captioning import Limits, Request, read_batch, write_batch
from earmark.errors import LedgerError, MediaError
from earmark.evidence.level_words import describe
from earmark.ledger import CallRow, Ledger, PickRow, RecordingRow, Run
from earmark.media import Recording, Source, open_recording
from earmark.media.prefetch import FrameRequest, prefetch
from earmark.pipeline.caption import publish
from earmark.pipeline.question import Ask, Sounds
from earmark.timeline import Span, Track


@dataclass(frozen=True, slots=True)
class Question:
    """A pick of a run, put to a model."""

    recording: RecordingRow
    request: Request

    @property
    def call(self) -> CallRow:
        """As the ledger knows it."""
        return CallRow.of(self.request)


@dataclass(slots=True)
class Written:
    """A batch on its way."""

    paths: list[Path] = field(default_factory=list)
    requests: int = 0
    left_out: list[str] = field(default_factory=list)
    """Windows that could not be decoded, a line each."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A batch come back."""

    answered: int
    failed: int
    missing: int
    """Questions of the run that are in no result."""
    unknown: int
    """Results that answer no question of the run."""


def questions(run: Run, model: str) -> list[Question]:
    """Every pick of the run's present plan as a question to `model`, answered or not."""
    plan = run.plan()
    if "ask" not in plan:
        raise LedgerError(f"{run.folder} holds no plan to ask by; make it with `earmark caption`")
    ask = Ask.from_json(plan["ask"])
    every = []
    for recording in run.recordings():
        heard = run.heard(recording.id)
        for row in run.picks(recording.id):
            sounds = _sounds(row, heard.level if heard else None)
            request = ask.request(recording.id, row.pick, sounds, model)
            every.append(Question(recording, request))
    return every


def _sounds(row: PickRow, level: Track | None) -> Sounds:
    """What is heard in a pick, as it was when it was picked: the question must be the same."""
    words = describe(level, Span(row.pick.start, row.pick.end)) if level else ()
    return Sounds(row.heard[: len(row.heard) - len(words)], words)


def write_requests(folder: Path, path: Path, *, model: str) -> Written:
    """Write to `path`, pictures included, what the run has no answer of `model` to.

    Raises:
        LedgerError: no run in `folder`, or it is in use.
        MediaError: a recording of the run is gone or has changed.
    """
    with Run.open(folder) as run:
        plan, every = run.plan(), questions(run, model)
    written = Written()
    with Ledger.open(folder, plan) as ledger:
        waiting = {call.identity for call in ledger.unanswered([one.call for one in every])}
        wanted = [one for one in every if one.request.identity in waiting]
        written.paths = write_batch(_shown(wanted, written), path)
    return written


def take_results(
    folder: Path, paths: Sequence[Path], *, model: str, limits: Limits | None = None
) -> Taken:
    """Keep the answers in the result files of a batch, and write the report anew.

    Args:
        folder: The run.
        paths: Result and error files, as the batch left them.
        model: The model the requests were written for.
        limits: Prices, to count what the answers cost.
    """
    with Run.open(folder) as run:
        plan, every = run.plan(), questions(run, model)
    limits = limits or Limits()
    calls = {one.request.identity: one.call for one in every}
    results = read_batch(paths, [one.request for one in every])
    with Ledger.open(folder, plan) as ledger:
        ledger.unanswered(list(calls.values()))
        for identity, answer in results.answers.items():
            spent = limits.price(answer.prompt_tokens or 0, answer.completion_tokens or 0)
            ledger.keep(calls[identity], answer, spend=spent)
        for identity, reason in results.failures.items():
            ledger.fail(calls[identity], reason)
        publish(ledger)
    return Taken(
        len(results.answers), len(results.failures), len(results.missing), len(results.unknown)
    )


def _shown(wanted: Sequence[Question], written: Written) -> Iterator[Request]:
    """The requests with their frames; counted, and those that cannot be decoded noted."""
    recordings = {row.id: _reopened(row) for row in {one.recording for one in wanted}}
    windows = (FrameRequest(recordings[one.recording.id], one.request.times) for one in wanted)
    with closing(prefetch(windows)) as ahead:
        for one, seen in zip(wanted, ahead, strict=True):
            if seen.failure:
                written.left_out.append(seen.failure)
                continue
            written.requests += 1
            yield one.request.showing(seen.frames)


def _reopened(row: RecordingRow) -> Recording:
    """The recording a run knows, found again where it was."""
    files = tuple(path for path, _ in row.chapters) or (row.path,)
    recording = open_recording(Source(files, id=row.name))
    if recording.key == row.id:
        return recording
    raise MediaError(
        f"{row.path} is not the recording the run listened to: it has changed since; "
        "run `earmark caption` on it again"
    )
