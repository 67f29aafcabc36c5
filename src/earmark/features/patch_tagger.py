"""Encoders whose network classifies patches of sound, one around each cell of the clock.

sound    [----------|======== cell ========|----------]      one patch
clock               |. . . . . . . . . . . .|                steps that share its values
next                            [----------|======== cell ========|----------]
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from multiprocessing import current_process
from pathlib import Path
from typing import ClassVar

import numpy as np

from earmark.errors import ModelMissing
from earmark.features.encoder import SAMPLE_RATE, STEP, Piece, cut_cells
from earmark.features.sound_tags import SoundTagger
from earmark.media import Sound
from earmark.media.child_process import cores
from earmark.models import ModelStore
from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray, Track

PATCHES_PER_THREAD, MAX_THREADS = 8, 4


class PatchTagger(SoundTagger):
    __slots__ = ()

    name: ClassVar[str]
    """In the catalogue of models."""
    patch: ClassVar[int]
    """Samples."""
    onset: ClassVar[float]
    """Probability at which a named sound counts as heard: see experiments/naming-sounds.md."""
    cell: int
    """Steps of the clock that share one patch."""
    weights: Path | None
    store: Path | None

    @abstractmethod
    def _inputs(self, samples: FloatArray) -> FloatArray:
        """One input of the network per cell, `(cells, ...)`; `samples` include both margins."""

    @abstractmethod
    def _rows(self, inputs: FloatArray) -> FloatArray:
        """`(cells, width)`: the embedding if that is read, else logits."""

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        for piece in self._pieces(sound):
            rows = self._rows(self._inputs(piece.samples))
            if self.reads == "activity":
                rows = self._activity(1 / (1 + np.exp(-rows)))
            values = np.repeat(rows, self.cell, axis=0)[: piece.steps]
            yield Track(values, start=piece.first / CLOCK_RATE)

    def cell_logits(
        self, sound: Iterable[Sound], choose: Callable[[FloatArray], IndexArray]
    ) -> Iterator[tuple[int, int, IndexArray, FloatArray]]:
        """For each piece of `sound`: its first cell, its steps, the chosen cells and their logits.

        `choose` picks cells, given the samples of all cells of a piece, `(cells, samples)`.
        """
        width, margin = self.cell * STEP, self._margin
        waiting: deque[tuple[int, int, IndexArray, Iterator[FloatArray]]] = deque()
        with ThreadPoolExecutor(_threads()) as pool:
            for piece in self._pieces(sound):
                cells = piece.samples[margin : len(piece.samples) - (self.patch - width - margin)]
                chosen = choose(cells.reshape(-1, width))
                parts = min(_threads(), 1 + len(chosen) // PATCHES_PER_THREAD)
                inputs = self._inputs(piece.samples) if len(chosen) else np.zeros(0, np.float32)
                logits = pool.map(
                    self._rows, [inputs[own] for own in np.array_split(chosen, parts) if len(own)]
                )
                waiting.append((piece.first // self.cell, piece.steps, chosen, logits))
                if len(waiting) > 1:  # one is computed while the next is decoded
                    yield self._finish(*waiting.popleft())
            yield from starmap(self._finish, waiting)

    def _finish(
        self, first: int, steps: int, chosen: IndexArray, parts: Iterator[FloatArray]
    ) -> tuple[int, int, IndexArray, FloatArray]:
        none = np.zeros((0, len(self.classes)), np.float32)
        return first, steps, chosen, np.concatenate([none, *parts])

    @property
    def overhang(self) -> float:
        """Seconds of a patch outside its cell, by which the sounds of cells seem longer."""
        return max(0.0, (self.patch - self.cell * STEP) / SAMPLE_RATE)

    @property
    def _margin(self) -> int:
        return (self.patch - self.cell * STEP) // 2

    def _pieces(self, sound: Iterable[Sound]) -> Iterator[Piece]:
        after = self.patch - self.cell * STEP - self._margin
        return cut_cells(sound, before=self._margin, after=after, cell=self.cell)

    def _check_cell(self, most: int) -> None:
        if not 1 <= self.cell <= most:
            raise ValueError(f"a patch is shared by 1 to {most} steps, not {self.cell}")

    def _file(self) -> Path:
        if self.weights is None:
            return ModelStore.at(self.store).find(self.name)
        file = self.weights.expanduser()
        if not file.is_file():
            raise ModelMissing(f"there is no model at {file}")
        return file


def _threads() -> int:
    """1 in a worker process, since every core has a worker already."""
    return 1 if current_process().daemon else min(MAX_THREADS, cores())
