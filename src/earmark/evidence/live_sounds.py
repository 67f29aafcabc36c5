"""Named sounds of a stream: cell by cell for alerts, and as events once a stretch is over.

cells     .  .  d  D  D  D  d  .  .  D  D     settled: stored, and forgotten here
          ├──── settled ─────────┤  ├ open    open: may go on, so it is computed again
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_track import (
    MAX_GAP,
    NOTHING,
    NamedCells,
    SoundTrack,
    SoundTracker,
    make_track,
)
from earmark.features.sound_tags import PatchTagger
from earmark.media import Sound
from earmark.timeline import HOP, FloatArray, Span

LONGEST_EVENT = 600.0
"""Seconds; a longer sound is stored as several."""

KEPT = 900.0
"""Seconds; more than the longest latency."""


@dataclass(frozen=True, slots=True, eq=False)
class SoundCells:
    """What was named in a piece of sound: three arrays of equal length."""

    times: FloatArray
    """Wall clock, when each cell begins."""
    classes: NDArray[np.int16]
    logits: NDArray[np.float32]
    until: float
    """Wall clock up to which sounds are named."""

    def surest(self, wanted: Iterable[int]) -> tuple[float, int, float] | None:
        """Time, class and probability of the likeliest of the `wanted` classes."""
        found = np.flatnonzero(np.isin(self.classes, list(wanted)))
        if not len(found):
            return None
        best = found[np.argmax(self.logits[found])]
        likely = float(expit(self.logits[best]))
        return float(self.times[best]), int(self.classes[best]), likely


def name_live(
    encoder: PatchTagger,
    sound: Iterable[Sound],
    *,
    start: float,
    take: Callable[[SoundCells], None],
) -> Iterator[Sound]:
    """Yield `sound` unchanged, and hand on what is named in it; its time 0 is `start`."""
    tracker, hop = SoundTracker(encoder), encoder.cell * HOP
    for block in tracker.pass_through(sound):
        cells, classes, logits = tracker.pop()
        take(SoundCells(start + cells * hop, classes, logits, start + tracker.until))
        yield block


@dataclass(slots=True, eq=False)
class RecentSounds:
    """The sounds of the last minutes of one recording."""

    encoder: PatchTagger
    start: float
    """Of the recording, on the wall clock."""
    _settled: int = 0
    """Cell before which all events are over."""
    _until: float = 0.0
    _pieces: list[NamedCells] = field(default_factory=lambda: [NOTHING])

    @classmethod
    def since(cls, encoder: PatchTagger, start: float, time: float) -> RecentSounds:
        """Of a recording whose events before `time` are stored."""
        recent = cls(encoder, start)
        recent._settled = max(0, round((time - start) / recent._hop))
        return recent

    def add(self, cells: SoundCells) -> None:
        numbers = np.rint((cells.times - self.start) / self._hop).astype(np.intp)
        is_later = numbers >= self._settled
        self._pieces.append((numbers[is_later], cells.classes[is_later], cells.logits[is_later]))
        self._until = max(self._until, cells.until - self.start)

    def names_in(self, span: Span) -> tuple[str, ...]:
        return self._track(0).names_in(span)

    def settle(self) -> tuple[list[EvidenceEntry], Span]:
        """The events that were not over before, and the span in which they replace others."""
        begin, events = self._settled * self._hop, self._track(self._settled).events()
        open_since = [
            event.span.start for event in events if event.span.end > self._until - MAX_GAP
        ]
        settled = max(min([*open_since, self._until]), self._until - LONGEST_EVENT, begin)
        self._settled = int(settled / self._hop)
        self._pieces = [self._cells(int((self._until - KEPT) / self._hop))]
        return events, Span(begin, max(begin, self._until))

    @property
    def _hop(self) -> float:
        return self.encoder.cell * HOP

    def _cells(self, first: int) -> NamedCells:
        numbers, classes, logits = map(np.concatenate, zip(*self._pieces, strict=True))
        is_kept = numbers >= first
        return numbers[is_kept], classes[is_kept], logits[is_kept]

    def _track(self, first: int) -> SoundTrack:
        return make_track(self.encoder, self._hop, self._until, *self._cells(first))
