"""What an open network is, how one is opened, and those exported to ONNX files.

These are for machines without PyTorch; see `checkpoint` for the others.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from earmark.errors import ModelMismatch
from earmark.models.onnx_session import open_session
from earmark.timeline import FloatArray

CARD = "earmark.encoder"
"""The key of the card in the metadata of the file."""

VERSION = 1


class Network(Protocol):
    """A network ready to run; it is not sent to other processes."""

    @property
    def source(self) -> str:
        """SHA-256 of the original file, also after an export."""
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
    """Number of the transformer's last layers that are left out."""
    device: str
    is_half: bool
    """Whether it runs in half precision, except spectra and posteriors."""
    threads: int | None


@dataclass(frozen=True, slots=True)
class WeightsFile:
    """A file of weights, identified by its content."""

    file: Path = field(repr=False, compare=False)
    digest: str
    """SHA-256 of the file, so that a changed file is noticed."""

    @classmethod
    def of(cls, file: Path) -> WeightsFile:
        """The file with its digest, which is computed once per process unless it changes."""
        facts = file.stat()
        return cls(file, _digest(file, facts.st_size, facts.st_mtime_ns))


@lru_cache(maxsize=16)
def _digest(file: Path, size_bytes: int, changed: int) -> str:  # noqa: ARG001 - the key's
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ExportCard:
    """The description of an exported model, stored inside its file."""

    name: str
    """Of the published model."""
    source_sha256: str
    """Of the checkpoint it was made from."""
    drop_layers: int
    """Layers of the transformer that were left out; above 0, its posteriors are meaningless."""
    sample_rate: int
    samples: int
    """In one chunk."""
    width: int
    """Values in each row beneath the head."""
    classes: tuple[str, ...]
    version: int = VERSION

    def to_json(self) -> str:
        """The card as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ExportCard:
        """The card that `to_json` wrote; `ValueError` for anything else."""
        held = json.loads(text)
        if not isinstance(held, dict) or held.get("version") != VERSION:
            raise ValueError("the card is of another version")
        return cls(**{**held, "classes": tuple(held["classes"])})


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNetwork:
    """An exported model, run by ONNX Runtime."""

    session: Any
    output: str
    """The output of the file that is read."""
    source: str
    """SHA-256 of the checkpoint it was made from."""

    @classmethod
    def open(cls, options: NetworkOptions, weights: WeightsFile) -> OnnxNetwork:
        """The network in the file; `ModelMismatch` unless it matches `options`."""
        file, name = weights.file, options.name
        session = open_session(file, threads=options.threads)
        card = read_card(session, file, name)
        if card.name != name:
            raise ModelMismatch(f"{file.name} is {card.name} and not {name}")
        if card.drop_layers != options.drop_layers:
            raise ModelMismatch(
                f"{file.name} was exported without its last {card.drop_layers} layers, and "
                f"this encoder reads it without {options.drop_layers}; export it again"
            )
        output = "posteriors" if options.has_head else "embeddings"
        return cls(session, output, card.source_sha256)

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """Posteriors or embeddings, `(chunks, rows, width)`, of `(chunks, samples)`."""
        return self.session.run([self.output], {"sound": chunks})[0]


def read_card(session: Any, file: Path, name: str) -> ExportCard:
    """The card of the exported model in `session`; `ModelMismatch` if it has none.

    `file` and `name` are used in the message.
    """
    try:
        return ExportCard.from_json(session.get_modelmeta().custom_metadata_map[CARD])
    except (KeyError, ValueError, TypeError) as error:
        raise ModelMismatch(
            f"{file.name} has no card of an exported encoder: {error}; "
            f"make one with `earmark encoder export {name} {file.name} --checkpoint FILE`"
        ) from error
