"""Encoders over published models: chunk by chunk, onto the 25 Hz clock."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from earmark.features.encoder import SoundEncoder, as_track
from earmark.features.pretrained.chunks import Layout, hear_in_chunks
from earmark.features.pretrained.readout import Reading
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

    @property
    @abstractmethod
    def source(self) -> str:
        """SHA-256 of what was published or brought, whatever it was made into since."""

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
        """Read `file` for its digest, once a process unless it changes."""
        facts = file.stat()
        return cls(file, _digest(file, facts.st_size, facts.st_mtime_ns))


@dataclass(frozen=True, slots=True)
class Listening:
    """How a model is run; none of it changes what is heard but for the precision of a device."""

    batch: int = field(default=4, repr=False)
    """Chunks at a time: memory against overhead."""
    threads: int | None = field(default=None, repr=False)
    """For a CPU; None leaves it to the library."""
    device: str = "cpu"
    """Where PyTorch runs the network: `cuda` and its like."""
    half: bool | None = None
    """Whether the network runs in half precision, spectra and posteriors aside; None for on an
    accelerator and not on a CPU."""

    @property
    def is_half(self) -> bool:
        """Whether the network runs in half precision."""
        on_cpu = self.device.partition(":")[0] == "cpu"
        return not on_cpu if self.half is None else self.half

    def __post_init__(self) -> None:
        if self.batch < 1 or (self.threads is not None and self.threads < 1):
            raise ValueError(
                f"a model hears at least one chunk at a time on one thread, not {self.batch} on "
                f"{self.threads}"
            )


@lru_cache(maxsize=16)
def _digest(file: Path, size_bytes: int, changed: int) -> str:  # noqa: ARG001 - the key's
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
