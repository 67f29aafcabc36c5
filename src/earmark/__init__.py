"""Listens to a whole recording so that a vision model need look at only a little of it.

    import earmark

    selection = earmark.select(["shift.mp4"], budget="25%")
    for pick in selection.recordings[0].picks:
        print(pick.start, pick.end, pick.reason)

The verbs are `select`, `plan`, `sounds`, `caption`, `find` and `ask`; each is loaded when it is
first used. `earmark_lab` has `evaluate` and `train`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from earmark.version import VERSION as __version__  # noqa: N811 - the name everybody looks for

if TYPE_CHECKING:
    from earmark.errors import EarmarkError
    from earmark.gate.listener import ScoreCache
    from earmark.media import Recording, open_recording
    from earmark.pipeline.answer import ask
    from earmark.pipeline.caption import Preview, caption, preview
    from earmark.pipeline.find import FindResult, find
    from earmark.pipeline.select import plan, select
    from earmark.pipeline.sounds import SoundListing, sounds
    from earmark.report.progress import Progress
    from earmark.report.run_report import CaptionResult
    from earmark.selection import Budget, Pick
    from earmark.selection.result import CallCost, Forecast, Selection
    from earmark.settings import InvalidSetting, Settings
    from earmark.timeline import Span, Track

_MODULES = {
    "errors": ("EarmarkError",),
    "gate.listener": ("ScoreCache",),
    "media": ("Recording", "open_recording"),
    "pipeline.answer": ("ask",),
    "pipeline.caption": ("Preview", "caption", "preview"),
    "pipeline.find": ("FindResult", "find"),
    "pipeline.select": ("plan", "select"),
    "pipeline.sounds": ("SoundListing", "sounds"),
    "report.progress": ("Progress",),
    "report.run_report": ("CaptionResult",),
    "selection": ("Budget", "Pick"),
    "selection.result": ("CallCost", "Forecast", "Selection"),
    "settings": ("InvalidSetting", "Settings"),
    "timeline": ("Span", "Track"),
}
"""The public names of each module; a module is loaded when one of its names is first used."""

__all__ = [
    "Budget",
    "CallCost",
    "CaptionResult",
    "EarmarkError",
    "FindResult",
    "Forecast",
    "InvalidSetting",
    "Pick",
    "Preview",
    "Progress",
    "Recording",
    "ScoreCache",
    "Selection",
    "Settings",
    "SoundListing",
    "Span",
    "Track",
    "__version__",
    "ask",
    "caption",
    "find",
    "open_recording",
    "plan",
    "preview",
    "select",
    "sounds",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"earmark.{module}"), name)
            return value
    raise AttributeError(f"module 'earmark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
