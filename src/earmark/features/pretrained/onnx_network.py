"""Published models as ONNX files, for machines without PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from earmark.errors import ModelMismatch
from earmark.features.pretrained.network import NetworkOptions, WeightsFile
from earmark.models.onnx_session import open_session
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


@dataclass(frozen=True, slots=True, eq=False)
class OnnxNetwork:
    """A published model that was exported, run by ONNX Runtime."""

    session: Any
    output: str
    """Which of the file's outputs is read."""
    source: str
    """SHA-256 of the checkpoint it was made from."""

    @classmethod
    def open(cls, options: NetworkOptions, weights: WeightsFile) -> OnnxNetwork:
        """The network in the file; `ModelMismatch` unless it is the one that `options` describe."""
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
    """The card in the exported model that `session` has open; `ModelMismatch` where there is none.

    `file` and `name` are for the message.
    """
    try:
        return ExportCard.from_json(session.get_modelmeta().custom_metadata_map[CARD])
    except (KeyError, ValueError, TypeError) as error:
        raise ModelMismatch(
            f"{file.name} has no card of an exported encoder: {error}; "
            f"make one with `earmark encoder export {name} {file.name} --checkpoint FILE`"
        ) from error
