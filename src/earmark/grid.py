"""Where windows may lie, and the scores and rates of a recording there.

    on the grid    |-------|-------|-------|      a window begins where the last one ends
    placed freely  |-|-|-|-|-|-|-|-|-|-|-|-|      a window begins at any step of half a second

Either way a recording is a row of steps, and a window is identified by its last step: on the grid,
where a window is one step, that is its own number.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from earmark.gate.frontline import Frontline
from earmark.gate.frontline_registry import frontline_named
from earmark.gate.listener import Heard
from earmark.gate.rates import RateMap, WindowScores
from earmark.gate.survival import Survival
from earmark.timeline import HOP, FloatArray, IndexArray, Span, Track

MIN_REMAINDER = 0.1
"""Longest remainder, in seconds, at the end of a recording that gets no window: audio coders pad
their last packet (1,024 samples of AAC are 21 to 64 ms), and few cameras show a picture in it."""


STEP = 0.5
"""Approximate seconds between two possible starts of a freely placed window; a whole number of
steps fills a window."""

FINE_WINDOW = 1.0
"""Seconds of the shortest windows that rates are fitted on. The rate of a step is the mean of
what these windows and windows of full length give it: the former locate actions, the latter
count them."""

Placement = Literal["grid", "free"]
"""Where windows may begin."""

LEVEL_KERNEL = np.array([1, 2, 3, 2, 1]) / 9
"""Weights of the levels around a moment, 0.2 s apart, for finding the loudest: about a second of
sound counts, the centre most, so that the frame shows a click itself and not the time around it."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of one recording with all that a selection rule may know about them.

    Values are given per step. On the grid a step is a window.
    """

    length: float
    """Seconds of one window; the last one may reach past the end of the recording."""
    duration: float
    """Seconds of the recording."""
    scores: FloatArray
    """The largest score in each step."""
    instants: FloatArray
    """Time of the largest score of each step; its middle where all its scores are equal."""
    rates: FloatArray
    """Expected action starts in each step."""
    survival: Survival
    """How long actions last."""
    owned: tuple[int, ...] = ()
    """Windows whose call is paid already: a rule that weighs cost takes them first."""
    per_call: int = 1
    """Steps in a window: 1 on the grid, more where windows are placed freely."""

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
        """Whether the scores or the rates differ between windows.

        The last rate is ignored: it is smaller if the last window is cut short.
        """
        return len(self) > 1 and bool(np.ptp(self.scores) > 0 or np.ptp(self.rates[:-1]) > 0)

    @property
    def step(self) -> float:
        """Seconds of one step."""
        return self.length / self.per_call

    @property
    def calls(self) -> int:
        """Calls of a full scan: the windows on the grid, also with free placement."""
        return len(self) if self.per_call == 1 else Grid(self.length).count(self.duration)

    @property
    def reach(self) -> FloatArray:
        """Probability that a window touches an action, by steps from its start to the window's end.

        1 within the window, then the probability that the action still continues when the window
        begins.
        """
        going = self.survival.reach(self.step)
        return going if self.per_call == 1 else np.append(np.ones(self.per_call), going[1:])

    def span(self, window: int) -> Span:
        """The time of one window, cut at the end of the recording."""
        start = max(0, window + 1 - self.per_call) * self.step
        return Span(start, min(start + self.length, max(start, self.duration)))

    def window_at(self, start: float) -> int:
        """The window that begins at the step nearest to `start`; it may lie past the end.

        A recording shorter than a window has one window, which ends with its last step.
        """
        return round(start / self.step) + min(self.per_call, max(1, len(self))) - 1

    def steps_of(self, windows: IndexArray) -> IndexArray:
        """The steps in each of `windows`, one row each, clipped to the recording."""
        firsts = np.maximum(windows + 1 - self.per_call, 0)
        places: IndexArray = firsts[:, None] + np.arange(self.per_call)
        return np.minimum(places, len(self) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRecording:
    """One recording that was listened to, with its windows."""

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
    placement: Placement = field(default="grid", repr=False)
    """Whether windows lie on the grid, as in the paper, or begin at any step of about `STEP`."""

    def __post_init__(self) -> None:
        if self.placement not in get_args(Placement):
            raise ValueError(f"windows are placed on the grid or free, not {self.placement!r}")
        if not (math.isfinite(self.length) and self.length >= HOP):
            raise ValueError(f"a window lasts {HOP:g} s (one score) or more, not {self.length}")

    @property
    def per_call(self) -> int:
        """Steps in a freely placed window."""
        return max(1, round(self.length / STEP))

    def count(self, duration: float) -> int:
        """Windows of the grid in `duration` seconds, `ceil(T / w)`; the last may be cut short.

        A remainder of less than `MIN_REMAINDER` seconds, or a tenth of a window, gets no window of
        its own unless it is the whole recording.

            0   4   8 8.02
            |---|---|'          2 windows
        """
        remainder = min(MIN_REMAINDER, self.length / 10)
        return max(int(duration > 0), math.ceil((duration - remainder) / self.length - 1e-9))

    def pool(self, scores: Track, duration: float) -> tuple[WindowScores, FloatArray]:
        """Maximum and mean of `scores` in each window of the grid, and the instant of the maximum.

        A value belongs to the window that contains its middle. A window without values (the track
        is shorter than the recording) gets the smallest score of the track. Its instant is its own
        middle, as it is for a window whose values are all equal.
        """
        count = self.count(duration)
        starts = np.arange(count) * self.length
        instants = (starts + np.minimum(starts + self.length, max(duration, 0.0))) / 2
        middles = scores.start + (np.arange(len(scores)) + 0.5) * scores.hop
        owner = np.floor(middles / self.length).astype(np.intp)
        # Sort by window, then score, the earlier step last: each run ends with its best step.
        order = np.lexsort((-middles, scores.values, owner))
        order = order[(owner[order] >= 0) & (owner[order] < count)]
        heard, first, counts = np.unique(owner[order], return_index=True, return_counts=True)
        values = scores.values[order].astype(float)
        total = np.concatenate([[0.0], np.cumsum(values)])
        last = first + counts
        peak, mean = (np.full(count, values.min() if len(values) else 0.0) for _ in range(2))
        low, high = values[first], values[last - 1]
        peak[heard] = high
        # Clip the means, so that rounding never makes windows of equal scores differ.
        mean[heard] = np.clip((total[last] - total[first]) / counts, low, high)
        varies = low < high
        instants[heard[varies]] = np.round(middles[order[last - 1]][varies], 6)
        return WindowScores(self.length, peak, mean), instants

    def score(
        self,
        scores: Track,
        duration: float,
        *,
        rates: RateMap,
        survival: Survival,
        level: Track | None = None,
    ) -> Windows:
        """The windows of a recording of `duration` seconds, with scores and rates.

        The rate of a last window that is cut short is reduced in proportion. On the grid, the
        instant of a window is its loudest moment if `level` is given.
        """
        if self.placement == "free" and self.per_call > 1:
            return self._score_steps(scores, duration, rates, survival)
        pooled, instants = self.pool(scores, duration)
        if level is not None:
            _, instants = self.pool(_smooth_level(level), duration)
        expected = np.array(rates(pooled), dtype=float)
        if len(expected):
            expected[-1] *= min(1.0, duration / self.length - (len(expected) - 1))
        return Windows(self.length, duration, pooled.peak, instants, expected, survival)

    def _score_steps(
        self, scores: Track, duration: float, rates: RateMap, survival: Survival
    ) -> Windows:
        """The same for free placement, per step at which a window may begin.

        Rates are never quite 0: a call in an empty place still beats one that overlaps another.
        """
        step = self.length / self.per_call
        pooled, instants = Grid(step).pool(scores, duration)
        shared = max(1, round(FINE_WINDOW / step))
        expected = sum(
            self._shared_rates(scores, duration, rates, count, len(instants)) / 2
            for count in (shared, self.per_call)
        )
        expected = np.maximum(expected, 1e-4 * np.sum(expected) / max(1, len(instants)))
        kept = (pooled.peak, instants, expected, survival)
        return Windows(self.length, duration, *kept, per_call=self.per_call)

    def _shared_rates(
        self, scores: Track, duration: float, rates: RateMap, count: int, steps: int
    ) -> FloatArray:
        """The rate of each of `steps` steps, if windows of `count` steps share theirs evenly.

        Averaged over all windows that contain the step, at every offset.
        """
        step = self.length / self.per_call
        total, counts = np.zeros(steps + count), np.zeros(steps + count)
        for first in range(min(count, steps)):
            shifted = Track(scores.values, hop=scores.hop, start=scores.start - first * step)
            pooled, _ = Grid(step * count).pool(shifted, duration - first * step)
            found = np.repeat(rates(pooled) / count, count)[: steps - first]
            total[first : first + len(found)] += found
            counts[first : first + len(found)] += 1
        mean: FloatArray = (total / np.maximum(counts, 1))[:steps]
        return mean

    def key(self, frontline: Frontline, *, audio_track: int = 0) -> str:
        """Hash of everything that can change the windows of a recording."""
        line = frontline
        parts: tuple[object, ...] = (line.encoder, line.scorer, line.rates, audio_track, self)
        parts += () if self.placement == "grid" else (self.placement,)
        parts += ("loudest",) if line.shows_loudest else ()
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def score_recording(
        self, heard: Heard, frontline: Frontline, *, survival: Survival | None = None
    ) -> ScoredRecording:
        """The windows of what `frontline` heard; `survival` replaces its own, if given.

        Where nothing was heard and its fallback watched the picture instead, the scores say where
        actions lie but not how many there are: rates are scaled to the total expected of silence.
        """
        length, durations = heard.recording.duration, survival or frontline.survival
        used_fallback = heard.frontline == frontline.fallback
        used = frontline_named(heard.frontline) if used_fallback else frontline
        level = heard.level if used.shows_loudest and heard.is_heard else None
        windows = self.score(
            heard.scores, length, rates=used.rates, survival=durations, level=level
        )
        if used_fallback:
            silence = Track(np.zeros(len(heard.scores)), hop=heard.scores.hop)
            quiet = self.score(silence, length, rates=frontline.rates, survival=durations)
            share = quiet.rates.sum() / max(float(windows.rates.sum()), 1e-12)
            windows = replace(windows, rates=windows.rates * share)
        return ScoredRecording(heard, windows)


def _smooth_level(level: Track) -> Track:
    """The level smoothed by `LEVEL_KERNEL`; the ends are extended by their own values."""
    side = len(LEVEL_KERNEL) // 2
    values = level.values
    if len(values):
        values = np.convolve(np.pad(values, side, mode="edge"), LEVEL_KERNEL, mode="valid")
    return Track(values, hop=level.hop, start=level.start)
