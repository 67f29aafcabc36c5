"""Coverage foretold: what picks are expected to touch, and what became of such forecasts."""

from __future__ import annotations

import math

from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.listener import Heard
from earmark.selection.allocation import Choice


def foretell(
    heard: Heard, choice: Choice, error: ForecastError | None, *, actions: float, duration: float
) -> tuple[float | None, ForecastRange | None]:
    """The share of the `actions` expected that the picks of `choice` are expected to touch.

    None where no action is expected, and where nothing was heard that an expectation could rest on.
    With it what such forecasts came to, where that was measured: of the rule `coverage` alone.
    """
    if choice.is_unread or not heard.is_heard or not actions:
        return None, None
    share = sum(pick.expected for pick in choice.picks) / actions
    if error is None or choice.rule_used != "coverage":
        return share, None
    return share, error.range(share, actions=actions, duration=duration)


def as_measured(
    share: float | None, error: ForecastError | None, *, actions: float, duration: float
) -> ForecastRange | None:
    """What a forecast of `share` came to on recordings like this one, which holds `actions`.

    None where there is no forecast, or nobody has measured what became of such ones.
    """
    if share is None or math.isnan(share) or error is None:
        return None
    return error.range(share, actions=actions, duration=duration)
