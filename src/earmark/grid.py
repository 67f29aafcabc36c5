from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields, replace

import numpy as np

from earmark.gate.frontline import Frontline, frontline_named
from earmark.gate.lengths import ActionLengths, Lengths
from earmark.gate.listener import Heard
from earmark.gate.rates import RateMap, WindowScores
from earmark.timeline import HOP, FloatArray, Span, Track

MIN_REMAINDER = 0.1
"""Seconds: audio coders pad their last packet (1,024 samples of AAC are 21 to 64 ms), and few
cameras show a picture in it."""

BESIDE_DB = 12.0
"""Less than this is the usual difference between two windows of work."""

LEVEL_KERNEL = np.array([1, 2, 3, 2, 1]) / 9
"""0.2 s apart: about a second of sound counts, the centre most."""


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    length: float
    """Seconds; the last window may reach past the end of the recording."""
    duration: float
    scores: FloatArray
    instants: FloatArray
    """Time of the largest score of each window; its middle if all its scores are equal."""
    rates: FloatArray
    lengths: ActionLengths
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
        """The last rate is ignored: it is smaller if the last window is cut short."""
        return len(self) > 1 and bool(np.ptp(self.scores) > 0 or np.ptp(self.rates[:-1]) > 0)

    @property
    def reach(self) -> FloatArray:
        """Probability that an action that starts in window m still continues when m + d begins."""
        return self.lengths.reach(self.length)

    def span(self, window: int) -> Span:
        start = window * self.length
        return Span(start, min(start + self.length, max(start, self.duration)))

    def window_at(self, start: float) -> int:
        """The window whose start is nearest to `start`; it may lie past the end."""
        return round(start / self.length)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScoredRecording(Windows):
    heard: Heard


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
        """`ceil(T / w)`, but a remainder below `MIN_REMAINDER` or a tenth of a window gets none.

        0   4   8 8.02
        |---|---|'          2 windows
        """
        remainder = min(MIN_REMAINDER, self.length / 10)
        return max(int(duration > 0), math.ceil((duration - remainder) / self.length - 1e-9))

    def pool(self, scores: Track, duration: float) -> tuple[WindowScores, FloatArray]:
        """Maximum and mean of `scores` in each window of the grid, and the instant of the maximum.

        A window without values gets the smallest score of the track, and its own middle.
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

    def pool_level(self, level: Track, duration: float) -> WindowScores:
        """`level` is in dB, the result in amplitudes."""
        amplitudes = Track(10 ** (level.values / 20), hop=level.hop, start=level.start)
        return self.pool(amplitudes, duration)[0]

    def loudest(self, level: Track, duration: float) -> FloatArray:
        """The loudest moment of each window."""
        return self.pool(_smooth_level(level), duration)[1]

    def score(
        self,
        scores: Track,
        duration: float,
        *,
        rates: RateMap,
        lengths: ActionLengths,
        level: Track | None = None,
        shows_loudest: bool = False,
    ) -> Windows:
        """`rates` are those at the reference of `lengths`; `level` is in dB."""
        pooled, instants = self.pool(scores, duration)
        if level is not None:
            pooled = replace(pooled, level=self.pool_level(level, duration))
        if pooled.level is not None and level is not None and shows_loudest:
            instants = self.loudest(level, duration)
            pooled = replace(pooled, peak=pooled.peak * nearness(pooled.level))
        expected = np.array(rates(pooled), dtype=float)
        if isinstance(lengths, Lengths):
            expected *= lengths.rate_factor
        if len(expected):
            expected[-1] *= min(1.0, duration / self.length - (len(expected) - 1))
        return Windows(self.length, duration, pooled.peak, instants, expected, lengths)

    def key(
        self, frontline: Frontline, lengths: ActionLengths | None = None, *, audio_track: int = 0
    ) -> str:
        line, durations = frontline, lengths or frontline.lengths
        parts: tuple[object, ...] = (line.encoder, line.scorer, line.rates, durations)
        parts += (audio_track, self)
        parts += ("loudest",) if line.shows_loudest else ()
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def score_recording(
        self, heard: Heard, frontline: Frontline, *, lengths: ActionLengths | None = None
    ) -> ScoredRecording:
        """`lengths` replace those that `frontline` infers.

        The scores of a fallback say where actions lie but not how many there are: rates are scaled
        to the total expected of silence.
        """
        duration, level = heard.recording.duration, heard.level if heard.is_heard else None
        lengths = lengths or frontline.lengths.infer(level)
        used_fallback = heard.frontline == frontline.fallback
        used = frontline_named(heard.frontline) if used_fallback else frontline
        windows = self.score(
            heard.scores,
            duration,
            rates=used.rates,
            lengths=lengths,
            level=level,
            shows_loudest=used.shows_loudest,
        )
        if used_fallback:
            silence = Track(np.zeros(len(heard.scores)), hop=heard.scores.hop)
            quiet = self.score(silence, duration, rates=frontline.rates, lengths=lengths)
            share = quiet.rates.sum() / max(float(windows.rates.sum()), 1e-12)
            windows = replace(windows, rates=windows.rates * share)
        return scored_recording(windows, heard)


def scored_recording(windows: Windows, heard: Heard) -> ScoredRecording:
    own = {field.name: getattr(windows, field.name) for field in fields(Windows)}
    return ScoredRecording(**own, heard=heard)


def nearness(level: WindowScores) -> FloatArray:
    """Factor of scores, 1 or less: a window next to a sound is not the window of the sound.

    Scores are averages over about a second, so a sound raises those of the windows beside it:

        level   ▁▁▁▁▇▁▁▁
        score   ▁▁▁▅▇▆▁▁

    A window whose loudest moment is more than `BESIDE_DB` below that of a neighbour has a score
    reduced by the decibels beyond.
    """
    louder = level.peak.copy()
    louder[1:] = np.maximum(louder[1:], level.peak[:-1])
    louder[:-1] = np.maximum(louder[:-1], level.peak[1:])
    factor: FloatArray = level.peak / np.maximum(louder, 1e-12) * 10 ** (BESIDE_DB / 20)
    return np.minimum(1.0, factor)


def _smooth_level(level: Track) -> Track:
    side = len(LEVEL_KERNEL) // 2
    values = level.values
    if len(values):
        values = np.convolve(np.pad(values, side, mode="edge"), LEVEL_KERNEL, mode="valid")
    return Track(values, hop=level.hop, start=level.start)
