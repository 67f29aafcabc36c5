"""DASM (Cai et al., 2025): detects sounds described in words, with a model that the user provides.

earmark models add dasm model.onnx                the model
earmark models add dasm-queries kitchen.txt       what to listen for, one per line
earmark models add dasm-embeddings kitchen.npy    if the model asks for them
dasm:weights=model.onnx:queries=kitchen.txt       or all of it by path
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from earmark.errors import EarmarkError, ModelMismatch
from earmark.features.sound_tags import read_names
from earmark.models import ModelStore
from earmark.models.sessions import open_session
from earmark.timeline import FloatArray
from earmark_lab.encoders.chunk_encoder import TEN_SECONDS, ChunkEncoder, WeightsFile

SAMPLE_RATE = 32_000
"""An ONNX file may set another `sample_rate` in its metadata."""

Reads = Literal["logits", "activity"]


@dataclass(frozen=True, slots=True, repr=False)
class QueryEncoder(ChunkEncoder):
    """DASM: an open-vocabulary model of the user, queried for the sounds in a text file.

    Its `repr`, the key of cached features, contains a hash of the files.
    """

    name = "dasm"
    excluded = ()

    reads: Reads = "logits"
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    weights: str | None = None
    """None takes `dasm.onnx` from the model store. Input `sound`, `(chunks, samples)`, and
    optionally `queries`, `(queries, width)`, read from `kitchen.npy` beside `kitchen.txt`; first
    output `(chunks, queries, rows)` posteriors."""
    queries: str | None = None
    """One query a line; None takes `dasm.txt` from the model store."""
    store: str | None = None
    """None for the user's own."""
    expects: str | None = None
    """SHA-256 of the model and queries a gate was trained on; None takes any."""

    def __post_init__(self) -> None:
        self._check(self.name, reads=get_args(Reads))

    def __repr__(self) -> str:
        try:
            source = self.network().source
        except EarmarkError:
            source = "absent"
        options = f"reads={self.reads!r}, threshold={self.threshold!r}"
        return f"{type(self).__name__}({options}, source={source})"

    @property
    def sample_rate(self) -> int:
        return self.network().sample_rate

    @property
    def classes(self) -> tuple[str, ...]:
        return read_names(self._file(self.queries, "dasm-queries"))

    def network(self) -> QueryNetwork:
        model, queries = self._file(self.weights, "dasm"), self._file(self.queries, "dasm-queries")
        files = (model, queries, queries.with_suffix(".npy"))
        return _open(*files, tuple(WeightsFile.of(file) for file in files if file.is_file()))

    def _file(self, path: str | None, name: str) -> Path:
        if path is not None:
            return Path(path).expanduser()
        return ModelStore.at(self.store).find(name)

    def _weights_mismatch(self, found: str) -> str:  # noqa: ARG002 - says nothing to a person
        return (
            "this gate was trained on another dasm, or on other queries; name both with "
            "`:weights=FILE:queries=FILE`"
        )


@dataclass(frozen=True, slots=True, eq=False)
class QueryNetwork:
    session: Any
    queries: tuple[str, ...]
    embeddings: FloatArray | None
    """`(queries, width)`; None if they are in the model."""
    sample_rate: int
    source: str
    """SHA-256 over the model and its queries, in their order."""

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """`(chunks, 250, queries)`: the maximum within each step."""
        inputs = {"sound": chunks}
        if self.embeddings is not None:
            inputs["queries"] = self.embeddings
        answer = np.asarray(self.session.run(None, inputs)[0])
        expected = (len(chunks), len(self.queries))
        if answer.ndim != 3 or answer.shape[:2] != expected or answer.shape[2] == 0:
            raise ModelMismatch(
                f"the model answers {answer.shape} to {expected[0]} chunks and {expected[1]} "
                f"queries; expected {expected} and any number of rows"
            )
        if not (answer.min() >= 0.0 and answer.max() <= 1.0):
            raise ModelMismatch(
                f"the model answers {answer.min():g} to {answer.max():g}; posteriors are 0 to 1"
            )
        return max_pooled(answer.transpose(0, 2, 1).astype(np.float32), TEN_SECONDS.rows)


@lru_cache(maxsize=1)
def _open(
    model: Path, queries: Path, embeddings: Path, files: tuple[WeightsFile, ...]
) -> QueryNetwork:
    names = read_names(queries)
    if not model.is_file():
        raise ModelMismatch(f"there is no model at {model}")
    session = open_session(model, threads=None)
    inputs = [entry.name for entry in session.get_inputs()]
    if inputs not in (["sound"], ["sound", "queries"]):
        raise ModelMismatch(f"{model.name} asks for {inputs}; expected `sound` and `queries`")
    rate = int(session.get_modelmeta().custom_metadata_map.get("sample_rate", SAMPLE_RATE))
    rows = read_embeddings(embeddings) if "queries" in inputs else None
    if rows is not None and len(rows) != len(names):
        raise ModelMismatch(
            f"{embeddings.name} embeds {len(rows)} queries and the list names {len(names)}"
        )
    parts = [file.digest for file in files if file.file == model or rows is not None]
    source = hashlib.sha256(repr((parts, rate, names)).encode()).hexdigest()
    return QueryNetwork(session, names, rows, rate, source)


def max_pooled(rows: FloatArray, steps: int) -> FloatArray:
    """Along the last axis but one.

    rows   a   b   c   d   e   f          steps  max(a,b)  max(b,c) ...
    """
    count = rows.shape[-2]
    edges = np.arange(steps + 1) * count
    spans = zip(edges[:-1] // steps, -(-edges[1:] // steps), strict=True)
    return np.stack([rows[..., first:end, :].max(axis=-2) for first, end in spans], axis=-2)


def read_embeddings(file: Path) -> FloatArray:
    """`(queries, width)`; `ModelMismatch` if the file has none."""
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelMismatch(f"cannot read the embeddings of the queries: {error}") from error
    if array.ndim != 2:
        raise ModelMismatch(f"{file.name} is {array.shape}; expected (queries, width)")
    return array.astype(np.float32)
