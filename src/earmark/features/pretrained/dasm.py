"""DASM (Cai et al., 2025): any sound that can be put into words, through a model of the user's.

Its weights need a second model to turn words into queries and come without a licence, so neither
is rebuilt here. What is here is the seam: a model that hears chunks and answers a list of queries,
from an ONNX file or from any function, becomes an encoder with one class a query.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.pretrained.chunk_encoder import ChunkEncoder, Listening, Weights
from earmark.features.pretrained.chunks import TEN_SECONDS, Layout
from earmark.features.pretrained.onnx_encoder import open_session
from earmark.features.pretrained.readout import Logits, Reading, max_pooled
from earmark.features.pretrained.vocabulary import read_names
from earmark.timeline import FloatArray

SAMPLE_RATE = 32_000
"""Samples a second that DASM listens at; an ONNX file may name another as `sample_rate`."""


class QueryModel(Protocol):
    """Hears chunks of ten seconds and says when each query is heard.

    Its `repr` tells it from other models, for what was heard is kept under it.
    """

    @property
    def sample_rate(self) -> int:
        """Samples a second that it hears; a multiple of 25."""
        ...

    def __call__(self, sound: FloatArray, queries: tuple[str, ...]) -> FloatArray:
        """Posteriors, `(chunks, queries, rows)`, of `(chunks, samples)`; any number of rows."""
        ...


@dataclass(frozen=True, slots=True)
class QueryEncoder(ChunkEncoder):
    """An open-vocabulary model as an encoder: its classes are the queries."""

    model: QueryModel
    queries: tuple[str, ...]
    reading: Reading
    listening: Listening
    layout: Layout = TEN_SECONDS

    @property
    def sample_rate(self) -> int:
        """Samples a second that the model hears."""
        return self.model.sample_rate

    @property
    def classes(self) -> tuple[str, ...]:
        """The queries."""
        return self.queries

    @property
    def width(self) -> int:
        """One value a query."""
        return len(self.queries)

    @property
    def source(self) -> str:
        """SHA-256 over the model and its queries, in their order."""
        return hashlib.sha256(repr((self.model, self.queries)).encode()).hexdigest()

    def hear(self, chunks: FloatArray) -> FloatArray:
        """Posteriors on the clock, `(chunks, 250, queries)`: the greatest within each step."""
        answer = np.asarray(self.model(chunks, self.queries))
        wanted = (len(chunks), len(self.queries))
        if answer.ndim != 3 or answer.shape[:2] != wanted or answer.shape[2] == 0:
            raise ModelMismatch(
                f"the model answers {answer.shape} to {wanted[0]} chunks and {wanted[1]} queries; "
                f"expected {wanted} and any number of rows"
            )
        if not (answer.min() >= 0.0 and answer.max() <= 1.0):
            raise ModelMismatch(
                f"the model answers {answer.min():g} to {answer.max():g}; posteriors are 0 to 1"
            )
        return max_pooled(answer.transpose(0, 2, 1).astype(np.float32), self.layout.rows)


def open_queries(
    model: QueryModel | Path,
    queries: Path,
    *,
    reading: Reading | None = None,
    listening: Listening | None = None,
) -> QueryEncoder:
    """The encoder of `model` for the queries in a text file, one a line.

    Args:
        model: A function, or an ONNX file whose input `sound` is `(chunks, samples)` and whose
            first output is `(chunks, queries, rows)` posteriors. If the file has a second input
            `queries`, `(queries, width)`, their embeddings are read from the array beside the
            text file: `kitchen.txt` and `kitchen.npy`.
        queries: The text file.
        reading: What is made of the posteriors; logits if None.
        listening: Batch and threads.

    Raises:
        ModelMismatch: A file is missing or does not fit.
    """
    names = read_names(queries)
    reading, listening = reading or Logits(), listening or Listening()
    if reading.output != "posteriors":
        raise ValueError(f"{reading} reads embeddings, and an open-vocabulary model has none")
    if isinstance(model, Path):
        model = OnnxQueries.open(model, queries.with_suffix(".npy"), len(names), listening.threads)
    return QueryEncoder(model, names, reading, listening)


@dataclass(frozen=True, slots=True)
class OnnxQueries:
    """An open-vocabulary model in an ONNX file."""

    weights: Weights
    embeddings: Weights | None
    """Of the queries; None where they are in the model."""
    sample_rate: int
    threads: int | None = field(repr=False)

    @classmethod
    def open(cls, file: Path, embeddings: Path, count: int, threads: int | None) -> OnnxQueries:
        """The model in `file`, with the embeddings of `count` queries if it asks for them."""
        if not file.is_file():
            raise ModelMismatch(f"there is no model at {file}")
        session = open_session(file, threads=threads)
        inputs = [entry.name for entry in session.get_inputs()]
        if inputs not in (["sound"], ["sound", "queries"]):
            raise ModelMismatch(f"{file.name} asks for {inputs}; expected `sound` and `queries`")
        metadata = session.get_modelmeta().custom_metadata_map
        rate = int(metadata.get("sample_rate", SAMPLE_RATE))
        held = None
        if len(inputs) == 2:
            array = _embeddings(embeddings)
            if len(array) != count:
                raise ModelMismatch(
                    f"{embeddings.name} embeds {len(array)} queries and the list names {count}"
                )
            held = Weights.of(embeddings)
        return cls(Weights.of(file), held, rate, threads)

    def __call__(
        self,
        sound: FloatArray,
        queries: tuple[str, ...],  # noqa: ARG002 - in the model already
    ) -> FloatArray:
        """Posteriors, `(chunks, queries, rows)`."""
        given = {"sound": sound}
        if self.embeddings is not None:
            given["queries"] = _embeddings(self.embeddings.file)
        session = _session(self.weights.file, self.weights.digest, self.threads)
        answer: FloatArray = session.run(None, given)[0]
        return answer


def _embeddings(file: Path) -> FloatArray:
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelMismatch(f"cannot read the embeddings of the queries: {error}") from error
    if array.ndim != 2:
        raise ModelMismatch(f"{file.name} is {array.shape}; expected (queries, width)")
    embedded: FloatArray = array.astype(np.float32)
    return embedded


@lru_cache(maxsize=1)
def _session(file: Path, digest: str, threads: int | None) -> Any:
    assert digest
    return open_session(file, threads=threads)
