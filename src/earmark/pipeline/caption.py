"""A whole run: listen, store, choose, ask, publish.

paths ──▶ listen ──▶ store ──▶ choose ──▶ ask ──▶ publish
                       │         ▲ └─ rounds ─┤
                       └── run ───┴───────────┘
                           a second run asks only about picks without an answer
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Unpack

from earmark.captioning.request import TAGS_MODEL
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import RunJob, choose_tasks
from earmark.pipeline.listen import forget_speech, keep_sounds, keep_speech, listen_and_store
from earmark.pipeline.resume import resume
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.report.run_report import CaptionResult, write_report
from earmark.run.records import Totals
from earmark.run.run import Run
from earmark.run.tasks import CallRecorder
from earmark.settings import Settings

logger = logging.getLogger(__name__)


def caption(
    paths: Paths = (),
    *,
    run: str | Path,
    retry_failed: bool = False,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> CaptionResult:
    """Caption the windows of the recordings at `paths` that are most worth a call.

    A second call with the same `run` folder resumes: stored answers are not asked for again, and
    a larger budget pays only for the new windows.

    Args:
        paths: Files, folders, globs and addresses; those of the session if not given.
        run: The run's folder, for its database and its report.
        retry_failed: Work only on recordings that failed or had failed calls, by the same choices.
        settings: Every choice; the defaults if not given.
        api_key: For a server that needs one; stored nowhere.
        progress: Updated as the run advances.
        choices: Settings by name, which win over `settings`.

    Raises:
        ValueError: a choice is unknown or out of range.
        RunError: the run is in use, damaged or of another version.
        CallError: no call can succeed. A single failed call is stored in the run, not raised.
    """
    plan = resume(open_session(paths, settings, **choices), run, retry_failed=retry_failed)
    progress = progress or Progress()
    captioner = plan.open_captioner(api_key=api_key)
    captioner.check()
    progress.has_model = captioner.model != TAGS_MODEL
    sounds, listener = plan.listening.beside, plan.open_speech_listener(api_key=api_key)
    sources, described = plan.sources(allow_none=retry_failed), plan.run_json(captioner.model)
    error, seen = plan.forecast_error, None
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Run(Path(run), described, blur=plan.question.blur) as opened,
    ):
        plan.store_settings(opened.folder)
        recordings, missed = listen_and_store(sources, plan.listening, opened, backend, progress)
        if sounds:
            keep_sounds(recordings.values(), sounds, opened, backend)
        if listener:
            keep_speech(recordings.values(), listener, opened, backend)
        elif not plan.settings.voices:
            forget_speech(opened)
        job = RunJob(plan, captioner.model, recordings, opened, backend)
        log = CallRecorder(plan.limits, opened, opened.spent(), count_calls=progress.count_calls)
        if plan.rounds == 1:
            job.ask(choose_tasks(job), captioner, log)
        else:
            from earmark.pipeline.rounds import ask_in_rounds

            seen = ask_in_rounds(job, captioner, log)
        tally = log.tally
        logger.info("%d answered, %d failed; writing the report", tally.answered, tally.failed)
        opened.keep_last_picks()
        page, totals = publish(opened)
    forecast = totals.forecast(error)
    return CaptionResult(
        Path(run), page, totals, tally, missed, opened.interrupted, *forecast, seen
    )


def publish(run: Run) -> tuple[Path, Totals]:
    return write_report(run, run.folder / "report.html"), run.totals()
