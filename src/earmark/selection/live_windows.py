"""The windows of a stream, rated as soon as `latency` seconds of sound follow them.

    sound      ────────────────────────────────▶ now
    windows    . . . . . . m . . . . . . .
               past        │ │◀─ latency ─▶│     m is due: its rate is final
               scores kept │  rated again with every new window

Scores and rates are those of a recording that starts `MEMORY` seconds ago and has been heard up to
now. A gate reads `context` steps around a score, so from that latency on its scores are the same as
those of the whole recording. The rates still differ by what a recording's later hours would add
to its mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from earmark.features.encoder import SoundEncoder
from earmark.features.spectrum import decibels
from earmark.gate.frontline import Frontline
from earmark.gate.lengths import ActionLengths, Lengths
from earmark.gate.listener import LEVEL_HOP, measure_power
from earmark.gate.rates import WindowScores
from earmark.grid import Grid
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Track

LATENCY = 30.0
"""Seconds after a moment at which its window is decided."""

MEMORY = 3600.0
"""Seconds of past windows that rates are taken against, and that lengths are inferred from."""

INFER_EVERY = 300.0
"""Seconds between two inferences of the lengths of actions."""

COLUMNS = 4
"""Of the past: peak and mean of the score, and of the level as amplitudes."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveWindows:
    """Undecided windows, all heard to their end."""

    first: int
    """Window `n` covers `[n * length, (n + 1) * length)` of the wall clock."""
    length: float
    scores: FloatArray
    instants: FloatArray
    """Wall clock."""
    rates: FloatArray
    due: int
    """The first so many are to be decided now."""
    lengths: ActionLengths

    def __len__(self) -> int:
        return len(self.rates)

    @property
    def until(self) -> float:
        return (self.first + len(self)) * self.length


@dataclass(slots=True, eq=False)
class LiveListener:
    """Rates the windows of one source; what it knows survives the gaps of the stream."""

    frontline: Frontline
    grid: Grid = field(default_factory=Grid)
    latency: float = LATENCY
    lengths: ActionLengths | None = None
    """Inferred from the sound if None."""
    _past: FloatArray = field(default_factory=lambda: np.zeros((0, COLUMNS)))
    """Of decided windows."""
    _level: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    """Of decided windows, in dB."""
    _inferred: tuple[float, ActionLengths] | None = None
    """When, in seconds of sound, and what."""
    _heard: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.frontline.encoder, SoundEncoder):
            raise ValueError(f"{self.frontline.name} does not read sound, so it cannot listen live")
        if not self.latency >= 0:
            raise ValueError(f"a latency is 0 seconds or more, not {self.latency}")

    @property
    def sample_rate(self) -> int:
        assert isinstance(self.frontline.encoder, SoundEncoder)
        return self.frontline.encoder.sample_rate

    @property
    def context(self) -> float:
        """Seconds of look-ahead from which on scores are those of the whole recording."""
        return float(getattr(self.frontline.scorer, "context", 0)) * HOP

    def listen(self, sound: Iterable[Sound], *, start: float) -> Iterator[LiveWindows]:
        """Each time windows are due; all that are left once `sound` ends.

        `sound` has no gaps and its clock starts at 0, which is `start` of the wall clock. After a
        gap, call again with the sound that follows it.
        """
        assert isinstance(self.frontline.encoder, SoundEncoder)
        powers: list[FloatArray] = []
        stretch = _Stretch(self, start, powers)
        for track in self.frontline.encoder.encode(measure_power(sound, powers)):
            stretch.add(track)
            if stretch.count_due():
                yield stretch.rate()
        if stretch.rows is not None:
            stretch.has_ended = True
            yield stretch.rate()

    def rate_unheard(self, first: int, count: int) -> LiveWindows:
        """Windows of a source without sound: they all have the rate of silence, and are due."""
        silence, lengths = np.zeros(count), self.lengths or self.frontline.lengths.usual
        rates = self.frontline.rates(WindowScores(self.grid.length, silence, silence))
        middles = (first + np.arange(count) + 0.5) * self.grid.length
        rates = np.asarray(rates, dtype=float)
        return LiveWindows(first, self.grid.length, silence, middles, rates, count, lengths)

    def rate(self, rows: FloatArray, *, goes_on: bool) -> FloatArray:
        """Of undecided windows, from their columns and the past."""
        joined, length = np.concatenate([self._past, rows]).T, self.grid.length
        level = WindowScores(length, joined[2], joined[3])
        scores = WindowScores(length, joined[0], joined[1], level, goes_on)
        rates = np.asarray(self.frontline.rates(scores), dtype=float)[len(self._past) :]
        lengths = self.infer_lengths()
        return rates * lengths.rate_factor if isinstance(lengths, Lengths) else rates

    def infer_lengths(self) -> ActionLengths:
        if self.lengths is not None:
            return self.lengths
        if self._inferred is None or self._heard - self._inferred[0] >= INFER_EVERY:
            level = Track(self._level, hop=LEVEL_HOP)
            self._inferred = self._heard, self.frontline.lengths.infer(level)
        return self._inferred[1]

    def remember(self, rows: FloatArray, level: FloatArray) -> None:
        """Add decided windows to the past; forget what is older than `MEMORY`."""
        self._heard += len(rows) * self.grid.length
        windows, cells = round(MEMORY / self.grid.length), round(MEMORY / LEVEL_HOP)
        self._past = np.concatenate([self._past, rows])[-windows:]
        self._level = np.concatenate([self._level, level.astype(np.float32)])[-cells:]


