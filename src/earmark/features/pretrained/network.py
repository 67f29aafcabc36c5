"""What an open network is, how one is opened, and how a file of weights is told from another."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from earmark.timeline import FloatArray


class Network(Protocol):
    """A network that is open and ready to run; stays in its process."""

    @property
    def source(self) -> str:
        """SHA-256 of what was published or brought, whatever it was made into since."""
        ...

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """Posteriors or embeddings, `(chunks, rows, width)`, of `(chunks, samples)`."""
        ...


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """How a published network is opened and run."""

    name: str
    """In the catalogue."""
    has_head: bool
    """Whether posteriors are wanted; embeddings if not."""
    drop_layers: int
    """How many of a transformer's last layers are left out."""
    device: str
    is_half: bool
    """Whether it runs in half precision, spectra and posteriors aside."""
    threads: int | None


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of weights, known by what is in it."""

    file: Path = field(repr=False, compare=False)
    digest: str
    """SHA-256 of the file, so that another file under the same name is not taken for it."""

    @classmethod
    def of(cls, file: Path) -> WeightsFile:
        """Read `file` for its digest, once a process unless it changes."""
        facts = file.stat()
        return cls(file, _digest(file, facts.st_size, facts.st_mtime_ns))


@lru_cache(maxsize=16)
def _digest(file: Path, size_bytes: int, changed: int) -> str:  # noqa: ARG001 - the key's
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
