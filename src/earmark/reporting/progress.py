"""How far a run has come: counts that people, log files and Prometheus are told."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from earmark.redaction import redact

if TYPE_CHECKING:
    from earmark.captioning.usage import Tally


@dataclass(slots=True)
class Progress:
    """Counts of one run so far; one thread writes, any may read."""

    on_change: Callable[[Progress], None] = lambda _: None
    """Told of every change."""
    recordings: int = 0
    """To work on."""
    heard: int = 0
    """Listened to, or found unchanged."""
    unchanged: int = 0
    """Of those heard, taken from an earlier run."""
    missed: int = 0
    """Recordings that could not be listened to."""
    seconds_heard: float = 0.0
    """Of recording, not of time."""
    at_work: str = ""
    """The recording being listened to; empty where workers do that."""
    at_seconds: tuple[float, float] = (0.0, 0.0)
    """How far into it, of how many."""
    calls: int = 0
    """To make."""
    done: int = 0
    """Made, the failed ones included."""
    answered: int = 0
    failed: int = 0
    tokens: int = 0
    spend: float = 0.0
    trouble: str = ""
    """Why the last recording or call failed; empty while none has."""
    began: float = field(default_factory=time.monotonic)
    asked: float | None = None
    """When asking began; on the same clock."""
    has_model: bool = True
    """Whether a model is asked; without one the picked windows are only looked at."""

    @property
    def stage(self) -> str:
        """`hearing`, then `asking`, or `looking` where no model is asked."""
        if self.asked is None:
            return "hearing"
        return "asking" if self.has_model else "looking"

    @property
    def rate(self) -> float:
        """Recordings, or calls, a second in the present stage; 0 before the first."""
        finished, _, since = self._stage_counts()
        elapsed = time.monotonic() - since
        return finished / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Of the present stage at its present rate; None before there is one."""
        finished, total, _ = self._stage_counts()
        return (total - finished) / self.rate if self.rate else None

    def _stage_counts(self) -> tuple[int, int, float]:
        """Finished, in all, and since when."""
        if self.asked is None:
            return self.heard + self.missed, self.recordings, self.began
        return self.done, self.calls, self.asked

    def update(self, **counts: Any) -> None:
        """Take over some counts, and tell of the change."""
        for name, value in counts.items():
            setattr(self, name, value)
        self.on_change(self)

    def at(self, name: str) -> Callable[[float, float], None]:
        """Notes the seconds heard of the recording called `name`, and the seconds in all."""
        return lambda now, total: self.update(at_work=name, at_seconds=(min(now, total), total))

    def count_calls(self, tally: Tally, calls: int) -> None:
        """Take over how far asking has come."""
        self.update(
            asked=time.monotonic() if self.asked is None else self.asked,
            calls=calls,
            done=tally.calls,
            answered=tally.answered,
            failed=tally.failed,
            tokens=tally.tokens,
            spend=tally.spend,
            trouble=tally.last_reason or self.trouble,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = "stage recordings heard unchanged missed seconds_heard calls done failed tokens"
        left = self.seconds_left
        return {
            **{name: getattr(self, name) for name in (*names.split(), "spend")},
            "seconds_heard": round(self.seconds_heard, 3),
            "trouble": redact(self.trouble) or None,
            "rate": round(self.rate, 4),
            "seconds_left": None if left is None else round(left, 1),
        }
