from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from earmark.media import Meter, Recording, Sound
from earmark.timeline import CLOCK_RATE, FloatArray, Track

SAMPLE_RATE = 16_000

STEP = SAMPLE_RATE // CLOCK_RATE


class Encoder(Protocol):
    """Turns a recording into features on the 25 Hz clock.

    Yields consecutive tracks from time 0 without gaps, `ceil(duration * 25)` rows in all, every
    value finite. The rows do not depend on how the sound is cut into blocks. Memory does not grow
    with the length of the recording.
    """

    @property
    def channels(self) -> int: ...

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]: ...


class SoundEncoder(ABC):
    __slots__ = ()

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        return self.encode(recording.sound(sample_rate=self.sample_rate, meter=meter))

    @property
    def sample_rate(self) -> int:
        """A multiple of 25."""
        return SAMPLE_RATE

    @property
    def channels(self) -> int:
        return 1

    @abstractmethod
    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The blocks of `sound` follow each other from time 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    samples: FloatArray
    """Mono, `before + cells * width + after` of them; zeros beyond the ends of the recording."""
    steps: int
    first: int


def cut_cells(
    sound: Iterable[Sound], *, before: int = 0, after: int = 0, cell: int = 1
) -> Iterator[Piece]:
    """Pieces of whole cells of `cell` steps, with margins of `before` and `after` samples.

        samples   [before|  cell  |  cell  |  cell  |after]
        next                               [before|  cell  | ...

    The last cell is padded with zeros.
    """
    width, kept, first = cell * STEP, np.zeros(before, dtype=np.float32), 0
    for block in sound:
        kept = np.concatenate([kept, block.values])
        cells = (len(kept) - before - after) // width
        if cells > 0:
            yield Piece(kept[: before + cells * width + after], cells * cell, first)
            kept, first = kept[cells * width :], first + cells * cell
    steps = -(-(len(kept) - before) // STEP)
    if steps > 0:
        missing = before + -(-steps // cell) * width + after - len(kept)
        yield Piece(np.pad(kept, (0, missing)), steps, first)
