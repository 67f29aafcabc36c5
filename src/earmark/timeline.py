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

    def contains(self, time: float) -> bool:
        """Whether `time` lies in `[start, end)`."""
        return self.start <= time < self.end


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

    def middle_of(self, step: int) -> float:
        """The middle of row `step`, the instant it stands for."""
        return self.start + (step + 0.5) * self.hop
