from __future__ import annotations

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from importlib import resources
from itertools import starmap
from multiprocessing import current_process
from pathlib import Path
from typing import ClassVar

import numpy as np

from earmark.errors import ModelMismatch, ModelMissing
from earmark.features.encoder import SAMPLE_RATE, STEP, Piece, SoundEncoder, cut_cells
from earmark.media import Meter, Recording, Sound
from earmark.media.child_process import cores
from earmark.models import ModelStore
from earmark.timeline import CLOCK_RATE, FloatArray, IndexArray, Span, Track

VOCABULARIES = {"audioset-strong": 447, "audioset": 527, "epic-sounds": 44}

BACKGROUND = "Silence"
"""The first of the last AudioSet classes, which name rooms, noise and the recording itself."""

MAX_TAGS = 3
MIN_PROBABILITY = 0.2
_MIN_LOGIT = math.log(MIN_PROBABILITY / (1 - MIN_PROBABILITY))


@cache
def class_names(vocabulary: str) -> tuple[str, ...]:
    if vocabulary not in VOCABULARIES:
        raise ValueError(f"no class list {vocabulary!r}; there are {', '.join(VOCABULARIES)}")
    names = _lines(f"{vocabulary}.txt")
    assert len(names) == VOCABULARIES[vocabulary]
    return names


@cache
def not_manipulation() -> frozenset[str]:
    """Classes that hands do not cause: voices, animals, music, traffic."""
    return frozenset(_lines("not-manipulation.txt"))


def read_names(path: Path) -> tuple[str, ...]:
    """One per line; empty lines and lines that start with # are skipped."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelMismatch(f"cannot read the names in {path}: {error}") from error
    names = _names(text)
    twice = sorted({name for name in names if names.count(name) > 1})
    if not names or twice:
        what = f"names {twice[0]!r} twice" if twice else "names nothing"
        raise ModelMismatch(f"{path.name} {what}; write one name a line, each once")
    return names


def _lines(file: str) -> tuple[str, ...]:
    folder = resources.files("earmark.features")
    return _names(folder.joinpath(file).read_text(encoding="utf-8"))


def _names(text: str) -> tuple[str, ...]:
    lines = (line.strip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.startswith("#"))


def likeliest_names(logits: FloatArray, names: Sequence[str]) -> tuple[str, ...]:
    """By decreasing logit; background and unlikely classes left out."""
    count = names.index(BACKGROUND) if BACKGROUND in names else len(names)
    likeliest = np.argsort(-logits[:count], kind="stable")[:MAX_TAGS].tolist()
    return tuple(names[number] for number in likeliest if logits[number] >= _MIN_LOGIT)


class SoundTagger(SoundEncoder):
    """An encoder whose classes have names.

    Its option `reads` chooses `logits`, one class per channel, or `activity`: the highest posterior
    of any class that hands can cause; 0 if it is below `threshold`.
    """

    __slots__ = ()

    reads: str
    threshold: float
    excluded: tuple[str, ...] | None = None
    """None for the documented list."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]: ...

    def tags(self, recording: Recording, spans: Sequence[Span]) -> list[tuple[str, ...]]:
        """Likeliest first, by the maximum over each span; the recording is decoded once."""
        listener = replace(self, reads="logits", threshold=0.0)  # type: ignore[type-var]
        best = np.full((len(spans), len(self.classes)), -np.inf, dtype=np.float32)
        for track in listener(recording, meter=Meter()):
            for number, span in enumerate(spans):
                first = max(0, int((span.start - track.start) / track.hop + 1e-6))
                last = max(0, int(np.ceil((span.end - track.start) / track.hop - 1e-6)))
                inside = track.values[first:last]  # the rows that touch the span
                if len(inside):
                    best[number] = np.maximum(best[number], inside.max(axis=0))
        return [likeliest_names(row, self.classes) for row in best]

    def _activity(self, posteriors: FloatArray) -> FloatArray:
        excluded = not_manipulation() if self.excluded is None else frozenset(self.excluded)
        included = np.flatnonzero([name not in excluded for name in self.classes])
        if len(included) == 0:
            count = len(self.classes)
            raise ValueError(f"all {count} classes are excluded, so nothing is left to detect")
        most = posteriors[:, included].max(axis=1)
        return np.where(most >= self.threshold, most, 0.0).astype(np.float32)

    def _check(self, name: str, *, reads: tuple[str, ...]) -> None:
        if self.reads not in reads:
            words = f"{', '.join(reads[:-1])} or {reads[-1]}"
            raise ValueError(f"{name} reads {words}, not {self.reads!r}")
        if self.threshold and self.reads != "activity":
            raise ValueError(f"{name} has a threshold for its activity and for nothing else")
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold on posteriors is 0 to 1, not {self.threshold}")


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
