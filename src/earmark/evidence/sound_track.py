"""Named sounds over a whole recording: the probability of each, and their starts and ends.

    cells     .  .  d  D  D  D  d  .  .  D  D  .      probability of one class, a cell of 0.96 s
    events          [=========]        [====]         reaches `ONSET_PROBABILITY` at least once,
                                                      stays above `CONTINUE_PROBABILITY`

Only classes with some probability are stored for a cell, so an hour takes 0.5 MB at most.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from earmark.evidence.sound_ontology import broader
from earmark.features.sound_tags import BACKGROUND, likeliest_names
from earmark.features.yamnet import YAMNet
from earmark.media import Sound
from earmark.timeline import HOP, FloatArray, IndexArray, Span, Track, merge

CELL = 24
"""Steps of the clock in one cell: 0.96 s, so that patches do not overlap and each moment is
processed once. The network's own hop of 0.48 s would process each twice, and take twice as long."""

ABOVE_QUIET_DB = 3.0
"""A cell this far above the quiet level of the last minutes is processed."""

QUIET_CELLS = 312
"""Cells over which the quiet level is the minimum: five minutes."""

QUIET_DB = -50.0
"""A room whose quiet level is below this, in dB of full scale, counts as quiet."""

NOISY_STRIDE = 4
"""In a room that is never quiet, one cell in this many is processed; shorter than `MAX_GAP`."""

MIN_PROBABILITY = 0.02
"""Least probability stored: too little to report, enough to search for."""

ONSET_PROBABILITY = 0.4
"""Probability that a sound must reach once to be reported."""

CONTINUE_PROBABILITY = 0.15
"""Probability at or above which it continues."""

MAX_GAP = 4.0
"""Longest silence, in seconds, within one event."""


def logit(share: float) -> float:
    """The log odds of a probability."""
    return math.log(share / (1 - share))


def _probability(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float32)


@dataclass(frozen=True, slots=True, order=True)
class SoundEvent:
    """A named sound with its start and end."""

    span: Span
    name: str
    confidence: float
    """The highest probability in it, as the network gives it; not calibrated."""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        start, end = round(self.span.start, 2), round(self.span.end, 2)
        return {
            "start": start,
            "end": end,
            "sound": self.name,
            "confidence": round(self.confidence, 3),
        }


@dataclass(frozen=True, slots=True, eq=False)
class SoundTrack:
    """Probabilities of named sounds, sparse: three arrays of equal length, sorted by cell."""

    names: tuple[str, ...]
    """Every class, by its number."""
    hop: float
    """Seconds of one cell."""
    duration: float
    cells: IndexArray
    classes: NDArray[np.int16]
    logits: NDArray[np.float32]

    def names_in(self, span: Span) -> tuple[str, ...]:
        """The names of the sounds in `span`, by decreasing maximum probability there."""
        first = int(span.start / self.hop + 1e-6)
        last = int(np.ceil(span.end / self.hop - 1e-6))
        low, high = np.searchsorted(self.cells, [first, last])
        best = np.full(len(self.names), -np.inf, dtype=np.float32)
        np.maximum.at(best, self.classes[low:high], self.logits[low:high])
        return likeliest_names(best, self.names)

    def strongest(self, weights: FloatArray) -> Track:
        """The maximum of probability times weight in each cell; one weight per class."""
        values = np.zeros(self._count, dtype=np.float32)
        np.maximum.at(values, self.cells, _probability(self.logits) * weights[self.classes])
        return Track(values, hop=self.hop)

    def mean_logits(self, shares: FloatArray) -> Track:
        """The mean log odds over classes in each cell, weighted by `shares`.

        A class that is not stored in a cell counts with `MIN_PROBABILITY`.
        """
        above = shares[self.classes] * (self.logits - logit(MIN_PROBABILITY))
        cells = np.bincount(self.cells, above, minlength=self._count)
        return Track(logit(MIN_PROBABILITY) * shares.sum() + cells, hop=self.hop)

    @property
    def _count(self) -> int:
        return int(np.ceil(self.duration / self.hop - 1e-6))

    def events(self) -> list[SoundEvent]:
        """The events of all sounds, by time; background classes (rooms, noise) are left out.

        So is a broad sound that lies within one of its subclasses: a drill is a tool anyway.
        """
        found: list[SoundEvent] = []
        # A fifth of all entries, with a margin for rounding; compared exactly below.
        places = np.flatnonzero(self.logits >= logit(CONTINUE_PROBABILITY) - 0.01)
        classes = self.classes[places]
        for number in np.unique(classes).tolist():
            if number < self.names.index(BACKGROUND):
                found += self._events_of(number, places[classes == number])
        return sorted(_without_broader(found))

    def _events_of(self, number: int, own: IndexArray) -> Iterator[SoundEvent]:
        """The events of class `number`, from its entries `own`."""
        likely = _probability(self.logits[own])
        goes_on = likely >= CONTINUE_PROBABILITY
        cells, likely = self.cells[own][goes_on], likely[goes_on]
        if likely.max(initial=0.0) < ONSET_PROBABILITY:
            return
        breaks = np.flatnonzero(np.diff(cells) * self.hop > MAX_GAP + self.hop) + 1
        for part, some in zip(np.split(cells, breaks), np.split(likely, breaks), strict=True):
            if some.max() >= ONSET_PROBABILITY:
                end = min(self.duration, float(part[-1] + 1) * self.hop)
                span = Span(float(part[0]) * self.hop, end)
                yield SoundEvent(span, self.names[number], float(some.max()))


