"""Listens to recordings and chooses windows under a budget; decodes, asks and stores nothing.

paths ──▶ listen ──▶ allocate ──▶ Selection
"""

from __future__ import annotations

from typing import Any

from earmark.grid import ScoredRecording
from earmark.pipeline.backend import open_backend
from earmark.pipeline.listen import listen_each
from earmark.pipeline.run_plan import Paths, Plan, make_plan
from earmark.reporting.progress import Progress
from earmark.selection import Choice, allocate
from earmark.selection.coverage_forecast import forecast_coverage, recording_notes
from earmark.selection.omissions import best_left_out
from earmark.selection.result import Chosen, Selection


def select(
    paths: Paths = (),
    *,
    plan: Plan | None = None,
    progress: Progress | None = None,
    explain: int = 0,
    **choices: Any,
) -> Selection:
    """The windows of the recordings at `paths` that are most worth a call.

    Args:
        paths: Files, folders, globs and addresses; those of the plan if not given.
        plan: Every choice; or give them one by one as `choices`, see `make_plan`.
        progress: Updated while listening.
        explain: Number of windows not chosen to list per recording, the best first.
        choices: See `make_plan`: `budget`, `rule`, `frontline`, `window`, `across`, …

    Raises:
        ValueError: a choice is unknown or out of range. The error of a recording is not raised but
            listed in `Selection.failures`.
    """
    plan = make_plan(paths, plan, **choices)
    sources, described = plan.sources(), plan.selection_json()
    with open_backend(plan.backend, len(sources)) as backend:
        heard, failures = listen_each(sources, plan.listening, backend, progress)
    many = [one.windows for one in heard]
    weights = [one.heard.recording.source.weight for one in heard]
    spent = allocate(plan.rule, many, plan.budget, across=plan.across, weights=weights)
    chosen = (_chosen(plan, one, choice, explain) for one, choice in zip(heard, spent, strict=True))
    return Selection(described, tuple(chosen), failures)


def _chosen(plan: Plan, scored: ScoredRecording, choice: Choice, explain: int) -> Chosen:
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
        windows=windows.calls,
        budget=plan.budget.calls(windows.calls) if has_count else len(choice.picks),
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
