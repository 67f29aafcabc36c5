"""Named sounds over the whole of a recording: how likely each is, and from when until when.

    cells     .  .  d  D  D  D  d  .  .  D  D  .      probability of one class, a cell of 0.96 s
    events          [=========]        [====]         begins above `ON`, goes on above `OFF`

What is kept of a cell is the few classes that are likely at all, so an hour takes 0.5 MB at most.
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
from earmark.features.sound_tags import BACKGROUND
from earmark.features.yamnet import YAMNet
from earmark.media import Sound
from earmark.timeline import HOP, FloatArray, IndexArray, Span, Track, merge

CELL = 24
"""Steps of the clock in one cell: 0.96 s, so that patches lie side by side and each moment is heard
once. The network's own 0.48 s hears each twice, and would take twice as long."""

ABOVE_QUIET_DB = 3.0
"""A cell this far above the quiet of the last minutes is heard."""

QUIET_CELLS = 312
"""Cells whose quietest is the quiet: five minutes."""

QUIET_DB = -50.0
"""A room whose quiet is below this level, in dB of full scale, is quiet."""

NOISY_STRIDE = 4
"""Of a room that is never quiet, so many cells to one that is heard; less than `GAP`."""

MIN_PROBABILITY = 0.02
"""Probability below which nothing of a class is kept: too little to tell of, enough to look for."""

ONSET_PROBABILITY = 0.4
"""Probability that a sound must reach once to be told."""

CONTINUE_PROBABILITY = 0.15
"""Probability above which it goes on."""

MAX_GAP = 4.0
"""Seconds that a sound may fall silent and still be the same event."""


def logit(share: float) -> float:
    """The log odds of a probability."""
    return math.log(share / (1 - share))


def _probability(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(1 / (1 + np.exp(-logits)), dtype=np.float32)


@dataclass(frozen=True, slots=True, order=True)
class SoundEvent:
    """A named sound, from when until when."""

    span: Span
    name: str
    confidence: float
    """The highest probability in it; as the network has it, not calibrated."""

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
    """How likely named sounds are, cell by cell; three arrays of equal length, by cell."""

    names: tuple[str, ...]
    """Every class that can be heard, in the order of its number."""
    hop: float
    """Seconds of one cell."""
    duration: float
    cells: IndexArray
    classes: NDArray[np.int16]
    logits: NDArray[np.float32]

    def names_in(self, span: Span, *, most: int = 3, least: float = 0.2) -> tuple[str, ...]:
        """What is heard in `span`, likeliest first, by each class's likeliest cell there."""
        first = int(span.start / self.hop + 1e-6)
        last = int(np.ceil(span.end / self.hop - 1e-6))
        low, high = np.searchsorted(self.cells, [first, last])
        best = np.full(len(self.names), -np.inf, dtype=np.float32)
        np.maximum.at(best, self.classes[low:high], self.logits[low:high])
        best[self.names.index(BACKGROUND) :] = -np.inf
        floor = logit(least)
        likeliest = np.argsort(-best, kind="stable")[:most].tolist()
        return tuple(self.names[place] for place in likeliest if best[place] >= floor)

    def strongest(self, weights: FloatArray) -> Track:
        """The greatest of probability times weight in each cell; one weight a class."""
        values = np.zeros(self._count, dtype=np.float32)
        np.maximum.at(values, self.cells, _probability(self.logits) * weights[self.classes])
        return Track(values, hop=self.hop)

    def mean_logits(self, shares: FloatArray) -> Track:
        """The mean log odds of all classes in each cell, by their `shares`; never below `LEAST`."""
        above = shares[self.classes] * (self.logits - logit(MIN_PROBABILITY))
        cells = np.bincount(self.cells, above, minlength=self._count)
        return Track(logit(MIN_PROBABILITY) * shares.sum() + cells, hop=self.hop)

    @property
    def _count(self) -> int:
        return int(np.ceil(self.duration / self.hop - 1e-6))

    def events(self) -> list[SoundEvent]:
        """From when until when each sound is heard, by time; rooms and noise are no sounds.

        A broad sound that lies within one of its kinds is left out: a drill is a tool anyway.
        """
        found: list[SoundEvent] = []
        places = np.flatnonzero(
            self.logits >= logit(CONTINUE_PROBABILITY) - 0.01
        )  # a fifth of all; rounded below
        classes = self.classes[places]
        for number in np.unique(classes).tolist():
            if number < self.names.index(BACKGROUND):
                found += self._events_of(number, places[classes == number])
        return sorted(_without_broader(found))

    def _events_of(self, number: int, own: IndexArray) -> Iterator[SoundEvent]:
        """Of the entries `own`, all of one class, those that make events."""
        cells, likely = self.cells[own], _probability(self.logits[own])
        cells, likely = (
            cells[likely >= CONTINUE_PROBABILITY],
            likely[likely >= CONTINUE_PROBABILITY],
        )
        if likely.max(initial=0.0) < ONSET_PROBABILITY:
            return
        breaks = np.flatnonzero(np.diff(cells) * self.hop > MAX_GAP + self.hop) + 1
        for part, some in zip(np.split(cells, breaks), np.split(likely, breaks), strict=True):
            if some.max() >= ONSET_PROBABILITY:
                end = min(self.duration, float(part[-1] + 1) * self.hop)
                span = Span(float(part[0]) * self.hop, end)
                yield SoundEvent(span, self.names[number], float(some.max()))


def _without_broader(events: Sequence[SoundEvent]) -> Iterator[SoundEvent]:
    """The events but for broad ones that lie at least half within their kinds."""
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
    """Says which cells are worth hearing: those that stand out from the quiet of the last minutes.

    What is no louder than that has nothing to tell: of a room that is quiet, none is heard, and of
    one that is never quiet (a fan, an engine) one cell in `ONE_IN`.
    """

    def __init__(self) -> None:
        self._levels: deque[float] = deque(maxlen=QUIET_CELLS)
        self._number = 0

    def __call__(self, cells: FloatArray) -> IndexArray:
        """The places in `cells`, `(cells, samples)`, of those to hear."""
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
    """Notes the named sounds of what passes by, a few blocks at a time."""

    def __init__(self, encoder: YAMNet) -> None:
        self.encoder = encoder
        self._cells: list[IndexArray] = []
        self._classes: list[NDArray[np.int16]] = []
        self._logits: list[NDArray[np.float32]] = []
        self._steps = 0

    def pass_through(self, sound: Iterable[Sound]) -> Iterator[Sound]:
        """Pass `sound`, from its beginning, on as it is; no more is held than was just heard."""
        read: deque[Sound] = deque()

        def reading() -> Iterator[Sound]:
            for block in sound:
                read.append(block)
                yield block

        for some in self.encoder.cell_logits(reading(), CellSelector()):
            self._append(some)
            while read:
                yield read.popleft()
        yield from read

    def track(self) -> SoundTrack:
        """What was noted."""
        return SoundTrack(
            self.encoder.classes,
            self.encoder.cell * HOP,
            self._steps * HOP,
            np.concatenate([np.zeros(0, np.intp), *self._cells]),
            np.concatenate([np.zeros(0, np.int16), *self._classes]),
            np.concatenate([np.zeros(0, np.float32), *self._logits]),
        )

    def _append(self, scored: tuple[int, int, IndexArray, FloatArray]) -> None:
        first, steps, places, rows = scored
        self._steps += steps
        cells, classes = np.nonzero(rows >= logit(MIN_PROBABILITY))
        self._cells.append(places[cells] + first)
        self._classes.append(classes.astype(np.int16))
        self._logits.append(rows[cells, classes].astype(np.float32))