def _without_broader(events: Sequence[SoundEvent]) -> Iterator[SoundEvent]:
    """The events without broad ones that lie at least half within their subclasses."""
    spans: dict[str, list[Span]] = {}
    for event in events:
        for broad in broader(event.name):
            spans.setdefault(broad, []).append(event.span)
    merged = {broad: merge(own) for broad, own in spans.items()}
    for event in events:
        own = merged.get(event.name, [])
        first = max(0, bisect_right(own, event.span) - 1)
        inside = 0.0
        for span in islice(own, first, None):
            if span.start >= event.span.end:
                break
            inside += max(0.0, min(span.end, event.span.end) - max(span.start, event.span.start))
        if inside < event.span.duration / 2:
            yield event


class CellSelector:
    """Selects the cells to process: those louder than the quiet level of the last minutes.

    Other cells have nothing to report. In a quiet room none of them is processed, in a room that is
    never quiet (a fan, an engine) one in `NOISY_STRIDE`.
    """

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=QUIET_CELLS)
        self._number = 0

    def __call__(self, cells: FloatArray) -> IndexArray:
        """Indices of the cells to process, of `cells` with shape (cells, samples)."""
        powers = np.einsum("ij,ij->i", cells, cells, dtype=np.float64) / cells.shape[1]
        wanted = []
        for place, level in enumerate((10 * np.log10(powers + 1e-12)).tolist()):
            self._levels.append(level)
            floor = min(self._levels)
            is_due = floor >= QUIET_DB and self._number % NOISY_STRIDE == 0
            if level >= floor + ABOVE_QUIET_DB or is_due:
                wanted.append(place)
            self._number += 1
        return np.array(wanted, dtype=np.intp)


class SoundTracker:
    """Tracks the named sounds of a stream, a few blocks at a time."""

    def __init__(self, encoder: YAMNet) -> None:
        self.encoder = encoder
        empty = np.zeros(0, np.intp), np.zeros(0, np.int16), np.zeros(0, np.float32)
        self._found = [empty]  # cells, classes and logits of each piece
        self._steps = 0

    def pass_through(self, sound: Iterable[Sound]) -> Iterator[Sound]:
        """Yield `sound`, from its beginning, unchanged; only the blocks just processed are held."""
        read: deque[Sound] = deque()

        def reading() -> Iterator[Sound]:
            for block in sound:
                read.append(block)
                yield block

        for some in self.encoder.cell_logits(reading(), CellSelector()):
            self._append(*some)
            while read:
                yield read.popleft()
        yield from read

    def track(self) -> SoundTrack:
        """The track so far."""
        arrays = map(np.concatenate, zip(*self._found, strict=True))
        hop, duration = self.encoder.cell * HOP, self._steps * HOP
        return SoundTrack(self.encoder.classes, hop, duration, *arrays)

    def _append(self, first: int, steps: int, places: IndexArray, rows: FloatArray) -> None:
        self._steps += steps
        cells, classes = np.nonzero(rows >= logit(MIN_PROBABILITY))
        logits = rows[cells, classes].astype(np.float32)
        self._found.append((places[cells] + first, classes.astype(np.int16), logits))
