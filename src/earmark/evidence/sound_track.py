"""Named sounds over a whole recording: the probability of each, and their starts and ends.

    cells     .  .  d  D  D  D  d  .  .  D  D  .      probability of one class, a cell of 0.96 s
    events          [=========]        [====]         reaches the network's `onset` at least once,
                                                      stays above `CONTINUE_PROBABILITY`

Only classes with some probability are stored for a cell, so an hour takes 0.5 MB at most.
"""

from __future__ import annotations

import zipfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from earmark.errors import EarmarkError
from earmark.evidence.evidence_entry import TRACK, EvidenceEntry, EvidenceTimeline
from earmark.evidence.sound_query import broader
from earmark.features.sound_tags import BACKGROUND, PatchTagger, likeliest_names
from earmark.media import Meter, Recording, Sound
from earmark.media.atomic_file import content_file, replacing
from earmark.timeline import HOP, FloatArray, IndexArray, Span, Track, merge

SOUNDS = "sounds"
CACHE_VERSION = 3
CELL = 24
"""Steps of the clock: 0.96 s. The network's own hop of 0.48 s would process each moment twice."""

ABOVE_QUIET_DB = 3.0
QUIET_CELLS = 312
QUIET_DB = -50.0
"""Of full scale; a room whose quiet level is below this counts as quiet."""

MIN_PROBABILITY = 0.02
"""Least probability stored: too little to report, enough to search for."""

CONTINUE_PROBABILITY = 0.15
MAX_GAP = 4.0
"""Longest silence, in seconds, within one event."""

NamedCells = tuple[IndexArray, NDArray[np.int16], NDArray[np.float32]]
"""Cells, classes and logits, of equal length."""

NOTHING: NamedCells = np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class SoundTrack:
    """Probabilities of named sounds, sparse: three arrays of equal length, sorted by cell."""

    model: str
    names: tuple[str, ...]
    onset: float
    overhang: float
    """Seconds by which a sound reaches into further cells."""
    hop: float
    duration: float
    cells: IndexArray
    classes: NDArray[np.int16]
    logits: NDArray[np.float32]

    def names_in(self, span: Span) -> tuple[str, ...]:
        first = int(span.start / self.hop + 1e-6)
        last = int(np.ceil(span.end / self.hop - 1e-6))
        low, high = np.searchsorted(self.cells, [first, last])
        best = np.full(len(self.names), -np.inf, dtype=np.float32)
        np.maximum.at(best, self.classes[low:high], self.logits[low:high])
        return likeliest_names(best, self.names)

    def strongest(self, weights: FloatArray) -> Track:
        """The maximum of probability times weight in each cell; one weight per class."""
        values = np.zeros(self._count, dtype=np.float32)
        np.maximum.at(values, self.cells, expit(self.logits) * weights[self.classes])
        return Track(values, hop=self.hop)

    def mean_logits(self, shares: FloatArray) -> Track:
        """Mean log odds; a class that is not stored in a cell counts with `MIN_PROBABILITY`."""
        above = shares[self.classes] * (self.logits - logit(MIN_PROBABILITY))
        cells = np.bincount(self.cells, above, minlength=self._count)
        return Track(logit(MIN_PROBABILITY) * shares.sum() + cells, hop=self.hop)

    @property
    def _count(self) -> int:
        return int(np.ceil(self.duration / self.hop - 1e-6))

    def events(self) -> list[EvidenceEntry]:
        """By time, without background classes (rooms, noise).

        A broad sound that lies within one of its subclasses is left out: a drill is a tool anyway.
        """
        events: list[EvidenceEntry] = []
        # A fifth of all entries, with a margin for rounding; compared exactly below.
        entries = np.flatnonzero(self.logits >= logit(CONTINUE_PROBABILITY) - 0.01)
        classes = self.classes[entries]
        for number in np.unique(classes).tolist():
            if number < self.names.index(BACKGROUND):
                events += self._events_of(number, entries[classes == number])
        return sorted(_without_broader(events), key=lambda event: (event.span, event.text))

    def _events_of(self, number: int, own: IndexArray) -> Iterator[EvidenceEntry]:
        likely = expit(self.logits[own])
        goes_on = likely >= CONTINUE_PROBABILITY
        cells, likely = self.cells[own][goes_on], likely[goes_on]
        if likely.max(initial=0.0) < self.onset:  # true of most classes
            return
        breaks = np.flatnonzero(np.diff(cells) * self.hop > MAX_GAP - self.overhang + self.hop) + 1
        for part, shares in zip(np.split(cells, breaks), np.split(likely, breaks), strict=True):
            confidence = float(shares.max())
            if confidence >= self.onset:
                start, end = float(part[0]) * self.hop, float(part[-1] + 1) * self.hop
                early = min(self.overhang, end - start - self.hop) / 2
                span = Span(start + early, min(self.duration, end - early))
                yield EvidenceEntry(
                    span, "heard", self.names[number], confidence, self.model + TRACK
                )


def _without_broader(events: Sequence[EvidenceEntry]) -> Iterator[EvidenceEntry]:
    narrower: dict[str, list[EvidenceEntry]] = {}
    for event in events:
        for broad in broader(event.text):
            narrower.setdefault(broad, []).append(event)
    timelines = {broad: EvidenceTimeline(members) for broad, members in narrower.items()}
    for event in events:
        timeline, own = timelines.get(event.text), event.span
        members = timeline.overlapping(own) if timeline else []
        spans = merge(member.span for member in members)
        inside = sum(min(span.end, own.end) - max(span.start, own.start) for span in spans)
        if inside < own.duration / 2:
            yield event


