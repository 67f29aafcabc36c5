"""Progress of a run: the counts shown to people, in log files and to Prometheus."""

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
    """Counts of one run so far; one thread writes, any thread may read."""

    on_change: Callable[[Progress], None] = lambda _: None
    """Called after every change."""
    recordings: int = 0
    """Recordings to process."""
    heard: int = 0
    """Recordings listened to, or unchanged since an earlier run."""
    unchanged: int = 0
    """Those of `heard` that were taken from an earlier run."""
    missed: int = 0
    """Recordings that could not be listened to."""
    seconds_heard: float = 0.0
    """Seconds of recordings listened to, not of elapsed time."""
    at_work: str = ""
    """Name of the recording being listened to; empty if worker processes listen."""
    at_seconds: tuple[float, float] = (0.0, 0.0)
    """Seconds of it listened to so far, and its duration."""
    calls: int = 0
    """Calls to make."""
    done: int = 0
    """Calls made, including failed ones."""
    answered: int = 0
    failed: int = 0
    tokens: int = 0
    spend: float = 0.0
    trouble: str = ""
    """Why the last recording or call failed; empty if none has."""
    began: float = field(default_factory=time.monotonic)
    """Start of the run, by `time.monotonic`."""
    asked: float | None = None
    """Start of asking, on the same clock; None before that."""
    has_model: bool = True
    """Whether a model is asked; without one, the picked windows get no captions."""

    @property
    def stage(self) -> str:
        """`hearing`, then `asking`, or `looking` if no model is asked."""
        if self.asked is None:
            return "hearing"
        return "asking" if self.has_model else "looking"

    @property
    def rate(self) -> float:
        """Recordings or calls per second in the current stage; 0 before the first."""
        finished, _, since = self._stage_counts()
        elapsed = time.monotonic() - since
        return finished / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Seconds left in the current stage at its current rate; None while the rate is 0."""
        finished, total, _ = self._stage_counts()
        return (total - finished) / self.rate if self.rate else None

    def _stage_counts(self) -> tuple[int, int, float]:
        """Number finished, number in all, and the start of the current stage."""
        if self.asked is None:
            return self.heard + self.missed, self.recordings, self.began
        return self.done, self.calls, self.asked

    def update(self, **counts: Any) -> None:
        """Set some counts and call `on_change`."""
        for name, value in counts.items():
            setattr(self, name, value)
        self.on_change(self)

    def at(self, name: str) -> Callable[[float, float], None]:
        """A function that records the seconds heard of recording `name`, and its duration."""
        return lambda now, total: self.update(at_work=name, at_seconds=(min(now, total), total))

    def count_calls(self, tally: Tally, calls: int) -> None:
        """Set the counts of asking from `tally`; `calls` is the number to make."""
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
        """The counts as plain values, with rate and seconds left."""
        names = "stage recordings heard unchanged missed seconds_heard calls done failed tokens"
        left = self.seconds_left
        return {
            **{name: getattr(self, name) for name in (*names.split(), "spend")},
            "seconds_heard": round(self.seconds_heard, 3),
            "trouble": redact(self.trouble) or None,
            "rate": round(self.rate, 4),
            "seconds_left": None if left is None else round(left, 1),
        }
