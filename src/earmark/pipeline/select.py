"""Listens to recordings, and chooses windows or forecasts budgets; calls and stores nothing.

paths ──▶ listen ──┬──▶ allocate ──────────▶ Selection
                   ├──▶ ladder of budgets ──▶ Forecast
                   └──▶ gate ──────────────▶ EpisodeListing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from earmark.captioning.request import Request
from earmark.errors import EarmarkError, MediaError
from earmark.evidence.sound_names import WindowSounds
from earmark.gate.forecast_error import ForecastError
from earmark.gate.gate import gate_of
from earmark.gate.lengths import describe_lengths
from earmark.gate.listener import Failed
from earmark.grid import ScoredRecording, Windows
from earmark.pipeline.backend import open_backend
from earmark.pipeline.listen import listen, listen_each
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.selection import Choice, allocate
from earmark.selection.outlook import BudgetOutlook, count_framed, share_for
from earmark.selection.pick import Pick, best_left_out
from earmark.selection.price_search import calls_for, check_coverage
from earmark.selection.result import (
    LADDER,
    CallCost,
    Chosen,
    Forecast,
    RecordingNote,
    Screening,
    Selection,
    forecast_coverage,
    forecast_rungs,
    recording_notes,
)
from earmark.settings import InvalidSetting, Settings

if TYPE_CHECKING:
    from earmark.selection.episodes import EpisodeListing

UNTOLD = "all its windows score the same, so the forecast counts windows, not actions"


def select(
    paths: Paths = (),
    *,
    settings: Settings | Session | None = None,
    progress: Progress | None = None,
    explain: int = 0,
    **choices: Unpack[Choices],
) -> Selection:
    """The windows of the recordings at `paths` that are most worth a call.

    Args:
        paths: Files, folders, globs and addresses; those of the session if not given.
        settings: Every choice; the defaults if not given.
        progress: Updated while listening.
        explain: Number of windows not chosen to list per recording, the best first.
        choices: Settings by name, which win over `settings`.

    Raises:
        ValueError: a choice is unknown or out of range. The error of a recording is not raised but
            listed in `Selection.failures`.
        MediaError: a single path was given, not a list, and it cannot be used.
    """
    plan = open_session(paths, settings, **choices)
    sources, described = plan.sources(), plan.selection_json()
    with open_backend(plan.settings.backend, len(sources)) as backend:
        scored, failures = listen_each(sources, plan.listening, backend, progress)
    _raise_alone(paths, failures)
    weights = [item.heard.recording.source.weight for item in scored]
    spent = allocate(plan.rule, scored, plan.budget, across=plan.settings.across, weights=weights)
    pairs = zip(scored, spent, strict=True)
    chosen = tuple(_chosen(plan, item, choice, explain) for item, choice in pairs)
    return Selection(described, chosen, failures)


def _raise_alone(paths: Paths, failures: Sequence[Failed]) -> None:
    """A path that was given by itself has no others to go on with."""
    if isinstance(paths, str | Path) and len(failures) == 1:
        raise MediaError(failures[0].error)


def _chosen(plan: Session, scored: ScoredRecording, choice: Choice, explain: int) -> Chosen:
    heard, recording = scored.heard, scored.heard.recording
    has_count = not plan.settings.across and plan.budget.price is None
    chaptered = len(recording.parts) > 1
    expected = float(scored.rates.sum())
    error, duration = plan.listening.frontline.error, scored.duration
    share, forecast = forecast_coverage(heard, choice, error, actions=expected, duration=duration)
    return Chosen(
        path=recording.source.path,
        duration=recording.duration,
        window=scored.length,
        windows=len(scored),
        budget=plan.budget.calls(len(scored)) if has_count else len(choice.picks),
        rule=choice.rule_used,
        frontline=heard.frontline,
        access=heard.access,
        bytes_read=heard.bytes_read,
        bytes_total=recording.size_bytes,
        forecast=forecast.expected if forecast else share,
        forecast_range=forecast,
        picks=tuple(choice.picks),
        chapters=recording.source.paths if chaptered else (),
        chapter_starts=tuple(part.start for part in recording.parts) if chaptered else (),
        notes=recording_notes(heard, choice),
        left_out=tuple(best_left_out(scored, choice.picks, explain)) if explain else (),
        actions=None if share is None else expected,
        actions_range=None if share is None or not error else error.count(expected, duration),
        lengths="" if share is None else describe_lengths([scored.lengths]),
    )


def list_episodes(
    paths: Paths = (),
    *,
    settings: Settings,
    recall: float = 0.95,
    guarantee: float | None = None,
    progress: Progress,
) -> EpisodeListing:
    """The spans that the gate keeps open, at the operating point for `recall` or `guarantee`."""
    from earmark.selection.episodes import EpisodeListing, find_episodes, promise

    gate = gate_of(settings.frontline)
    if gate is None:
        raise InvalidSetting("frontline", f"{settings.frontline} has no gate, so no episodes")
    notes, failures, recordings, promised = [], [], [], ""
    if guarantee is None:
        rule, least = gate.points.at_recall(recall), gate.points.on[-1][0]
        if recall < least:
            notes.append(f"the gate's lowest operating point is {least:.0%} recall, so it is used")
    else:
        point = promise(gate.misses, recall=guarantee)
        rule = gate.points.episodes(point.threshold)
        promised = (
            f"promise: {point.recall:.0%} recall on average over recordings like the "
            f"{point.recordings} development ones, with {point.confidence:.0%} confidence "
            f"(observed there: {point.observed:.1%}); threshold {point.threshold:.3g}"
        )
    session = open_session(paths, settings, frontline=gate.frontline())
    for source in session.sources():
        try:
            heard = listen(
                source, session.listening, on_seconds=partial(progress.at, source.name)
            ).heard
            window = session.listening.grid.length
            recordings.append(find_episodes(heard, rule, window=window))
        except EarmarkError as error:
            failures.append(str(error))
            continue
        progress.advance(heard.recording.duration, source.name)
        notes += [f"{source.name}: {note}" for note in heard.notes()]
    return EpisodeListing(tuple(recordings), tuple(failures), tuple(notes), promised)


def plan(
    paths: Paths = (),
    *,
    settings: Settings | Session | None = None,
    coverage: float | None = None,
    shares: Sequence[float] = LADDER,
    gpu_seconds: float = CallCost().gpu_seconds,
    progress: Progress | None = None,
    **choices: Unpack[Choices],
) -> Forecast:
    """Listen to recordings and forecast the coverage and cost of budgets; makes no calls.

    Budgets are spent as `caption` would: a share of each recording, or one over all with
    `across=True`. `shares` are the budgets, as shares of all windows. A call costs
    `gpu_seconds`, and the most that the prices of the settings make of its tokens. With `coverage`,
    a share of actions, the forecast has the number of calls to reach it. The other arguments are
    those of `select`.

    Raises:
        ValueError: `coverage` is given and nothing was heard to forecast it from.
    """
    session = open_session(paths, settings, **choices)
    if coverage is not None:
        check_coverage(coverage)
    sources = session.sources()
    with open_backend(session.settings.backend, len(sources)) as backend:
        scored, failures = listen_each(sources, session.listening, backend, progress)
    _raise_alone(paths, failures)
    price = call_cost(session, gpu_seconds)
    is_told = any(map(_is_told, scored))
    if coverage is not None and scored and not is_told:
        raise ValueError("nothing was heard in these recordings, so no coverage can be forecast")
    scan = sum(len(windows) for windows in scored)
    screening = Screening(
        seconds=sum(item.heard.seconds for item in scored),
        full_scan_seconds=scan * price.gpu_seconds,
        measured_now=sum(not item.heard.from_cache for item in scored),
    )
    error = session.listening.frontline.error if is_told else None
    goals = [_goal(scored, coverage, error)] if coverage is not None and scored else []
    if session.settings.across or len(scored) == 1:
        budgets = sorted({round(share * scan) for share in shares} - {0})
        budgets += [calls_for(scored, goal) for goal in goals]
        rungs = forecast_rungs(scored, budgets, price, screening, error)
    else:
        every = [*shares, *(share_for(scored, goal) for goal in goals)] if scored else []
        rungs = forecast_rungs(scored, [], price, screening, error, shares=every)
    rungs = rungs if is_told else [replace(rung, coverage=None) for rung in rungs]
    actions, duration = _count(scored)
    return Forecast(
        recordings=len(scored),
        duration=duration,
        windows=scan,
        window=session.listening.grid.length,
        frontline=session.listening.frontline.name,
        cost=price,
        screening=screening,
        rungs=tuple(rung for rung in rungs[: len(rungs) - len(goals)] if rung.calls),
        goal=rungs[-1] if goals else None,
        failures=failures,
        notes=tuple(_notes(scored, is_told=is_told)),
        actions=actions if is_told else None,
        actions_range=error.count(actions, duration) if error else None,
        across=session.settings.across,
        outlook=_outlook(session, scored) if is_told and actions else None,
        frames=session.question.frames,
        lengths=describe_lengths([windows.lengths for windows in scored]) if is_told else "",
    )


def call_cost(session: Session, gpu_seconds: float) -> CallCost:
    """The most that one call of this session costs."""
    limits, window = session.settings.limits, session.listening.grid.length
    pick = Pick(0, 0.0, window, 0.0, 0.0, 0.0, 0.0, "")
    request = Request.about("", pick, session.question, WindowSounds(), "")
    return CallCost(gpu_seconds, limits.price(*request.most_tokens), limits.currency)


def _outlook(session: Session, scored: Sequence[ScoredRecording]) -> BudgetOutlook:
    across, weights = (
        session.settings.across,
        [item.heard.recording.source.weight for item in scored],
    )
    spent = allocate(session.rule, scored, session.budget, across=across, weights=weights)
    actions, calls, touched = _count(scored)[0], 0, 0.0
    framed = dict.fromkeys(sorted({1, 2, 3, session.question.frames}), 0.0)
    for windows, choice in zip(scored, spent, strict=True):
        calls += len(choice.picks)
        touched += sum(pick.expected for pick in choice.picks) / actions
        for frames in framed:
            question = replace(session.question, frames=frames)
            times = [time for pick in choice.picks for time in question.times(pick)]
            framed[frames] += count_framed(windows, times) / actions
    return BudgetOutlook(str(session.budget), calls, min(touched, 1.0), framed)


def _goal(many: Sequence[Windows], coverage: float, error: ForecastError | None) -> float:
    """What the rates must promise so that `coverage` is expected."""
    if error is None:
        return coverage
    actions, duration = _count(many)
    return error.forecast_for(coverage, actions=actions, duration=duration)


def _count(many: Sequence[Windows]) -> tuple[float, float]:
    actions = sum(float(windows.rates.sum()) for windows in many)
    return actions, sum(windows.duration for windows in many)


def _is_told(scored: ScoredRecording) -> bool:
    is_flat = len(scored) > 1 and not scored.has_evidence
    return scored.heard.is_heard and not is_flat


def _notes(heard: Sequence[ScoredRecording], *, is_told: bool) -> Iterator[RecordingNote]:
    for scored in heard:
        path = scored.heard.recording.source.path
        yield from (RecordingNote(path, note) for note in scored.heard.notes())
        if is_told and not _is_told(scored):
            yield RecordingNote(path, UNTOLD)