class CellSelector:
    """Selects the cells louder than the quiet level of the last minutes.

    In a quiet room no other is processed, in a room that is never quiet (a fan, an engine) one in
    `stride`.
    """

    def __init__(self, stride: int) -> None:
        self._stride = stride
        self._levels: deque[float] = deque(maxlen=QUIET_CELLS)
        self._number = 0

    def __call__(self, cells: FloatArray) -> IndexArray:
        powers = np.einsum("ij,ij->i", cells, cells, dtype=np.float64) / cells.shape[1]
        selected = []
        for cell, level in enumerate((10 * np.log10(powers + 1e-12)).tolist()):
            self._levels.append(level)
            floor = min(self._levels)
            is_due = floor >= QUIET_DB and self._number % self._stride == 0
            if level >= floor + ABOVE_QUIET_DB or is_due:
                selected.append(cell)
            self._number += 1
        return np.array(selected, dtype=np.intp)


class SoundTracker:
    def __init__(self, encoder: PatchTagger) -> None:
        self.encoder = encoder
        self._stride = max(1, int((MAX_GAP - encoder.overhang) / (encoder.cell * HOP)))
        self._pieces = [NOTHING]
        self._steps = 0

    def pass_through(self, sound: Iterable[Sound]) -> Iterator[Sound]:
        read: deque[Sound] = deque()

        def reading() -> Iterator[Sound]:
            for block in sound:
                read.append(block)
                yield block

        for first, steps, cells, rows in self.encoder.cell_logits(
            reading(), CellSelector(self._stride)
        ):
            self._steps += steps
            indices, classes = np.nonzero(rows >= logit(MIN_PROBABILITY))
            logits = rows[indices, classes].astype(np.float32)
            self._pieces.append((cells[indices] + first, classes.astype(np.int16), logits))
            while read:
                yield read.popleft()
        yield from read

    @property
    def until(self) -> float:
        """Seconds of sound that are named."""
        return self._steps * HOP

    def pop(self) -> NamedCells:
        """What was named since the last call; `track` lacks it."""
        cells, classes, logits = map(np.concatenate, zip(*self._pieces, strict=True))
        self._pieces = [NOTHING]
        return cells, classes, logits

    def track(self) -> SoundTrack:
        arrays = map(np.concatenate, zip(*self._pieces, strict=True))
        return make_track(self.encoder, self.encoder.cell * HOP, self._steps * HOP, *arrays)


def make_track(encoder: PatchTagger, *values: Any) -> SoundTrack:
    return SoundTrack(encoder.name, encoder.classes, encoder.onset, encoder.overhang, *values)


@dataclass(frozen=True, slots=True)
class SoundListener:
    encoder: PatchTagger
    folder: Path | None = None

    def __call__(
        self, recording: Recording, *, on_seconds: Callable[[float, float], None] | None = None
    ) -> SoundTrack:
        track = self.find(recording)
        if track is not None:
            return track
        tracker = SoundTracker(self.encoder)
        for block in tracker.pass_through(recording.sound(sample_rate=16_000, meter=Meter())):
            if on_seconds is not None:
                on_seconds(block.start + len(block) / block.sample_rate, recording.duration)
        return self.keep(recording, tracker.track())

    def evidence(self, recording: Recording) -> list[EvidenceEntry]:
        return self(recording).events()

    def pass_through(self, recording: Recording, sound: Iterable[Sound]) -> Iterator[Sound]:
        """Yield `sound` unchanged; nothing is tracked if it is cached, or there is no cache."""
        if self.folder is None or self.find(recording) is not None:
            yield from sound
            return
        tracker = SoundTracker(self.encoder)
        yield from tracker.pass_through(sound)
        self.keep(recording, tracker.track())

    def find(self, recording: Recording) -> SoundTrack | None:
        path = self._path(recording)
        if path is None:
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                hop, duration = (float(value) for value in stored["times"])
                cells, logits = stored["cells"].astype(np.intp), stored["logits"].astype(np.float32)
                arrays = cells, stored["classes"], logits
        except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
            return None
        return make_track(self.encoder, hop, duration, *arrays)

    def keep(self, recording: Recording, track: SoundTrack) -> SoundTrack:
        path = self._path(recording)
        if path is not None:
            try:
                with replacing(path) as scratch:
                    np.savez(
                        scratch,
                        times=np.array([track.hop, track.duration]),
                        cells=track.cells.astype(np.int32),
                        classes=track.classes,
                        logits=track.logits.astype(np.float16),
                    )
            except OSError as error:
                raise EarmarkError(
                    f"sounds cannot be cached in {self.folder} ({error.strerror}); "
                    "set `cache` to another folder, or to none"
                ) from error
        return track

    def _path(self, recording: Recording) -> Path | None:
        if self.folder is None:
            return None
        parts = f"{CACHE_VERSION} {recording.key} {recording.audio_track} {self.encoder!r}"
        return content_file(self.folder / SOUNDS, recording.key, parts, ".npz")
