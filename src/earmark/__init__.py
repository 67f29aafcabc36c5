"""Listens to a whole recording so that a vision model need look at only a little of it.

    import earmark

    selection = earmark.select(["shift.mp4"], budget="25%")
    for pick in selection.recordings[0].picks:
        print(pick.start, pick.end, pick.reason)

The verbs are `select`, `plan`, `sounds`, `caption`, `find`, `ask`, `train` and `evaluate`; each is
loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from earmark.version import VERSION as __version__  # noqa: N811 - the name everybody looks for

if TYPE_CHECKING:
    from earmark.errors import EarmarkError
    from earmark.evaluation.coverage_evaluation import evaluate
    from earmark.gate.score_cache import ScoreCache
    from earmark.media import Recording, open_recording
    from earmark.pipeline.answer import ask
    from earmark.pipeline.caption import caption
    from earmark.pipeline.find import FindResult, find
    from earmark.pipeline.plan import plan
    from earmark.pipeline.preview import Preview, preview
    from earmark.pipeline.run_plan import Plan, make_plan
    from earmark.pipeline.select import select
    from earmark.pipeline.sounds import SoundListing, sounds
    from earmark.reporting.progress import Progress
    from earmark.reporting.run_result import CaptionResult
    from earmark.selection import Budget, Pick
    from earmark.selection.cost_forecast import CallCost, Forecast
    from earmark.selection.result import Selection
    from earmark.timeline import Span, Track
    from earmark.training.gate_training import train

_HOMES = {
    "Budget": "earmark.selection",
    "CallCost": "earmark.selection.cost_forecast",
    "CaptionResult": "earmark.reporting.run_result",
    "EarmarkError": "earmark.errors",
    "FindResult": "earmark.pipeline.find",
    "Forecast": "earmark.selection.cost_forecast",
    "Pick": "earmark.selection",
    "Plan": "earmark.pipeline.run_plan",
    "Preview": "earmark.pipeline.preview",
    "Progress": "earmark.reporting.progress",
    "Recording": "earmark.media",
    "ScoreCache": "earmark.gate.score_cache",
    "Selection": "earmark.selection.result",
    "SoundListing": "earmark.pipeline.sounds",
    "Span": "earmark.timeline",
    "Track": "earmark.timeline",
    "ask": "earmark.pipeline.answer",
    "caption": "earmark.pipeline.caption",
    "evaluate": "earmark.evaluation.coverage_evaluation",
    "find": "earmark.pipeline.find",
    "make_plan": "earmark.pipeline.run_plan",
    "open_recording": "earmark.media",
    "plan": "earmark.pipeline.plan",
    "preview": "earmark.pipeline.preview",
    "select": "earmark.pipeline.select",
    "sounds": "earmark.pipeline.sounds",
    "train": "earmark.training.gate_training",
}
"""Where each public name lives."""

__all__ = [
    "Budget",
    "CallCost",
    "CaptionResult",
    "EarmarkError",
    "FindResult",
    "Forecast",
    "Pick",
    "Plan",
    "Preview",
    "Progress",
    "Recording",
    "ScoreCache",
    "Selection",
    "SoundListing",
    "Span",
    "Track",
    "__version__",
    "ask",
    "caption",
    "evaluate",
    "find",
    "make_plan",
    "open_recording",
    "plan",
    "preview",
    "select",
    "sounds",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'earmark' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
