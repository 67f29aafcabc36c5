"""The whole job: listen, store, select, ask, publish.

paths ──▶ listen ──▶ store ──▶ select ──▶ ask ──▶ publish
                       └── ledger ──┴────────┘
                           a second run asks only what has no answer
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from earmark.captioning.evidence_captioner import EvidenceCaptioner
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import Totals
from earmark.pipeline.backend import open_backend
from earmark.pipeline.choose import count_sightings
from earmark.pipeline.listen import listen_and_store
from earmark.pipeline.rounds import Workplace, ask_in_rounds
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.pipeline.sounds import keep_sounds
from earmark.pipeline.speech import write_down_speech
from earmark.reporting.archive_index import write_report
from earmark.reporting.progress import Progress
from earmark.reporting.run_result import CaptionResult

logger = logging.getLogger(__name__)


def caption(
    paths: Paths = (),
    *,
    run: str | Path,
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
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        api_key: For a server that wants one; kept nowhere.
        progress: Told how far it has come.
        choices: As of `make_plan`: `budget`, `server`, `model`, `frames`, `max_spend`, …

    Raises:
        ValueError: a choice is unknown or out of range.
        LedgerError: the run is in use, damaged or of another version.
        CallError: no call could succeed. A single failed call is a row, not an error.
    """
    plan = make_plan(paths, plan, **choices).with_sounds_heard().looked_at()
    now = progress or Progress()
    captioner = plan.open_captioner(api_key=api_key)
    captioner.check()
    look = plan.open_picture_evidence()
    if look is not None:
        captioner = EvidenceCaptioner(captioner, look)
    listener = plan.speech_plan.open_listener(plan.store, api_key=api_key)
    sources, described = plan.sources(), plan.run_json(captioner.model)
    with (
        open_backend(plan.backend, len(sources)) as backend,
        Ledger.open(Path(run), described) as ledger,
    ):
        recordings, missed = listen_and_store(sources, plan.listening, ledger, backend, now)
        keep_sounds(recordings, plan, ledger, backend)
        write_down_speech(recordings, plan.speech_plan, listener, ledger, backend)
        tally = ask_in_rounds(recordings, plan, captioner, Workplace(ledger, backend, now))
        logger.info("%d answered, %d failed; writing the report", tally.answered, tally.failed)
        seen = None
        if not plan.rounds.is_one:
            seen = count_sightings(recordings, plan, captioner.model, ledger, backend)
        page, totals = publish(ledger)
    return CaptionResult(Path(run), page, totals, tally, missed, ledger.interrupted, seen)


def publish(ledger: Ledger) -> tuple[Path, Totals]:
    """Write the report of the run as it stands."""
    with ledger.run() as run:
        return write_report(run, ledger.folder / "report.html"), run.totals()
