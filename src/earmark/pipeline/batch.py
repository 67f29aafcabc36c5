"""Writes the unanswered calls of a run as OpenAI batch files, and imports their results.

run ──▶ export ──▶ requests.jsonl ──▶ provider ──▶ results.jsonl ──▶ import ──▶ run
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from earmark.captioning.answer_files import read_batch, write_batch
from earmark.captioning.dispatch import Failure, cost_of
from earmark.captioning.request import Answer, Question, Request, Task
from earmark.errors import RunError
from earmark.evidence.picture_evidence import PictureEvidence, picture_evidence
from earmark.pipeline.backend import decode
from earmark.pipeline.resume import PAGE, blur_report, question_of, reopen_all
from earmark.pipeline.session import Session, open_session
from earmark.report.run_report import write_report
from earmark.run.erasure import note_written
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder, requests_about
from earmark.settings import Limits, Settings


@dataclass(frozen=True, slots=True)
class BatchExport:
    paths: list[Path]
    requests: int
    left_out: list[str]
    """Recordings and windows that could not be read, and the cap that ended the export."""


@dataclass(frozen=True, slots=True)
class BatchImport:
    answered: int
    failed: int
    missing: int
    unknown: int
    damaged: tuple[str, ...] = ()
    """Lines that cannot be read, and why."""


def batch_requests(run: Run, model: str, question: Question) -> list[tuple[RecordingRow, Request]]:
    return [
        (row, request)
        for row in run.recordings()
        for request in requests_about(run, row.id, run.picks(row.id), question, model)
    ]


def export_batch(
    folder: Path, path: Path, *, model: str, settings: Settings | Session | None = None
) -> BatchExport:
    """Write to `path` the requests that `model` has not answered in this run, with their pictures.

    Recordings that are gone or have changed are in `left_out`; if all are, a `MediaError` is
    raised.
    """
    asking = open_session((), settings)
    with Run(folder) as run:
        described, question = run.plan(), question_of(run, asking)
        items, answered = batch_requests(run, model, question), run.answered_identities()
        unanswered = [item for item in items if item[1].identity not in answered]
        rows = dict.fromkeys(row for row, _ in unanswered)
        recordings, lost = reopen_all(run, rows, asking.settings.folders)
        blur_report(run, question.blur)
    with Run(folder, described, blur=question.blur) as run:
        here = [(row.id, request) for row, request in unanswered if row.id in recordings]
        tasks = (Task(recordings[key], request) for key, request in here)
        log = CallRecorder(asking.settings.limits, run, run.spent(), len(here))
        look = picture_evidence(described.get("pictures"), asking.store)
        export = _write_tasks(tasks, path, log, look)
    note_written(folder, export.paths)
    return replace(export, left_out=[*map(str, lost), *export.left_out])


def _write_tasks(
    tasks: Iterator[Task], path: Path, log: CallRecorder, look: PictureEvidence | None
) -> BatchExport:
    """Ends before a cap would be exceeded if every call cost its maximum."""
    left_out: list[str] = []
    tally = replace(log.tally)

    def requests() -> Iterator[Request]:
        with closing(decode(tasks, log)) as decoded:
            for request in decoded:
                if isinstance(request, Failure):
                    left_out.append(request.reason)
                    continue
                if cap := tally.exceeded_limit(log.limits, [], request):
                    left_out.append(f"stopped: {cap}")
                    return
                tally.count(log.limits, request, Answer(text="", model=request.model))
                evidence = look(request.frames, request.span) if look else ()
                if evidence:
                    log.note_evidence(request, evidence)
                yield replace(request, evidence=evidence)

    paths = write_batch(requests(), path)
    return BatchExport(paths, tally.calls, left_out)


def import_batch(
    folder: Path, paths: Sequence[Path], *, model: str, limits: Limits | None = None
) -> BatchImport:
    with Run(folder) as run:
        plan, question = run.plan(), question_of(run, open_session())
        requests = {
            request.identity: request for _, request in batch_requests(run, model, question)
        }
        answered = run.answered_identities()
    limits = limits or Limits()
    outcomes, unknown, damaged = read_batch(paths, requests)
    if unknown and not outcomes:
        raise RunError(
            f"none of the {unknown} results answers a call of {folder} to {model}; "
            "name the model and the run that the requests were written for"
        )
    failed = 0
    with Run(folder, plan) as run:
        run.unanswered(requests[identity] for identity in outcomes)
        for identity, outcome in outcomes.items():
            request = requests[identity]
            if isinstance(outcome, Answer):
                run.keep(request, outcome, spend=cost_of(limits, request, outcome))
            else:
                run.fail(request, outcome)
                failed += 1
        write_report(run, run.folder / PAGE)
    missing = requests.keys() - outcomes.keys() - answered
    answers = len(outcomes) - failed
    return BatchImport(answers, failed, len(missing), unknown, tuple(damaged))
