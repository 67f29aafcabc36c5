"""Spans of time in seconds, and arrays of values sampled at a fixed step.

No other code in earmark derives times from counts of samples, frames or rows.
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
"""The paper's gate rate."""

HOP = 1.0 / CLOCK_RATE


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
        return self.end - self.start

    @property
    def middle(self) -> float:
        return (self.start + self.end) / 2

    def overlaps(self, other: Span) -> bool:
        """Touching at an end is not overlapping."""
        return max(self.start, other.start) < min(self.end, other.end)


def format_clock(seconds: float, *, tenths: bool = True, hours: bool = False) -> str:
    """Rounded to the nearest tenth of a second; without tenths, the digit is cut off after that.

    >>> format_clock(3725.46), format_clock(59.96), format_clock(59.96, tenths=False)
    ('1:02:05.5', '1:00.0', '1:00')
    """
    whole, tenth = divmod(round(seconds * 10), 10)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    head = f"{hour}:{minute:02d}" if hour or hours else f"{minute}"
    return f"{head}:{second:02d}" + (f".{tenth}" if tenths else "")


def merge(spans: Iterable[Span], *, gap: float = 0.0) -> list[Span]:
    """Sorted by start; spans at most `gap` seconds apart become one."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.start - merged[-1].end <= gap:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        else:
            merged.append(span)
    return merged


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Row `n` covers `[start + n * hop, start + (n + 1) * hop)`.

    >>> track = Track(np.array([0.1, 0.9, 0.2]), hop=0.04)
    >>> round(track.time_of(1), 2), len(track)
    (0.04, 3)
    """

    values: FloatArray
    """Shape `(steps,)` or `(steps, channels)`."""
    hop: float = HOP
    start: float = 0.0

    def __post_init__(self) -> None:
        if not self.hop > 0:
            raise ValueError(f"a track needs a positive hop, not {self.hop}")
        if self.values.ndim not in (1, 2):
            raise ValueError(f"a track is (steps,) or (steps, channels), not {self.values.shape}")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def duration(self) -> float:
        return len(self) * self.hop

    @property
    def span(self) -> Span:
        return Span(self.start, self.start + self.duration)

    def time_of(self, step: int) -> float:
        return self.start + step * self.hop

    def thinned(self, *, hop: float = 1.0) -> Track:
        """Each new row is the maximum of its rows.

        ▁▂▇▁ ▁▁▁▁ ▂▂▁▂ ▃    four steps per second
        ▇    ▁    ▂    ▃    one step per second
        """
        steps = max(1, math.floor(hop / self.hop + 1e-9))
        if steps == 1 or len(self) == 0:
            return self
        values = np.maximum.reduceat(self.values, np.arange(0, len(self), steps))
        return Track(values, hop=self.hop * steps, start=self.start)

    def sketched(self) -> Track:
        """For drawing: to one row per second, or to about 2000 rows if short."""
        return self.thinned(hop=min(1.0, max(self.duration / 2000, self.hop)))
