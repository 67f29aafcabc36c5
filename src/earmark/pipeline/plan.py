"""Listens to recordings and forecasts the coverage and cost of budgets; makes no calls.

paths ──▶ listen ──▶ ladder of budgets ──▶ Forecast
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Unpack

from earmark.gate.forecast_error import ForecastError
from earmark.grid import ScoredRecording, Windows
from earmark.pipeline.backend import open_backend
from earmark.pipeline.listen import listen_each
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.selection.forecast import (
    LADDER,
    CallCost,
    Forecast,
    RecordingNote,
    Screening,
    forecast_rungs,
)
from earmark.selection.price_search import calls_for, check_coverage
from earmark.settings import Settings

UNTOLD = "all its windows score the same, so the forecast counts windows, not actions"


def plan(
    paths: Paths = (),
    *,
    settings: Settings | Session | None = None,
    coverage: float | None = None,
    shares: Sequence[float] = LADDER,
    cost: CallCost | None = None,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Forecast:
    """Listen to recordings and forecast the coverage and cost of budgets; makes no calls.

    Each budget of the forecast is one for all recordings: spend it with `across=True`.

    Args:
        paths: Files, folders, globs and addresses; those of the session if not given.
        settings: Every choice; the defaults if not given.
        coverage: Share of actions to reach; the forecast then has the number of calls for it.
        shares: Budgets to forecast, as shares of all windows.
        cost: Cost of one call; the default if not given.
        progress: Updated while listening.
        choices: Settings by name, which win over `settings`.

    Raises:
        ValueError: `coverage` is given and nothing was heard to forecast it from.
    """
    made = open_session(paths, settings, **choices)
    if coverage is not None:
        check_coverage(coverage)
    sources = made.sources()
    with open_backend(made.backend, len(sources)) as backend:
        heard, failures = listen_each(sources, made.listening, backend, progress)
    price = cost if cost is not None else CallCost()
    many = [scored.windows for scored in heard]
    is_told = any(map(_is_told, heard))
    if coverage is not None and many and not is_told:
        raise ValueError("nothing was heard in these recordings, so no coverage can be forecast")
    scan = sum(len(windows) for windows in many)
    screening = Screening(
        seconds=sum(scored.heard.seconds for scored in heard),
        full_scan_seconds=scan * price.gpu_seconds,
        measured_now=sum(not scored.heard.from_cache for scored in heard),
    )
    calls = sorted({round(share * scan) for share in shares} - {0})
    error = made.listening.frontline.error if is_told else None
    goal = [_calls_for(many, coverage, error)] if coverage is not None and many else []
    rungs = forecast_rungs(many, [*calls, *goal], price, screening, error)
    rungs = rungs if is_told else [replace(rung, coverage=None) for rung in rungs]
    actions, duration = _count(many)
    return Forecast(
        recordings=len(many),
        duration=duration,
        windows=scan,
        window=made.listening.grid.length,
        frontline=made.listening.frontline.name,
        cost=price,
        screening=screening,
        rungs=tuple(rungs[: len(calls)]),
        goal=rungs[-1] if goal else None,
        failures=failures,
        notes=tuple(_notes(heard, is_told=is_told)),
        actions=actions if is_told else None,
        actions_range=error.count(actions, duration) if error else None,
    )


def _calls_for(many: Sequence[Windows], coverage: float, error: ForecastError | None) -> int:
    if error is not None:
        actions, duration = _count(many)
        coverage = error.forecast_for(coverage, actions=actions, duration=duration)
    return calls_for(many, coverage)


def _count(many: Sequence[Windows]) -> tuple[float, float]:
    actions = sum(float(windows.rates.sum()) for windows in many)
    return actions, sum(windows.duration for windows in many)


def _is_told(scored: ScoredRecording) -> bool:
    heard, windows = scored.heard, scored.windows
    is_flat = len(windows) > 1 and not windows.has_evidence
    return heard.is_heard and not is_flat


def _notes(heard: Sequence[ScoredRecording], *, is_told: bool) -> Iterator[RecordingNote]:
    for scored in heard:
        path = scored.heard.recording.source.path
        yield from (RecordingNote(path, note) for note in scored.heard.notes())
        if is_told and not _is_told(scored):
            yield RecordingNote(path, UNTOLD)
