"""Cuts sound into overlapping chunks and lays what was heard in them onto one clock.

sound    ├────────────────────────────────────────┤
chunk 0  ├──────────────────┤                          10 s
chunk 1            ├──────────────────┤                5 s later
chunk 2                      ├──────────────────┤
rows     │ 0       │ (0+1)/2 │ (1+2)/2 │ 2      ┊       each moment once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from earmark.media import Sound
from earmark.models.architecture import Layout
from earmark.timeline import CLOCK_RATE, FloatArray

Hearing = Callable[[FloatArray], FloatArray]
"""`(chunks, samples)` to `(chunks, rows, values)`."""


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
        values = np.repeat(values[: layout.rows], max(1, layout.rows // len(values)), axis=0)
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
