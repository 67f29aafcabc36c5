"""A whole run: listen, store, choose, ask, publish.

paths ──▶ listen ──▶ store ──▶ choose ──▶ ask ──▶ publish
                       │         ▲ └─ rounds ─┤
                       └── ledger ┴───────────┘
                           a second run asks only about picks without an answer
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
    """Caption the windows of the recordings at `paths` that are most worth a call.

    A second call with the same `run` folder resumes: stored answers are not asked for again, and
    a larger budget pays only for the new windows.

    Args:
        paths: Files, folders, globs and addresses; those of the plan if not given.
        run: The run's folder, for its ledger and its report.
        retry_failed: Work only on recordings that failed or had failed calls, by the same choices.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that needs one; stored nowhere.
        progress: Updated as the run advances.
        choices: See `make_plan`: `budget`, `server`, `model`, `frames`, `max_spend`, …

    Raises:
        ValueError: a choice is unknown or out of range.
        LedgerError: the run is in use, damaged or of another version.
        CallError: no call can succeed. A single failed call is stored in the run, not raised.
    """
    plan = resume(make_plan(paths, plan, **choices), run, retry_failed=retry_failed)
    progress = progress or Progress()
    captioner = plan.open_captioner(api_key=api_key)
    if plan.backend.batch is None:  # this process only writes a batch file; the user sends it
        captioner.check()
    progress.has_model = captioner.model != TAGS_MODEL
    speech, sounds = plan.speech_plan, plan.listening.beside
    listener = speech.open_listener(plan.store, api_key=api_key) if speech.speech else None
    sources, described = plan.sources(allow_none=retry_failed), plan.run_json(captioner.model)
    error, seen = plan.forecast_error, None
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Ledger(Path(run), described, blur=plan.question.blur) as ledger,
    ):
        recordings, missed = listen_and_store(sources, plan.listening, ledger, backend, progress)
        if sounds:
            keep_sounds(recordings.values(), sounds, ledger, backend)
        if listener:
            keep_speech(recordings.values(), listener, ledger, backend)
        elif not speech.voices:
            forget_speech(ledger)
        job = RunJob(plan, captioner.model, recordings, ledger, backend)
        log = CallRecorder(plan.limits, ledger, ledger.spent(), count_calls=progress.count_calls)
        if plan.rounds == 1:
            job.ask(choose_tasks(job), captioner, log)
        else:
            from earmark.pipeline.rounds import ask_in_rounds

            seen = ask_in_rounds(job, captioner, log)
        tally = log.tally
        logger.info("%d answered, %d failed; writing the report", tally.answered, tally.failed)
        ledger.keep_last_picks()
        page, totals = publish(ledger)
    forecast = totals.forecast(error)
    return CaptionResult(
        Path(run), page, totals, tally, missed, ledger.interrupted, *forecast, seen
    )


def publish(ledger: Ledger) -> tuple[Path, Totals]:
    """Write the report of the run in its present state; returns its path and the totals."""
    with Run(ledger.folder) as run:
        return write_report(run, ledger.folder / "report.html"), run.totals()
