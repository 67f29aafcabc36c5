"""Where call windows may lie, and what a recording's scores look like there.

    on the grid    |-------|-------|-------|      a window begins where the last one ends
    placed freely  |-|-|-|-|-|-|-|-|-|-|-|-|      a window begins at any step of half a second

Either way a recording is a row of steps, and a window is known by the last step it holds: on the
grid, where a window is one step, that is its own number.
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
"""Seconds at the end of a recording that are not worth a call of their own: sound coders fill up
their last packet (1,024 samples of AAC are 21 to 64 ms), and few cameras show a picture in it."""


STEP = 0.5
"""Seconds between two places at which a window may begin, where it is placed freely; about, as a
whole number of steps fills a window."""

FINE_WINDOW = 1.0
"""Seconds of the shortest windows that rates are fitted on. Steps have the mean of what these and
windows as long as a call share with them: the former say where, the latter how much."""

Placement = Literal["grid", "free"]
"""Where windows may begin."""

LEVEL_KERNEL = np.array([1, 2, 3, 2, 1]) / 9
"""Weights of the levels around a moment, 0.2 s apart, by which it is the loudest: about a second of
sound counts, the middle of it most, so that a click is looked at and not the time around it."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """The windows of one recording with all that a selector may know about them.

    Values are given step by step. On the grid a step is a window.
    """

    length: float
    """Seconds of one window; the last one may reach past the end of the recording."""
    duration: float
    """Seconds of the recording."""
    scores: FloatArray
    """The largest score in each step."""
    instants: FloatArray
    """When each step's largest score occurs; the middle of a step whose scores tell nothing."""
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
        """Whether the scores or the rates tell one window from another.

        That the last window is cut short, and its rate with it, tells nothing.
        """
        return len(self) > 1 and bool(np.ptp(self.scores) > 0 or np.ptp(self.rates[:-1]) > 0)

    @property
    def step(self) -> float:
        """Seconds of one step."""
        return self.length / self.per_call

    @property
    def calls(self) -> int:
        """Calls of a full scan: windows of the grid, wherever these may lie."""
        return len(self) if self.per_call == 1 else Grid(self.length).count(self.duration)

    @property
    def reach(self) -> FloatArray:
        """The chance that a window touches an action which starts so many steps before its last.

        1 within the window, and then that the action is still going when it begins.
        """
        going = self.survival.reach(self.step)
        return going if self.per_call == 1 else np.append(np.ones(self.per_call), going[1:])

    def span(self, window: int) -> Span:
        """The time of one window, cut at the end of the recording."""
        start = max(0, window + 1 - self.per_call) * self.step
        return Span(start, min(start + self.length, max(start, self.duration)))

    def window_at(self, start: float) -> int:
        """The window that begins at the step nearest to `start`; it may lie past the end."""
        return round(start / self.step) + self.per_call - 1

    def steps_of(self, windows: IndexArray) -> IndexArray:
        """The steps in each of `windows`, a row each; those past the ends are the ones there."""
        firsts = np.maximum(windows + 1 - self.per_call, 0)
        places: IndexArray = firsts[:, None] + np.arange(self.per_call)
        return np.minimum(places, len(self) - 1)


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
    placement: Placement = field(default="grid", repr=False)
    """Whether windows lie on the grid, the paper's, or begin at any step of about `STEP`."""

    def __post_init__(self) -> None:
        if self.placement not in get_args(Placement):
            raise ValueError(f"windows are placed on the grid or free, not {self.placement!r}")
        if not (math.isfinite(self.length) and self.length >= HOP):
            raise ValueError(f"a window lasts {HOP:g} s (one score) or more, not {self.length}")

    @property
    def per_call(self) -> int:
        """Steps in a window that is placed freely."""
        return max(1, round(self.length / STEP))

    def count(self, duration: float) -> int:
        """Windows of the grid in `duration` seconds, `ceil(T / w)`; the last may be cut short.

        A rest of less than `REST` seconds, or a tenth of a window, is no window of its own unless
        it is all there is.

            0   4   8 8.02
            |---|---|'          2 windows
        """
        remainder = min(MIN_REMAINDER, self.length / 10)
        return max(int(duration > 0), math.ceil((duration - remainder) / self.length - 1e-9))

    def pool(self, scores: Track, duration: float) -> tuple[WindowScores, FloatArray]:
        """What each window of the grid holds of `scores`, and the instant of its largest one.

        A step belongs to the window its middle lies in. A window without a step (the track is
        shorter than the recording) takes the track's smallest score, and its own middle; so does
        the instant of a window whose steps all score the same.
        """
        count = self.count(duration)
        starts = np.arange(count) * self.length
        instants = (starts + np.minimum(starts + self.length, max(duration, 0.0))) / 2
        middles = scores.start + (np.arange(len(scores)) + 0.5) * scores.hop
        owner = np.floor(middles / self.length).astype(np.intp)
        # By window, then by score, then the earlier step last: a window's best step ends its run.
        order = np.lexsort((-middles, scores.values, owner))
        order = order[(owner[order] >= 0) & (owner[order] < count)]
        heard, first, counts = np.unique(owner[order], return_index=True, return_counts=True)
        values = scores.values[order].astype(float)
        total = np.concatenate([[0.0], np.cumsum(values)])
        last = first + counts
        peak, mean = (np.full(count, values.min() if len(values) else 0.0) for _ in range(2))
        low, high = values[first], values[last - 1]
        peak[heard] = high
        # Means lie between the extremes, so rounding never tells two windows of equal scores apart.
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
        """The windows of a recording of `duration` seconds, scored and rated.

        A last window that is cut short holds as much less of its rate. On the grid the instant of
        a window is its loudest moment where the `level` is given.
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
        """The same of every step at which a window may begin.

        Rates are nowhere quite 0: a call in an empty place still beats one that lies over another.
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
        """The rates of `steps`, as each of windows of `count` steps shares its own with them.

        Meaned over all windows that hold a step, wherever these begin.
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
        """Names all that can change the windows of a recording."""
        line = frontline
        parts: tuple[object, ...] = (line.encoder, line.scorer, line.rates, audio_track, self)
        parts += () if self.placement == "grid" else (self.placement,)
        parts += ("loudest",) if line.shows_loudest else ()
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def score_recording(
        self, heard: Heard, frontline: Frontline, *, survival: Survival | None = None
    ) -> ScoredRecording:
        """What was heard by `frontline`, on the grid; actions last as it says unless told.

        What its fallback saw where nothing was heard says where, and not how much, goes on: as many
        actions are expected as of silence.
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
    """The level of each moment: weighed by `MOMENT`, the ends lasting on."""
    side = len(LEVEL_KERNEL) // 2
    values = level.values
    if len(values):
        values = np.convolve(np.pad(values, side, mode="edge"), LEVEL_KERNEL, mode="valid")
    return Track(values, hop=level.hop, start=level.start)
