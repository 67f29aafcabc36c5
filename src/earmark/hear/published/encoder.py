"""Encoders over published models: chunk by chunk, onto the 25 Hz clock."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from earmark.hear.encoder import SoundEncoder, as_track
from earmark.hear.published.chunks import Layout, hear_in_chunks
from earmark.hear.published.reading import Reading
from earmark.media import Sound
from earmark.timeline import FloatArray, Track


class ChunkEncoder(SoundEncoder):
    """An encoder that hears overlapping chunks; the same rows however many at once."""

    __slots__ = ()

    reading: Reading
    layout: Layout
    listening: Listening

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the posteriors."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Values in each row that `hear` gives."""

    @abstractmethod
    def hear(self, chunks: FloatArray) -> FloatArray:
        """The rows that `reading` reads, `(chunks, rows, width)`, of `(chunks, samples)`."""

    @property
    def channels(self) -> int:
        """Values in each row of features."""
        return self.reading.channels(self.width)

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0."""
        heard = hear_in_chunks(
            sound,
            self.hear,
            layout=self.layout,
            sample_rate=self.sample_rate,
            batch=self.listening.batch,
        )
        for rows, first in heard:
            yield as_track(self.reading(rows, self.classes), first)


@dataclass(frozen=True, slots=True)
class Weights:
    """A file of weights, known by what is in it."""

    file: Path = field(repr=False, compare=False)
    digest: str
    """SHA-256 of the file, so that another file under the same name is not taken for it."""

    @classmethod
    def of(cls, file: Path) -> Weights:
        """Read `file` once for its digest."""
        with file.open("rb") as opened:
            return cls(file, hashlib.file_digest(opened, "sha256").hexdigest())


@dataclass(frozen=True, slots=True)
class Listening:
    """How a model is run; none of it changes what is heard but for the precision of a device."""

    batch: int = field(default=4, repr=False)
    """Chunks at a time: memory against overhead."""
    threads: int | None = field(default=None, repr=False)
    """For a CPU; None leaves it to the library."""
    device: str = "cpu"
    """`cuda` and its like run in half precision, spectra aside."""

    def __post_init__(self) -> None:
        if self.batch < 1 or (self.threads is not None and self.threads < 1):
            raise ValueError(f"needs at least one chunk and one thread at a time, not {self}")
