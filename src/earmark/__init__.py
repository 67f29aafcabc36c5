"""Listens to a whole recording so that a vision model need look at only a little of it.

import earmark

selection = earmark.select(["shift.mp4"], budget="25%")
for pick in selection.recordings[0].picks:
    print(pick.start, pick.end, pick.reason)
"""

from earmark.errors import EarmarkError
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, open_recording
from earmark.pipeline.forecast import CallCost, Forecast, plan
from earmark.pipeline.triage import Plan, make_plan, select
from earmark.selection import Budget, Pick
from earmark.selection.result import Selection
from earmark.timeline import Span, Track

__all__ = [
    "Budget",
    "CallCost",
    "EarmarkError",
    "Forecast",
    "Pick",
    "Plan",
    "Recording",
    "ScoreCache",
    "Selection",
    "Span",
    "Track",
    "make_plan",
    "open_recording",
    "plan",
    "select",
]


def __dir__() -> list[str]:
    return __all__
