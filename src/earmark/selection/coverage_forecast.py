"""Forecasts the coverage of picks, with the range of such forecasts on measured recordings."""

from __future__ import annotations

import math

from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.listener import Heard
from earmark.selection.allocation import Choice

NOTHING_HEARD_NOTE = (
    "nothing was heard in it by which a call could be worth its price, so none is made: "
    "look at it all the same with a share of its windows, such as `--budget 10%`"
)
"""Note for a recording in which nothing was heard, where the budget is a price."""


def recording_notes(heard: Heard, choice: Choice) -> tuple[str, ...]:
    """Notes for a reader about a recording and its choice."""
    has_no_price = choice.is_overpriced and not heard.is_heard
    return heard.notes(NOTHING_HEARD_NOTE if has_no_price else choice.note)


def forecast_coverage(
    heard: Heard, choice: Choice, error: ForecastError | None, *, actions: float, duration: float
) -> tuple[float | None, ForecastRange | None]:
    """The share of the `actions` expected that the picks of `choice` are expected to touch.

    None where no action is expected, or nothing was heard to base a forecast on. With it comes the
    range that such forecasts had on measured recordings, known for the rule `coverage` alone.
    """
    if choice.lacks_evidence or not heard.is_heard or not actions:
        return None, None
    share = min(sum(pick.expected for pick in choice.picks) / actions, 1.0)  # sums round
    known = error if choice.rule_used == "coverage" else None
    return share, measured_range(share, known, actions=actions, duration=duration)


def measured_range(
    share: float, error: ForecastError | None, *, actions: float, duration: float
) -> ForecastRange | None:
    """The range of coverage that forecasts of `share` had on measured recordings like this one.

    None where there is no forecast, or no such measurement. `actions` are those expected in it.
    """
    if error is None or math.isnan(share):
        return None
    return error.range(share, actions=actions, duration=duration)
