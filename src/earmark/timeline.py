"""Time in seconds, and values laid out along it.

A `Span` is half-open, `[start, end)`. A `Track` is values on a clock: row `n` belongs to the
stretch `[start + n * hop, start + (n + 1) * hop)`. Nothing else in earmark counts samples,
frames or rows to tell the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
IndexArray = NDArray[np.intp]

CLOCK_RATE = 25
"""Steps a second of every feature and score track; the paper's gate rate."""

HOP = 1.0 / CLOCK_RATE
"""Seconds between two steps of the feature clock."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of time, `[start, end)`, in seconds.

    >>> Span(2.0, 5.0).overlaps(Span(5.0, 6.0))
    False
    """

    start: float
    end: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.start) and math.isfinite(self.end)):
            raise ValueError(f"a span needs finite times, not [{self.start}, {self.end})")
        if self.end < self.start:
            raise ValueError(f"a span cannot end before it starts: [{self.start}, {self.end})")

    @property
    def duration(self) -> float:
        """Seconds from start to end; 0 for an empty span."""
        return self.end - self.start

    @property
    def middle(self) -> float:
        """The time half way through."""
        return (self.start + self.end) / 2

    def overlaps(self, other: Span) -> bool:
        """Whether the two share more than nothing; touching ends do not count."""
        return max(self.start, other.start) < min(self.end, other.end)


def format_clock(seconds: float, *, tenths: bool = True, hours: bool = False) -> str:
    """A time as a clock shows it: to the nearest tenth, or the whole second that lies in.

    >>> format_clock(3725.46), format_clock(59.96), format_clock(59.96, tenths=False)
    ('1:02:05.5', '1:00.0', '1:00')

    Args:
        seconds: 0 or more.
        tenths: Whether tenths of a second are shown.
        hours: Whether hours are shown where there are none.
    """
    whole, tenth = divmod(round(seconds * 10), 10)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    head = f"{hour}:{minute:02d}" if hour or hours else f"{minute}"
    return f"{head}:{second:02d}" + (f".{tenth}" if tenths else "")


def merge(spans: Iterable[Span], *, gap: float = 0.0) -> list[Span]:
    """The union of `spans` in order, joining those at most `gap` seconds apart."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start - merged[-1].end <= gap:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Values on a clock.

    >>> track = Track(np.array([0.1, 0.9, 0.2]), hop=0.04)
    >>> round(track.time_of(1), 2), len(track)
    (0.04, 3)
    """

    values: FloatArray
    """Shape `(steps,)` or `(steps, channels)`."""
    hop: float = HOP
    """Seconds between two rows."""
    start: float = 0.0
    """Time of the first row's left edge."""

    def __post_init__(self) -> None:
        if not self.hop > 0:
            raise ValueError(f"a track needs a positive hop, not {self.hop}")
        if self.values.ndim not in (1, 2):
            raise ValueError(f"a track is (steps,) or (steps, channels), not {self.values.shape}")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def duration(self) -> float:
        """Seconds from the first row's left edge to the last row's right edge."""
        return len(self) * self.hop

    @property
    def span(self) -> Span:
        """The stretch of time the rows lie on."""
        return Span(self.start, self.start + self.duration)

    def time_of(self, step: int) -> float:
        """The left edge of row `step`."""
        return self.start + step * self.hop

    def thinned(self, *, hop: float = 1.0) -> Track:
        """The largest value in each stretch of about `hop` seconds; itself if it is coarser.

        ▁▂▇▁ ▁▁▁▁ ▂▂▁▂ ▃    four steps a second
        ▇    ▁    ▂    ▃    one
        """
        steps = max(1, math.floor(hop / self.hop + 1e-9))
        if steps == 1 or len(self) == 0:
            return self
        values = np.maximum.reduceat(self.values, np.arange(0, len(self), steps))
        return Track(values, hop=self.hop * steps, start=self.start)

    def sketched(self) -> Track:
        """Enough to draw it: one value a second, or some two thousand of a short one."""
        return self.thinned(hop=min(1.0, max(self.duration / 2000, self.hop)))
