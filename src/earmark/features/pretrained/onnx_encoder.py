"""Published models as ONNX files, for machines without PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from earmark.errors import ModelMismatch
from earmark.features.pretrained.chunk_encoder import ChunkEncoder, Listening, Weights
from earmark.features.pretrained.chunks import Layout
from earmark.features.pretrained.readout import Reading
from earmark.timeline import FloatArray

CARD = "earmark.encoder"
"""Where in the file's metadata the card is."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class ExportCard:
    """What an exported model is, kept inside it."""

    name: str
    """Of the published model."""
    source_sha256: str
    """Of the checkpoint it was made from."""
    drop_layers: int
    """Layers of the transformer that were left out; its posteriors then mean nothing."""
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
        """The card that `to_json` wrote; `ValueError` if it is another thing."""
        held = json.loads(text)
        if not isinstance(held, dict) or held.get("version") != VERSION:
            raise ValueError("the card is of another version")
        return cls(**{**held, "classes": tuple(held["classes"])})


@dataclass(frozen=True, slots=True)
class ExportedEncoder(ChunkEncoder):
    """A published model, run by ONNX Runtime."""

    name: str
    weights: Weights
    card: ExportCard
    reading: Reading
    layout: Layout
    listening: Listening

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model was trained at."""
        return self.card.sample_rate

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes, in the order of the posteriors."""
        return self.card.classes

    @property
    def width(self) -> int:
        """Values in each row that is read."""
        return len(self.classes) if self.reading.output == "posteriors" else self.card.width

    @property
    def source(self) -> str:
        """SHA-256 of the checkpoint it was made from."""
        return self.card.source_sha256

    def hear(self, chunks: FloatArray) -> FloatArray:
        """The rows that `reading` reads, `(chunks, rows, width)`, of `(chunks, samples)`."""
        session = _session(self.weights.file, self.weights.digest, self.listening.threads)
        heard: FloatArray = session.run([self.reading.output], {"sound": chunks})[0]
        return heard


def read_card(file: Path, *, name: str, reading: Reading) -> ExportCard:
    """The card in an exported model.

    Raises:
        ModelMismatch: The file is none, is not of `name`, or cannot be read as `reading` wants.
    """
    try:
        metadata = open_session(file, threads=1).get_modelmeta().custom_metadata_map
        card = ExportCard.from_json(metadata[CARD])
    except (KeyError, ValueError, TypeError) as error:
        raise ModelMismatch(
            f"{file.name} has no card of an exported encoder: {error}; "
            f"make one with `earmark encoder export {name} {file.name} --checkpoint FILE`"
        ) from error
    if card.name != name:
        raise ModelMismatch(f"{file.name} is {card.name} and not {name}")
    if card.drop_layers != reading.drop_layers:
        raise ModelMismatch(
            f"{file.name} was exported without its last {card.drop_layers} layers, and "
            f"{reading} reads it without {reading.drop_layers}; export it again"
        )
    return card


def open_session(file: Path, *, threads: int | None) -> Any:
    """An ONNX Runtime session of `file`; `ModelMismatch` where there is none in it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's own have no common parent but this
        reason = str(error).split("\n", 1)[0][:200]
        raise ModelMismatch(f"{file.name} is cut off or no ONNX model: {reason}") from error


@lru_cache(maxsize=1)
def _session(file: Path, digest: str, threads: int | None) -> Any:
    assert digest
    return open_session(file, threads=threads)
