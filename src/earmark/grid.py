"""The grid of call windows, and what a recording's scores look like on it."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from earmark.gate.frontline import Frontline
from earmark.gate.listener import Heard
from earmark.gate.rates import RateMap, WindowScores
from earmark.gate.survival import Survival
from earmark.timeline import HOP, FloatArray, Span, Track

REST = 0.1
"""Seconds at the end of a recording that are not worth a call of their own: sound coders fill up
their last packet (1,024 samples of AAC are 21 to 64 ms), and few cameras show a picture in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of one recording with all that a selector may know about them."""

    length: float
    """Seconds of one window; the last one may reach past the end of the recording."""
    duration: float
    """Seconds of the recording."""
    scores: FloatArray
    """The largest score in each window."""
    instants: FloatArray
    """When each window's largest score occurs; the middle of a window with no scores."""
    rates: FloatArray
    """Expected action starts in each window."""
    survival: Survival
    """How long actions last."""
    owned: tuple[int, ...] = ()
    """Windows whose call is paid already: a rule that weighs cost takes them first."""

    def __post_init__(self) -> None:
        if not len(self.scores) == len(self.instants) == len(self.rates):
            raise ValueError("windows need as many scores as instants and rates")
        if not np.all(np.isfinite(self.scores)):
            raise ValueError("scores are finite")
        if not np.all(np.isfinite(self.rates)) or np.any(self.rates < 0):
            raise ValueError("rates are finite and never negative")

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def has_evidence(self) -> bool:
        """Whether the scores or the rates tell one window from another.

        That the last window is cut short, and its rate with it, tells nothing.
        """
        return len(self) > 1 and bool(np.ptp(self.scores) > 0 or np.ptp(self.rates[:-1]) > 0)

    def span(self, window: int) -> Span:
        """The time of one window, cut at the end of the recording."""
        start = window * self.length
        return Span(start, min(start + self.length, max(start, self.duration)))


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRecording:
    """One recording heard and laid on the grid."""

    heard: Heard
    windows: Windows


@dataclass(frozen=True, slots=True)
class Grid:
    """Lays windows of one length over a recording.

    >>> Grid(4.0).count(9.0)
    3
    """

    length: float = 4.0
    """Seconds of one call; the paper's."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.length) and self.length >= HOP):
            raise ValueError(f"a window lasts {HOP:g} s (one score) or more, not {self.length}")

    def count(self, duration: float) -> int:
        """Windows in `duration` seconds, `ceil(T / w)`; the last one may be cut short.

        A rest of less than `REST` seconds, or a tenth of a window, is no window of its own unless
        it is all there is.

            0   4   8 8.02
            |---|---|'          2 windows
        """
        rest = min(REST, self.length / 10)
        return max(int(duration > 0), math.ceil((duration - rest) / self.length - 1e-9))

    def pool(self, scores: Track, duration: float) -> tuple[WindowScores, FloatArray]:
        """What each window holds of `scores`, and the instant of its largest one.

        A step belongs to the window its middle lies in. A window without a step (the track is
        shorter than the recording) takes the track's smallest score, and its own middle.
        """
        count = self.count(duration)
        starts = np.arange(count) * self.length
        instants = (starts + np.minimum(starts + self.length, max(duration, 0.0))) / 2
        middles = scores.start + (np.arange(len(scores)) + 0.5) * scores.hop
        owner = np.floor(middles / self.length).astype(np.intp)
        # By window, then by score, then the earlier step last: a window's best step ends its run.
        order = np.lexsort((-middles, scores.values, owner))
        order = order[(owner[order] >= 0) & (owner[order] < count)]
        heard, first, held = np.unique(owner[order], return_index=True, return_counts=True)
        values = scores.values[order].astype(float)
        total = np.concatenate([[0.0], np.cumsum(values)])
        last, quarter = first + held, np.maximum(1, held // 4)
        peak, mean, top = (np.full(count, values.min() if len(values) else 0.0) for _ in range(3))
        low, high = values[first], values[last - 1]
        peak[heard] = high
        # Means lie between the extremes, so rounding never tells two windows of equal scores apart.
        mean[heard] = np.clip((total[last] - total[first]) / held, low, high)
        top[heard] = np.clip((total[last] - total[last - quarter]) / quarter, low, high)
        instants[heard] = np.round(middles[order[last - 1]], 6)
        return WindowScores(self.length, peak, mean, top), instants

    def score(
        self, scores: Track, duration: float, *, rates: RateMap, survival: Survival
    ) -> Windows:
        """The windows of a recording of `duration` seconds, scored and rated.

        A last window that is cut short holds as much less of its rate.
        """
        pooled, instants = self.pool(scores, duration)
        expected = np.array(rates(pooled), dtype=float)
        if len(expected):
            expected[-1] *= min(1.0, duration / self.length - (len(expected) - 1))
        return Windows(self.length, duration, pooled.peak, instants, expected, survival)

    def key(self, frontline: Frontline, *, audio_track: int = 0) -> str:
        """Names all that can change the windows of a recording."""
        line = frontline
        parts = (line.encoder, line.scorer, line.rates, audio_track, self)
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def lay(self, heard: Heard, frontline: Frontline) -> ScoredRecording:
        """What was heard by `frontline`, on the grid."""
        length = heard.recording.duration
        rates, survival = frontline.rates, frontline.survival
        return ScoredRecording(
            heard, self.score(heard.scores, length, rates=rates, survival=survival)
        )
