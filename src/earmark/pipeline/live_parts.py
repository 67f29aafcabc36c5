"""The parts of a live source: each is a recording of the run that grows until its day is over.

wall clock    |── part ──────────|── part ──────────|── part ─ ─ ─
windows       ^^^^^^^ gap ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^           what was not heard stays empty
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np

from earmark.evidence.evidence_entry import TRACK
from earmark.evidence.live_sounds import RecentSounds, SoundCells
from earmark.features.sound_tags import PatchTagger
from earmark.gate.lengths import ActionLengths, LengthModel
from earmark.grid import Windows
from earmark.media.packet_ring import StreamFormat
from earmark.pipeline.live_listening import Level, SourceListener
from earmark.redaction import redact_url
from earmark.run.live_rows import STREAM, add_gap
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection.live_windows import LiveWindows
from earmark.selection.pick import Pick
from earmark.timeline import FloatArray, Span, Track

DAY = 86_400.0
QUIET_DB = -120.0
RULE = "rate"


@dataclass(frozen=True, slots=True)
class PartKey:
    """Which part of which source; the same after a restart."""

    address: str
    """Without secrets."""
    start: float
    """Wall clock."""
    duration: float

    @classmethod
    def at(cls, address: str, time: float, duration: float) -> PartKey:
        """The part around `time`: parts begin at midnight, or whole multiples after it."""
        midnight = datetime.fromtimestamp(time).replace(hour=0, minute=0, second=0, microsecond=0)
        first = midnight.timestamp()
        start = first + (time - first) // duration * duration
        return cls(redact_url(address), start, duration)

    @property
    def end(self) -> float:
        return self.start + self.duration

    @property
    def began(self) -> str:
        return datetime.fromtimestamp(self.start).astimezone().isoformat(timespec="seconds")

    @property
    def id(self) -> str:
        return hashlib.sha256(f"live {self.address} {self.start:.0f}".encode()).hexdigest()

    @property
    def path(self) -> str:
        return f"{self.address}#{self.began}"


@dataclass(slots=True, eq=False)
class Part:
    """Windows and level from the start of the part on; stored with `store`."""

    key: PartKey
    name: str
    length: float
    """Of a window."""
    scores: FloatArray = field(default_factory=lambda: np.zeros(0))
    instants: FloatArray = field(default_factory=lambda: np.zeros(0))
    rates: FloatArray = field(default_factory=lambda: np.zeros(0))
    level: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    until: float = 0.0
    """Wall clock up to which it was heard; 0 if it was not."""
    lengths: ActionLengths = field(default_factory=lambda: LengthModel().usual)
    bytes_received: int = 0
    format: StreamFormat | None = None
    stored_until: float = 0.0
    resumed_at: float = 0.0
    """Wall clock up to which an earlier process has heard it: a file is read from its beginning."""
    sounds: RecentSounds | None = None
    """None if no sounds are named."""

    @classmethod
    def open(cls, run: Run, key: PartKey, name: str, length: float) -> Part:
        """As an earlier process left it, if there was one."""
        part, row = cls(key, name, length), run.recording(key.id)
        if row is None:
            return part
        heard = run.heard(key.id)
        if heard.length == length:
            part.scores, part.instants = heard.scores.copy(), heard.instants.copy()
            part.rates, part.until = heard.rates.copy(), key.start + row.duration
        if heard.level is not None and heard.level.hop == 1.0:
            part.level = heard.level.values.copy()
        part.bytes_received = row.size_bytes
        part.stored_until = part.resumed_at = part.until
        return part

    @property
    def duration(self) -> float:
        return max(0.0, self.until - self.key.start)

    def add_level(self, level: Level) -> None:
        second = int(level.time - self.key.start)
        count = max(1, round(level.duration))
        if second < 0:
            return
        self.level = _grown(self.level, second + count, QUIET_DB)
        self.level[second : second + count] = level.decibels
        self.until = max(self.until, min(level.time + level.duration, self.key.end))

    def add_sounds(self, cells: SoundCells, tagger: PatchTagger) -> None:
        if cells.until <= self.resumed_at:
            return
        if self.sounds is None:
            self.sounds = RecentSounds.since(tagger, self.key.start, self.resumed_at)
        self.sounds.add(cells)

    def names_in(self, span: Span) -> tuple[str, ...]:
        return self.sounds.names_in(span) if self.sounds else ()

    def add(self, windows: LiveWindows, place: int) -> int:
        """Add a decided window; returns its number in the part."""
        number, self.lengths = self.number_of(windows.first + place), windows.lengths
        self.scores = _grown(self.scores, number + 1, 0.0)
        self.rates = _grown(self.rates, number + 1, 0.0)
        middles = (np.arange(number + 1) + 0.5) * self.length
        self.instants = np.concatenate([self.instants, middles[len(self.instants) :]])
        self.scores[number] = windows.scores[place]
        self.rates[number] = windows.rates[place]
        self.instants[number] = float(windows.instants[place]) - self.key.start
        self.until = max(self.until, min(self.key.end, self.start_of(number) + self.length))
        return number

    def number_of(self, window: int) -> int:
        return round((window * self.length - self.key.start) / self.length)

    def start_of(self, number: int) -> float:
        return self.key.start + number * self.length

    def place(self, pick: Pick) -> Pick:
        """`pick` of the wall clock, in seconds of the part."""
        number = self.number_of(round(pick.start / self.length))
        start = number * self.length
        instant = min(max(pick.instant - self.key.start, start), start + self.length)
        return replace(pick, window=number, start=start, end=start + self.length, instant=instant)

    def add_gap(self, run: Run, gap: Span, reason: str) -> None:
        start = max(0.0, gap.start - self.key.start)
        end = min(gap.end, self.key.end) - self.key.start
        if end > start:
            self.store_row(run)
            add_gap(run, self.key.id, Span(start, end), reason)

    def store_row(self, run: Run) -> None:
        frame_rate = self.format.frame_rate if self.format else 0.0
        run.add(
            RecordingRow(
                id=self.key.id,
                path=self.key.path,
                duration=self.duration,
                size_bytes=self.bytes_received,
                frame_rate=frame_rate,
                frame_count=round(frame_rate * self.duration),
                name=f"{self.name} {self.key.began[:16].replace('T', ' ')}",
                began=self.key.began,
            )
        )

    def store(self, run: Run, grid_key: str) -> None:
        self.store_row(run)
        if not run.choice(self.key.id).rule:
            run.choose(self.key.id, [], rule=RULE)
        count = int(-(-self.duration // self.length))
        arrays = (_grown(values, count, 0.0)[:count] for values in (self.scores, self.rates))
        scores, rates = arrays
        middles = (np.arange(count) + 0.5) * self.length
        instants = np.concatenate([self.instants, middles[len(self.instants) :]])[:count]
        windows = Windows(self.length, self.duration, scores, instants, rates, self.lengths)
        level = Track(self.level, hop=1.0) if len(self.level) else None
        run.hear(
            self.key.id,
            windows,
            key=grid_key,
            level=level,
            sound_bytes=self.bytes_received,
            access=STREAM,
        )
        if self.sounds:
            events, within = self.sounds.settle()
            origin = self.sounds.encoder.name + TRACK
            run.keep_evidence(self.key.id, events, kinds={"heard"}, origin=origin, within=within)
        self.stored_until = self.until


@dataclass(slots=True, eq=False)
class WatchedSource:
    address: str
    listener: SourceListener
    part: Part | None = None
    has_video: bool = True

    @property
    def name(self) -> str:
        return self.listener.name


@dataclass(slots=True)
class WatchCounts:
    picks: int = 0
    answers: int = 0
    failed: int = 0
    dropped: int = 0
    gaps: int = 0
    frames_decoded: int = 0


def _grown(values: FloatArray, count: int, fill: float) -> FloatArray:
    missing = max(0, count - len(values))
    return np.pad(values, (0, missing), constant_values=fill) if missing else values
