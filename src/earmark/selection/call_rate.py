"""A rate of calls, and the log of calls that holds it.

A call may be made at `now` if, counting it,

- any hour holds at most `per_hour` calls, any day at most `per_day`;
- any stretch of `s` seconds holds at most `burst + s * per_hour / 3600` calls (a token bucket that
  is full at the start);
- any day costs at most `cost_per_day` and uses at most `tokens_per_day`.

Hours and days slide: they are the 3,600 and 86,400 seconds up to `now`. All follows from the times
of the calls, so a log that is read back from a run's calls goes on where the last one stopped.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

HOUR = 3600.0
DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class CallRate:
    per_hour: int
    burst: int | None = None
    """Calls that may follow each other at once; `per_hour` if None."""
    per_day: int | None = None
    cost_per_day: float | None = None
    tokens_per_day: int | None = None

    def __post_init__(self) -> None:
        if self.per_hour < 1:
            raise ValueError(f"a rate is 1 call per hour or more, not {self.per_hour}")
        for name in ("burst", "per_day", "cost_per_day", "tokens_per_day"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ValueError(f"{name.replace('_', ' ')} is above 0, not {limit}")

    @property
    def capacity(self) -> int:
        return min(self.burst or self.per_hour, self.per_hour)

    @property
    def interval(self) -> float:
        """Seconds in which one call is added to the bucket."""
        return HOUR / self.per_hour

    @property
    def lasting(self) -> float:
        """Calls per second that can be kept up for days."""
        return min(self.per_hour / HOUR, math.inf if self.per_day is None else self.per_day / DAY)


@dataclass(frozen=True, slots=True, order=True)
class SpentCall:
    time: float
    """Wall-clock seconds."""
    cost: float = 0.0
    tokens: int = 0


class CallLog:
    """The calls of the last day, oldest first."""

    def __init__(self, rate: CallRate, calls: Iterable[SpentCall] = ()) -> None:
        self.rate = rate
        self._calls: list[SpentCall] = []
        self._full_at = -math.inf
        """When the bucket will be full again, if no further call is made."""
        for call in sorted(calls):
            self.add(call)

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, call: SpentCall) -> None:
        """Calls come in order of time, give or take those in flight together."""
        self._full_at = max(self._full_at, call.time) + self.rate.interval
        insort(self._calls, call)
        del self._calls[: self._count_until(self._calls[-1].time - DAY)]

    def drain(self, now: float, tokens: float) -> None:
        """Take `tokens` out of a bucket that is full."""
        self._full_at = max(self._full_at, now) + tokens * self.rate.interval

    def wait(self, now: float) -> float:
        """Seconds until a call may be made; 0 if it may be made now."""
        rate = self.rate
        waits = [0.0, self._full_at - (rate.capacity - 1) * rate.interval - now]
        for limit, period in ((rate.per_hour, HOUR), (rate.per_day, DAY)):
            if limit is not None and len(self._calls) >= limit:
                waits.append(self._calls[-limit].time + period - now)
        if rate.cost_per_day is not None:
            waits.append(self._wait_for_sum("cost", rate.cost_per_day, now))
        if rate.tokens_per_day is not None:
            waits.append(self._wait_for_sum("tokens", rate.tokens_per_day, now))
        return max(waits)

    def tokens(self, now: float) -> float:
        """Calls that could be made at once, fractions of the next included."""
        rate = self.rate
        left = [self.bucket(now), rate.per_hour - float(self.count(now, HOUR))]
        if rate.per_day is not None:
            left.append(rate.per_day - float(self.count(now, DAY)))
        if any(limit is not None for limit in (rate.cost_per_day, rate.tokens_per_day)):
            left.append(math.inf if self.wait(now) == 0 else 0.0)
        return max(0.0, min(left))

    def bucket(self, now: float) -> float:
        """Calls in the bucket, whatever the hour and the day allow; below 0 if it was overdrawn."""
        return self.rate.capacity - max(0.0, self._full_at - now) / self.rate.interval

    def count(self, now: float, period: float) -> int:
        """Calls in the `period` seconds up to `now`."""
        return self._count_until(now) - self._count_until(now - period)

    def _count_until(self, time: float) -> int:
        return bisect_right(self._calls, time, key=lambda call: call.time)

    def _wait_for_sum(self, field: str, limit: float, now: float) -> float:
        """Until the calls of a day, and one more as large as the largest, stay within `limit`."""
        recent = self._calls[self._count_until(now - DAY) :]
        amounts = [float(getattr(call, field)) for call in recent]
        total = sum(amounts) + max(amounts, default=0.0)
        wait = 0.0
        for call, amount in zip(recent, amounts, strict=True):
            if total <= limit * (1 + 1e-9):
                break
            total, wait = total - amount, call.time + DAY - now
        return wait

    def to_json(self) -> list[dict[str, Any]]:
        return [asdict(call) for call in self._calls]
