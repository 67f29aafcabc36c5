"""Coverage foretold: what picks are expected to touch, and what became of such forecasts."""

from __future__ import annotations

import math

from earmark.gate.forecast_error import ForecastError, ForecastRange
from earmark.gate.listener import Heard
from earmark.selection.allocation import Choice


def foretell(heard: Heard, choice: Choice, actions: float) -> float | None:
    """The share of the `actions` expected that the picks of `choice` are expected to touch.

    None where no action is expected, and where nothing was heard that an expectation could rest on.
    """
    if choice.is_unread or not heard.is_heard or not actions:
        return None
    return sum(pick.expected for pick in choice.picks) / actions


def as_measured(
    share: float | None, error: ForecastError | None, *, actions: float, duration: float
) -> ForecastRange | None:
    """What a forecast of `share` came to on recordings like this one, which holds `actions`.

    None where there is no forecast, or nobody has measured what became of such ones.
    """
    if share is None or math.isnan(share) or error is None:
        return None
    return error.range(share, actions=actions, duration=duration)
