"""A whole run: listen, store, choose, ask, publish.

paths ──▶ listen ──▶ store ──▶ choose ──▶ ask ──▶ publish
                       │         ▲ └─ rounds ─┤
                       └── run ───┴───────────┘
                           a second run asks only about picks without an answer
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, Unpack

from earmark.captioning.request import TAGS_MODEL
from earmark.gate.listener import Failed
from earmark.media.atomic_file import scratch_folder
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import RunJob, choose_and_ask, choose_tasks
from earmark.pipeline.listen import (
    forget_speech,
    keep_sounds,
    keep_speech,
    listen_and_store,
    without_empty_run,
)
from earmark.pipeline.paragraphs import ParagraphCost, write_paragraphs
from earmark.pipeline.resume import PAGE, resume
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.report.run_report import CaptionResult, write_report
from earmark.run.run import Run
from earmark.run.schema import FILE, copy_run
from earmark.run.tasks import CallRecorder
from earmark.selection.outlook import count_framed
from earmark.settings import Settings
from earmark.text_format import counted, format_spend

Amount = TypeVar("Amount", int, float)

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
    sounds, listener = plan.listening.beside, plan.open_speech_listener()
    sources, described = plan.sources(allow_none=retry_failed), plan.run_json(captioner.model)
    with (
        without_empty_run(Path(run)),
        open_backend(plan.settings.backend, len(sources)) as backend,
        Run(Path(run), described, blur=plan.question.blur) as opened,
    ):
        recordings, missed = listen_and_store(sources, plan.listening, opened, backend, progress)
        if plan.settings.limits.currency:
            opened.set_note("currency", plan.settings.limits.currency)
        opened.correct_clock(plan.settings.listening.correction)
        if sounds:
            keep_sounds(recordings.values(), sounds, opened, backend, progress)
        if listener:
            keep_speech(recordings.values(), listener, opened, backend, progress)
        elif not plan.settings.voices:
            forget_speech(opened)
        job = RunJob(plan, captioner.model, recordings, opened, backend, progress)
        log = CallRecorder(
            plan.settings.limits, opened, opened.spent(), count_calls=progress.count_calls
        )
        seen = choose_and_ask(job, captioner, log)
        tally = log.tally
        logger.info("%d answered, %d failed; writing the report", tally.answered, tally.failed)
        progress.enter("writing the report")
        opened.keep_last_picks()
        framed = _framed_share(job)
        page, totals = write_report(opened, opened.folder / PAGE), opened.totals()
    unwritten = ""
    if plan.settings.question.paragraphs and totals.answered:
        progress.enter("writing the summary")
        unwritten = write_paragraphs(Path(run), plan, api_key=api_key)
        with Run(Path(run), blur=plan.question.blur) as opened_again:
            page, totals = write_report(opened_again, page), opened_again.totals()
    forecast = totals.forecast(plan.forecast_error)
    currency = plan.settings.limits.currency
    return CaptionResult(
        Path(run),
        page,
        totals,
        tally,
        missed,
        opened.interrupted,
        *forecast,
        seen,
        currency,
        framed,
        unwritten,
    )


@dataclass(frozen=True, slots=True)
class Preview:
    """How many calls a run would make, and the most tokens and money they can cost.

    Caps hold: none of the three is more than earlier commands of the run have left of its cap.
    """

    calls: int
    kept: int
    windows: int
    tokens: int
    money: float
    failures: tuple[Failed, ...] = ()
    currency: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        return [
            f"{counted(self.calls, 'call')} to make ({counted(self.kept, 'answer')} stored) "
            f"of {counted(self.windows, 'window')}; at most {self.tokens:,} tokens"
            f"{format_spend(self.money, self.currency)}"
        ]


def preview(
    paths: Paths = (),
    *,
    run: str | Path,
    retry_failed: bool = False,
    settings: Settings | Session | None = None,
    api_key: str | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Preview:
    """Listen and choose as `caption` would, without decoding, asking or changing the run.

    Without a model, the preview assumes the one that answered last in this run. If none has
    answered yet, it gives the cost of asking about every pick.
    """
    plan = resume(open_session(paths, settings, **choices), run, retry_failed=retry_failed)
    model = plan.open_captioner(api_key=api_key).model
    sources = plan.sources(allow_none=retry_failed)
    with (
        scratch_folder() as trial,
        open_backend(plan.settings.backend, len(sources)) as backend,
    ):
        if Path(run, FILE).is_file():
            copy_run(Path(run), trial)
            with Run(trial) as stored:
                model = stored.last_model() if model == TAGS_MODEL else model
        model = "a model" if model in (TAGS_MODEL, "") else model
        with Run(trial, plan.run_json(model)) as stored:
            progress = progress or Progress()
            recordings, missed = listen_and_store(
                sources, plan.listening, stored, backend, progress
            )
            tasks = choose_tasks(RunJob(plan, model, recordings, stored, backend, progress))
            totals = stored.totals()
            failures = [Failed(row.path, row.reason) for row in stored.failed_recordings()]
            limits, spent = plan.settings.limits, stored.spent()
            calls = _within(limits.max_calls, spent.calls_before, len(tasks))
            most = [task.request.most_tokens for task in islice(tasks, calls)]
    written = len(recordings) if plan.settings.question.paragraphs else 0
    texts = ParagraphCost.of(written, limits)
    calls = _within(limits.max_calls, spent.calls_before, calls + texts.calls)
    tokens = sum(map(sum, most)) + texts.tokens
    tokens = _within(limits.max_tokens, spent.tokens_before, tokens)
    price = sum(limits.price(*counts) for counts in most) + texts.money
    money = _within(limits.max_spend, spent.spend_before, price)
    return Preview(
        calls,
        totals.picks - len(tasks),
        totals.windows,
        tokens,
        money,
        tuple(failures if missed else ()),  # else all are of earlier commands
        limits.currency,
    )


def _framed_share(job: RunJob) -> float | None:
    """Expected share of actions during which a frame is sent; None without a forecast."""
    framed = actions = 0.0
    for key in job.recordings:
        if job.run.choice(key).forecast is not None:
            heard = job.run.heard(key)
            times = (time for pick in job.run.picks(key) for time in job.plan.question.times(pick))
            framed += count_framed(heard, list(times))
            actions += float(heard.rates.sum())
    return framed / actions if actions else None


def _within(cap: Amount | None, spent: Amount, amount: Amount) -> Amount:
    return amount if cap is None else min(amount, max(cap - spent, 0))
