"""The whole job: listen, store, choose, ask, publish.

paths ──▶ listen ──▶ store ──▶ choose ──▶ ask ──▶ publish
                       │         ▲ └─ rounds ─┤
                       └── ledger ┴───────────┘
                           a second run asks only what has no answer
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from earmark.captioning.request import TAGS_MODEL
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import Totals
from earmark.ledger.run_calls import CallRecorder
from earmark.ledger.run_reader import Run
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import RunJob, choose_tasks
from earmark.pipeline.listen import forget_speech, keep_sounds, keep_speech, listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.reporting.progress import Progress
from earmark.reporting.run_report import write_report
from earmark.reporting.run_result import CaptionResult

logger = logging.getLogger(__name__)


def caption(
    paths: Paths = (),
    *,
    run: str | Path,
    retry_failed: bool = False,
    plan: Plan | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> CaptionResult:
    """Caption the windows of the recordings at `paths` most worth a call.

    Run again with the same `run` folder it resumes: no kept answer is asked for again, and a larger
    budget asks only the new windows.

    Args:
        paths: Files, folders, globs and addresses; the plan's own if not given.
        run: The run's folder: its ledger and its report.
        retry_failed: Only recordings that failed in it, or had calls that did, by the same choices.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that wants one; kept nowhere.
        progress: Told how far it has come.
        choices: As of `make_plan`: `budget`, `server`, `model`, `frames`, `max_spend`, …

    Raises:
        ValueError: a choice is unknown or out of range.
        LedgerError: the run is in use, damaged or of another version.
        CallError: no call could succeed. A single failed call is a row, not an error.
    """
    plan = resume(make_plan(paths, plan, **choices), run, retry_failed=retry_failed)
    now = progress or Progress()
    captioner = plan.open_captioner(api_key=api_key)
    if plan.backend.batch is None:  # a batch file is written here and sent by somebody else
        captioner.check()
    now.has_model = captioner.model != TAGS_MODEL
    speech, sounds = plan.speech_plan, plan.listening.beside
    listener = speech.open_listener(plan.store, api_key=api_key) if speech.speech else None
    sources, described = plan.sources(), plan.run_json(captioner.model)
    error, seen = plan.forecast_error, None
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Ledger(Path(run), described, blur=plan.question.blur) as ledger,
    ):
        recordings, missed = listen_and_store(sources, plan.listening, ledger, backend, now)
        if sounds:
            keep_sounds(recordings.values(), sounds, ledger, backend)
        if listener:
            keep_speech(recordings.values(), listener, ledger, backend)
        elif not speech.voices:
            forget_speech(recordings.values(), ledger)
        job = RunJob(plan, captioner.model, recordings, ledger, backend)
        log = CallRecorder(plan.limits, ledger, ledger.spent(), count_calls=now.count_calls)
        if plan.rounds == 1:
            job.ask(choose_tasks(job), captioner, log)
        else:
            from earmark.pipeline.rounds import ask_in_rounds

            seen = ask_in_rounds(job, captioner, log)
        tally = log.tally
        logger.info("%d answered, %d failed; writing the report", tally.answered, tally.failed)
        page, totals = publish(ledger)
    told = totals.forecast(error)
    return CaptionResult(Path(run), page, totals, tally, missed, ledger.interrupted, *told, seen)


def publish(ledger: Ledger) -> tuple[Path, Totals]:
    """Write the report of the run as it stands."""
    with Run(ledger.folder) as run:
        return write_report(run, ledger.folder / "report.html"), run.totals()
