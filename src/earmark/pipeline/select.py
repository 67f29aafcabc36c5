"""Listens to recordings and chooses windows under a budget; decodes, asks and stores nothing.

paths ──▶ listen ──▶ allocate ──▶ Selection
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from earmark.errors import EarmarkError
from earmark.gate.gate import gate_of
from earmark.grid import ScoredRecording
from earmark.pipeline.backend import open_backend
from earmark.pipeline.listen import listen, listen_each
from earmark.pipeline.session import Choices, Paths, Session, open_session
from earmark.report.progress import Progress
from earmark.selection import Choice, allocate
from earmark.selection.pick import best_left_out
from earmark.selection.result import Chosen, Selection, forecast_coverage, recording_notes
from earmark.settings import InvalidSetting, Settings

if TYPE_CHECKING:
    from earmark.selection.episodes import EpisodeListing


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
    """
    plan = open_session(paths, settings, **choices)
    sources, described = plan.sources(), plan.selection_json()
    with open_backend(plan.backend, len(sources)) as backend:
        heard, failures = listen_each(sources, plan.listening, backend, progress)
    many = [one.windows for one in heard]
    weights = [one.heard.recording.source.weight for one in heard]
    spent = allocate(plan.rule, many, plan.budget, across=plan.across, weights=weights)
    chosen = (_chosen(plan, one, choice, explain) for one, choice in zip(heard, spent, strict=True))
    return Selection(described, tuple(chosen), failures)


def _chosen(plan: Session, scored: ScoredRecording, choice: Choice, explain: int) -> Chosen:
    heard, windows, recording = scored.heard, scored.windows, scored.heard.recording
    has_count = not plan.across and plan.budget.price is None
    chaptered = len(recording.parts) > 1
    expected = float(windows.rates.sum())
    error, duration = plan.listening.frontline.error, windows.duration
    share, forecast = forecast_coverage(heard, choice, error, actions=expected, duration=duration)
    return Chosen(
        path=recording.source.path,
        duration=recording.duration,
        window=windows.length,
        windows=len(windows),
        budget=plan.budget.calls(len(windows)) if has_count else len(choice.picks),
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
        left_out=tuple(best_left_out(windows, choice.picks, explain)) if explain else (),
        actions=None if share is None else expected,
        actions_range=None if share is None or not error else error.count(expected, duration),
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
            heard = listen(source, session.listening, on_seconds=progress.at(source.name)).heard
            window = session.listening.grid.length
            recordings.append(find_episodes(heard, rule, window=window))
        except EarmarkError as error:
            failures.append(str(error))
            continue
        notes += [f"{source.name}: {note}" for note in heard.notes()]
    return EpisodeListing(tuple(recordings), tuple(failures), tuple(notes), promised)
