"""Recorded sounds by class, with their authors; split by author, so that no part shares one."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from earmark.errors import AnnotationError
from earmark.features.encoder import SAMPLE_RATE
from earmark.media import open_recording
from earmark.timeline import FloatArray

SHARES = {"train": 0.6, "dev": 0.2, "test": 0.2}

CELL = SAMPLE_RATE // 100
"""Samples over which the level of a clip is measured."""

QUIET = 0.05
"""Share of the loudest level of a clip below which its ends are cut off."""


def part_of(name: str) -> str:
    """The part of a source, by the hash of its name: the same in every split."""
    drawn = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    for part, share in SHARES.items():
        if drawn < share:
            return part
        drawn -= share
    return "test"


@dataclass(frozen=True, slots=True)
class Clip:
    path: Path
    label: str
    licence: str
    author: str
    title: str
    source: str

    @property
    def part(self) -> str:
        return part_of(self.author)


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """Clips of one part, decoded when they are first used; empty without recorded sounds."""

    clips: tuple[Clip, ...] = ()
    _samples: dict[Path, FloatArray] = field(default_factory=dict, repr=False)

    def of(self, labels: Iterable[str]) -> list[Clip]:
        wanted = set(labels)
        return [clip for clip in self.clips if clip.label in wanted]

    def samples(self, clip: Clip) -> FloatArray:
        """At 16 kHz, without the quiet at its ends; empty for a silent clip."""
        if clip.path not in self._samples:
            blocks = open_recording(clip.path).sound(sample_rate=SAMPLE_RATE)
            self._samples[clip.path] = trimmed(np.concatenate([block.values for block in blocks]))
        return self._samples[clip.path]


@cache
def read_library(data: Path | None, part: str) -> Library:
    """The clips of `open_sounds` in the folder `data`; empty if it is not there."""
    table = data / "open_sounds" / "sounds.csv" if data else None
    if table is None or not table.is_file():
        return Library()
    return Library(tuple(clip for clip in read_clips(table) if clip.part == part))


def read_clips(table: Path) -> list[Clip]:
    """The rows of a `sounds.csv`: file, class, licence, author, title, source."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        return [
            Clip(table.parent / row["file"], row["class"], row["licence"], row["author"],
                 row["title"], row["source"])
            for row in rows
        ]  # fmt: skip
    except KeyError as error:
        raise AnnotationError(f"{table} has no column {error}") from error


def trimmed(samples: FloatArray) -> FloatArray:
    cells = samples[: len(samples) // CELL * CELL].reshape(-1, CELL)
    loud = np.sqrt((cells**2).mean(axis=1))
    audible = np.flatnonzero(loud > QUIET * loud.max(initial=0.0))
    if not len(audible):
        return np.zeros(0, np.float32)
    kept: FloatArray = samples[audible[0] * CELL : (audible[-1] + 1) * CELL]
    return kept
