"""How many calls a stream would buy at each price, from what was heard of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from earmark.selection.call_rate import DAY, HOUR
from earmark.timeline import FloatArray

PRICES = np.geomspace(0.01, 4.0, 33)
"""New actions a call."""

PRIOR = np.interp(
    np.log(PRICES),
    np.log([0.01, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 4.0]),
    [0.75, 0.62, 0.53, 0.31, 0.25, 0.15, 0.04, 0.0],
)
"""Calls a window at each price: the mean of dense and sparse composites."""

PRIOR_WINDOWS = 30.0
"""Windows that the prior counts for."""

MEMORY = HOUR
"""Seconds after which the effect of a window falls to 1/e."""

DAY_WEIGHT = 1.0
"""Of the same hour of earlier days, as a share of the windows that were heard in it."""

DEPTH = 64
"""Windows that an action may last."""

HOURS = 24


class Demand:
    """The exact rule at all `PRICES` at once, one window at a time (see `solver`)."""

    def __init__(self, length: float) -> None:
        self.length = length
        self._rates = np.zeros(DEPTH)  # newest first
        self._best = np.full((DEPTH, len(PRICES)), -np.inf)  # newest first
        self._best[0] = 0.0
        self._counts = np.zeros((DEPTH, len(PRICES)))
        self._recent = np.zeros(1 + len(PRICES))
        """Windows, and calls at each price, those of the past fading."""
        self._hours = np.zeros((HOURS, 1 + len(PRICES)))
        """The same by the hour of the day, earlier days fading by half each."""

    def add(self, time: float, rate: float, reach: FloatArray) -> None:
        """The next window, which starts at `time` of the wall clock."""
        far = min(len(reach), DEPTH)
        self._rates = np.concatenate([[rate], self._rates[:-1]])
        worth = np.cumsum(reach[:far] * self._rates[:far])[:, None]  # (steps, 1)
        values = self._best[:far] + worth - PRICES
        steps, columns = values.argmax(axis=0), np.arange(len(PRICES))
        is_picked = values[steps, columns] > self._best[0]
        best = np.where(is_picked, values[steps, columns], self._best[0])
        counts = np.where(is_picked, self._counts[steps, columns] + 1, self._counts[0])
        bought = np.concatenate([[1.0], counts - self._counts[0]])
        self._recent = np.exp(-self.length / MEMORY) * self._recent + bought
        hour = int(time % DAY // HOUR)
        self._hours[hour] = 0.5 ** (self.length / HOUR) * self._hours[hour] + bought
        self._best = np.concatenate([best[None], self._best[:-1]]) - best
        self._counts = np.concatenate([counts[None], self._counts[:-1]]) - counts

    def calls(self, now: float) -> FloatArray:
        """Expected a second at each price: those of the last hour, and of the next on other days.

        A source that was not heard at this time of day counts by its last hour alone.
        """
        hour = int(now % DAY // HOUR)
        daily = DAY_WEIGHT * self._hours[(hour + 1) % HOURS]
        prior = PRIOR_WINDOWS * np.concatenate([[1.0], PRIOR])
        windows, *calls = self._recent + daily + prior
        share = np.array(calls) / windows
        return np.minimum.accumulate(share.clip(0)) / self.length

    def to_json(self) -> dict[str, Any]:
        return {"recent": self._recent.tolist(), "hours": self._hours.tolist()}

    def restore(self, kept: dict[str, Any]) -> None:
        self._recent, self._hours = (np.array(kept[name]) for name in ("recent", "hours"))


def price_of(calls: FloatArray, wanted: float) -> float:
    """The price at which `calls`, one number for each of `PRICES`, are `wanted`."""
    return float(np.exp(np.interp(-wanted, -calls, np.log(PRICES))))