class _Stretch:
    """Sound without a gap: the rows of features that undecided windows still need."""

    def __init__(self, listener: LiveListener, start: float, powers: list[FloatArray]) -> None:
        self.listener, self.powers = listener, powers
        self.length = listener.grid.length
        self.first = int(start // self.length)
        self.offset = start - self.first * self.length
        """Of the first sound in its window."""
        self.rows: FloatArray | None = None
        self.dropped = 0
        """Rows before the first of `rows`; whole seconds, as scorers read them so."""
        self.cells_dropped = 0
        """Of `powers`."""
        self.decided = 0
        self.has_ended = False

    @property
    def heard(self) -> float:
        """Seconds from the start of the first window."""
        rows = 0 if self.rows is None else len(self.rows)
        return self.offset + (self.dropped + rows) * HOP

    def add(self, track: Track) -> None:
        rows = track.values if track.values.ndim == 2 else track.values[:, None]
        self.rows = rows if self.rows is None else np.concatenate([self.rows, rows])

    def count_due(self) -> int:
        if self.has_ended:
            return self._count_complete()
        due = int((self.heard - self.listener.latency + 1e-9) // self.length)
        return max(0, due - self.decided)

    def _count_complete(self) -> int:
        """The last window of an ended stretch counts if half of it was heard."""
        part = 0.5 if self.has_ended else 0.0
        return max(0, int(self.heard / self.length + part + 1e-9) - self.decided)

    def rate(self) -> LiveWindows:
        listener, grid = self.listener, self.listener.grid
        due, count, before = self.count_due(), self._count_complete(), self.decided * self.length
        span = min(self.heard - before, count * self.length)
        pooled, instants = grid.pool(self._scores(before), span)
        level = self._level(before)
        loudness = grid.pool_level(level, span)
        if listener.frontline.shows_loudest:
            instants = grid.loudest(level, span)
        columns = (pooled.peak, pooled.mean, loudness.peak, loudness.mean)
        rows = np.stack(columns, axis=1)[:count]
        rates = listener.rate(rows, goes_on=not self.has_ended)
        first, lengths = self.first + self.decided, listener.infer_lengths()
        instants = instants[:count] + first * self.length
        windows = LiveWindows(first, self.length, rows[:, 0], instants, rates, due, lengths)
        times = level.start + np.arange(len(level)) * level.hop
        decided = (times >= 0) & (times < due * self.length)
        listener.remember(rows[:due], level.values[decided])
        self.decided += due
        self._drop()
        return windows

    def _scores(self, before: float) -> Track:
        """Of all `rows`, as if the recording ended here; the first `context` were scored before."""
        assert self.rows is not None
        scored = self.listener.frontline.scorer([Track(self.rows)])
        values = np.concatenate([track.values for track in scored])
        return Track(values, start=self.offset + self.dropped * HOP - before)

    def _level(self, before: float) -> Track:
        """In dB, from shortly before the undecided windows on."""
        power = np.concatenate(self.powers)
        unread = max(0, int((before - self.offset - 1.0) / LEVEL_HOP) - self.cells_dropped)
        self.powers[:], self.cells_dropped = [power[unread:]], self.cells_dropped + unread
        start = self.offset - before + self.cells_dropped * LEVEL_HOP
        return Track(decibels(np.sqrt(power[unread:])), hop=LEVEL_HOP, start=start)

    def _drop(self) -> None:
        """Rows that no undecided window reads, in whole seconds."""
        assert self.rows is not None
        unread = self.decided * self.length - self.offset - self.listener.context
        rows = max(0, int(unread) * CLOCK_RATE - self.dropped)
        self.rows, self.dropped = self.rows[rows:], self.dropped + rows
