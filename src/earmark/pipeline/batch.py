"""Writes the unanswered calls of a run as OpenAI batch files; the batch import of their results.

caption --engine batch ──▶ requests.jsonl ──▶ provider ──▶ results.jsonl ──▶ import
export --format batch  ──▶
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from earmark.captioning.limits import Limits
from earmark.captioning.openai_batch import read_batch, write_batch
from earmark.captioning.question import Question
from earmark.captioning.request import Answer, Request, Task
from earmark.captioning.usage import Failure, UsageCounter
from earmark.errors import LedgerError, MediaError
from earmark.evidence.picture_evidence import PictureEvidence, picture_evidence
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_calls import CallRecorder, requests_about
from earmark.ledger.run_reader import Run
from earmark.media.prefetch import Decoder
from earmark.pipeline.ask import decode
from earmark.pipeline.caption import publish
from earmark.pipeline.resume import blur_report, question_of, reopen
from earmark.pipeline.run_plan import Plan


@dataclass(frozen=True, slots=True)
class BatchExport:
    """The batch files that were written."""

    paths: list[Path]
    requests: int
    left_out: list[str]
    """Why recordings could not be opened and windows not decoded, one line each."""


@dataclass(frozen=True, slots=True)
class BatchImport:
    """Counts of what an import of results found."""

    answered: int
    failed: int
    missing: int
    """Calls of the run without a result, and without an answer before."""
    unknown: int
    """Results that belong to no call of the run."""


def batch_requests(run: Run, model: str, question: Question) -> list[tuple[RecordingRow, Request]]:
    """Every pick of the run's current plan as a request to `model`, answered or not."""
    return [
        (row, request)
        for row in run.recordings()
        for request in requests_about(run, row.id, run.picks(row.id), question, model)
    ]


def export_batch(folder: Path, path: Path, *, model: str, plan: Plan | None = None) -> BatchExport:
    """Write to `path` the requests that `model` has not answered in this run, with their pictures.

    Faces are blurred if the run has them blurred or `plan` says so. The prompts contain the texts
    and objects that small models find in the frames, unless the run does without.

    Raises:
        LedgerError: no run in `folder`, or it is in use.
        MediaError: every recording that is asked about is gone or has changed. Where only some
            are, the others are written, and `left_out` says why.
    """
    asking = plan or Plan()
    with Run(folder) as run:
        described, question = run.plan(), question_of(run, asking)
        items, answered = batch_requests(run, model, question), run.answered_calls()
        wanted = [(row, request) for row, request in items if request.identity not in answered]
        recordings, lost = {}, []
        for row in dict.fromkeys(row for row, _ in wanted):
            try:
                recordings[row.id] = reopen(run, row)
            except MediaError as error:
                lost.append(error)
        if lost and not recordings:
            raise lost[0]
        blur_report(run, question.blur)
    with Ledger(folder, described, blur=question.blur) as ledger:
        here = [(row.id, request) for row, request in wanted if row.id in recordings]
        tasks = (Task(recordings[key], request) for key, request in here)
        log = CallRecorder(Limits(), ledger, ledger.spent(), len(here))
        look = picture_evidence(described.get("pictures"), asking.store)
        failed = [failure.reason for failure in write_tasks(tasks, path, log, look)]
    left_out = [*map(str, lost), *failed]
    return BatchExport([*map(Path, log.tally.files)], log.tally.written, left_out)


def write_tasks(
    tasks: Iterator[Task],
    path: Path,
    log: CallRecorder,
    look: PictureEvidence | None,
    open_decoder: Callable[[], Decoder] | None = None,
) -> list[Failure]:
    """Write `tasks` to `path` until a cap would be exceeded if every call cost its maximum.

    The run stores what `look` finds in the frames. Returns the tasks that cannot be decoded.
    """
    failures: list[Failure] = []
    usage = UsageCounter(log.limits, replace(log.tally))

    def requests() -> Iterator[Request]:
        with closing(decode(tasks, log, open_decoder)) as decoded:
            for found in decoded:
                if isinstance(found, Failure):
                    failures.append(found)
                    continue
                log.tally.stopped = usage.exceeded_limit([], found)
                if log.tally.stopped is not None:
                    return
                usage.count(found, Answer(text="", model=found.model))
                log.tally.written += 1
                evidence = look(found.frames, found.span) if look else ()
                if evidence:
                    log.note_evidence(found, evidence)
                yield replace(found, evidence=evidence)

    log.tally.files = tuple(map(str, write_batch(requests(), path)))
    return failures


def import_batch(
    folder: Path, paths: Sequence[Path], *, model: str, limits: Limits | None = None
) -> BatchImport:
    """Store the answers in the result and error files of a batch, and update the report.

    `model` is the one the requests were written for; `limits` has the prices of its answers.
    """
    with Run(folder) as run:
        plan, question = run.plan(), question_of(run, Plan())
        requests = [request for _, request in batch_requests(run, model, question)]
        answered = run.answered_calls()
    limits = limits or Limits()
    asked = {request.identity: request for request in requests}
    results = read_batch(paths, requests)
    if results.unknown and not results.answers and not results.failures:
        raise LedgerError(
            f"none of the {len(results.unknown)} results answers a call of {folder} to {model}; "
            "name the model and the run that the requests were written for"
        )
    with Ledger(folder, plan) as ledger:
        ledger.unanswered(asked[one] for one in (*results.answers, *results.failures))
        for identity, answer in results.answers.items():
            spend = limits.cost(asked[identity], answer)
            ledger.keep(asked[identity], answer, spend=spend)
        for identity, reason in results.failures.items():
            ledger.fail(asked[identity], reason)
        publish(ledger)
    missing = set(results.missing) - answered
    return BatchImport(
        len(results.answers), len(results.failures), len(missing), len(results.unknown)
    )
