"""Cuts sound into overlapping chunks and lays what was heard in them onto one clock.

sound    ├────────────────────────────────────────┤
chunk 0  ├──────────────────┤                          10 s
chunk 1            ├──────────────────┤                5 s later
chunk 2                      ├──────────────────┤
rows     │ 0       │ (0+1)/2 │ (1+2)/2 │ 2      ┊       each moment once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, HOP, FloatArray

Hearing = Callable[[FloatArray], FloatArray]
"""`(chunks, samples)` to `(chunks, rows, values)`."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model's chunks lie on the clock; everything in steps of it."""

    chunk: int = 250
    """Steps of sound that the model hears at once."""
    hop: int = 125
    """Steps from one chunk to the next."""
    rows: int = 250
    """Steps that a chunk speaks for; where chunks overlap, they are averaged."""
    lead: int = 0
    """Steps of a chunk that lie before those it speaks for."""

    def every(self, seconds: float) -> Layout:
        """The same with another hop; a model of one row a chunk speaks for the middle of it."""
        hop = round(seconds * CLOCK_RATE)
        if not (abs(hop * HOP - seconds) < 1e-6 and 0 < hop <= self.chunk):
            raise ValueError(
                f"chunks of {self.chunk * HOP:g} s cannot lie {seconds} s apart: "
                f"choose a multiple of {HOP:g} s up to their length"
            )
        if self.rows == self.chunk:
            return replace(self, hop=hop)
        return replace(self, hop=hop, rows=hop, lead=(self.chunk - hop) // 2)


TEN_SECONDS = Layout()
"""Ten seconds of sound, every five: the paper's."""

CLIPS = Layout(chunk=50, hop=10, rows=10, lead=20)
"""Two seconds of sound for each 0.4 s in their middle."""


def hear_in_chunks(
    sound: Iterable[Sound], hear: Hearing, *, layout: Layout, sample_rate: int, batch: int
) -> Iterator[tuple[FloatArray, int]]:
    """Rows on the clock with the number of the first, in order and without a gap.

    Holds `batch` chunks at a time, however long the sound is. What lies beyond its ends is silence.
    """
    chunks = _Chunks(sound, layout, step=sample_rate // CLOCK_RATE)
    taken = iter(chunks)
    overlap = _Overlap(layout)
    while waiting := list(islice(taken, batch)):
        heard = hear(np.stack(waiting))
        first = overlap.done
        rows = np.concatenate([overlap.add(values) for values in heard])
        yield (rows[: chunks.steps - first] if chunks.steps else rows), first
    if chunks.steps > overlap.done:
        yield overlap.rest(chunks.steps - overlap.done), overlap.done


class _Chunks:
    """The chunks of some sound, and in the end how many steps it had."""

    def __init__(self, sound: Iterable[Sound], layout: Layout, *, step: int) -> None:
        self._sound, self._layout, self._step = sound, layout, step
        self.steps = 0
        """Known once the sound has ended; no chunk before that reaches beyond the end."""

    def __iter__(self) -> Iterator[FloatArray]:
        layout, step = self._layout, self._step
        size, hop = layout.chunk * step, layout.hop * step
        kept = np.zeros(layout.lead * step, dtype=np.float32)
        samples = count = 0
        for block in self._sound:
            if block.sample_rate != step * CLOCK_RATE:
                rate = step * CLOCK_RATE
                raise ValueError(
                    f"this model hears {rate} samples a second, not {block.sample_rate}"
                )
            samples += len(block)
            kept = np.concatenate([kept, block.values])
            while len(kept) >= size:
                yield kept[:size]
                kept, count = kept[hop:], count + 1
        self.steps = -(-samples // step)
        while self.steps and (count == 0 or (count - 1) * layout.hop + layout.rows < self.steps):
            yield np.pad(kept[:size], (0, max(0, size - len(kept))))
            kept, count = kept[hop:], count + 1


class _Overlap:
    """Averages the rows of chunks that overlap, and lets go of those no later chunk speaks of."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._total: FloatArray | None = None  # (rows, values), of steps from `done` on
        self._count = np.zeros(layout.rows, dtype=np.float32)
        self.done = 0
        """Steps given back so far."""

    def add(self, values: FloatArray) -> FloatArray:
        """Lay the next chunk's rows over those before; gives the steps up to the chunk after."""
        layout = self._layout
        values = np.repeat(values, layout.rows // len(values), axis=0)
        assert len(values) == layout.rows
        if self._total is None:
            self._total = np.zeros_like(values)
        self._total += values
        self._count += 1
        finished = self._total[: layout.hop] / self._count[: layout.hop, None]
        self._total = _shifted(self._total, layout.hop)
        self._count = _shifted(self._count, layout.hop)
        self.done += len(finished)
        return finished

    def rest(self, steps: int) -> FloatArray:
        """The `steps` after those given back; the last chunk speaks for them."""
        assert self._total is not None
        return self._total[:steps] / self._count[:steps, None]


def _shifted(values: FloatArray, places: int) -> FloatArray:
    """`values` without the first `places`, filled up with zeros."""
    moved = np.zeros_like(values)
    moved[: max(0, len(values) - places)] = values[places:]
    return moved
