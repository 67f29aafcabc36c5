"""DASM (Cai et al., 2025): detects sounds described in words, with a model that the user provides.

Its weights need a second model to embed the words and have no licence, so neither is rebuilt here.
Here is the interface: a model that reads chunks and answers a list of queries, from an ONNX file or
from any function, becomes an encoder with one class per query.

earmark models add dasm model.onnx             the model
earmark models add dasm-queries kitchen.txt    what to listen for, one per line
earmark models add dasm-embeddings kitchen.npy      where the model asks for them
dasm:weights=model.onnx:queries=kitchen.txt    or all of it by path
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

import numpy as np

from earmark.errors import EarmarkError, ModelMismatch
from earmark.features.pretrained.chunk_encoder import ChunkEncoder
from earmark.features.pretrained.network import WeightsFile
from earmark.features.pretrained.vocabulary import read_names
from earmark.models import ModelStore
from earmark.models.catalogue import TEN_SECONDS
from earmark.models.onnx_session import open_session
from earmark.timeline import FloatArray

SAMPLE_RATE = 32_000
"""DASM's samples a second; the metadata of an ONNX file may set another `sample_rate`."""

Reads = Literal["logits", "activity"]


class QueryModel(Protocol):
    """Gives the posterior of each query over time in chunks of ten seconds.

    Its `repr` must identify the model: it is part of the key of cached features.
    """

    @property
    def sample_rate(self) -> int:
        """Samples a second of its input; a multiple of 25."""
        ...

    def __call__(self, sound: FloatArray, queries: tuple[str, ...], /) -> FloatArray:
        """Posteriors, `(chunks, queries, rows)`, of `(chunks, samples)`; any number of rows."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class QueryEncoder(ChunkEncoder):
    """DASM: an open-vocabulary model of the user, queried for the sounds in a text file.

    Its `repr`, the key of cached features, contains a hash of the files.
    """

    name = "dasm"
    excluded = ()
    """None: every query counts as activity."""

    reads: Reads = "logits"
    """The features: see `ChunkEncoder`."""
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    weights: str | None = None
    """The ONNX file; None takes `dasm.onnx` from the model store. Its input `sound` is `(chunks,
    samples)`, its first output `(chunks, queries, rows)` posteriors. If it has a second input
    `queries`, `(queries, width)`, their embeddings are read from the array beside the text file:
    `kitchen.txt` and `kitchen.npy`."""
    queries: str | None = None
    """The text file, one query a line; None takes `dasm.txt` from the model store."""
    store: str | None = None
    """The folder of the model store; None for the user's own."""
    expects: str | None = None
    """SHA-256 of the model and queries a gate was trained on; None takes any."""
    model: QueryModel | None = field(default=None, kw_only=True)
    """A function instead of the ONNX file."""

    def __post_init__(self) -> None:
        self._check(self.name, reads=get_args(Reads))

    def __repr__(self) -> str:
        try:
            held = self.network().source
        except EarmarkError:
            held = "absent"
        options = f"reads={self.reads!r}, threshold={self.threshold!r}"
        return f"{type(self).__name__}({options}, source={held})"

    @property
    def sample_rate(self) -> int:
        """Samples a second of the model's input."""
        return self.network().model.sample_rate

    @property
    def classes(self) -> tuple[str, ...]:
        """The queries, in the order of the file."""
        return read_names(self._file(self.queries, "dasm-queries"))

    def network(self) -> QueryNetwork:
        """The model with its queries, opened once per process unless a file changes."""
        if self.model is not None:
            return QueryNetwork(self.model, self.classes)
        model, queries = self._file(self.weights, "dasm"), self._file(self.queries, "dasm-queries")
        files = (model, queries, queries.with_suffix(".npy"))
        return _open(*files, tuple(WeightsFile.of(file) for file in files if file.is_file()))

    def _file(self, given: str | None, name: str) -> Path:
        if given is not None:
            return Path(given).expanduser()
        return ModelStore.at(self.store).find(name)

    def _weights_mismatch(self, found: str) -> str:  # noqa: ARG002 - says nothing to a person
        return (
            "this gate was trained on another dasm, or on other queries; name both with "
            "`:weights=FILE:queries=FILE`"
        )


@dataclass(frozen=True, slots=True, eq=False)
class QueryNetwork:
    """An open-vocabulary model with a fixed list of queries."""

    model: QueryModel
    queries: tuple[str, ...]

    @property
    def source(self) -> str:
        """SHA-256 over the model and its queries, in their order."""
        return hashlib.sha256(repr((self.model, self.queries)).encode()).hexdigest()

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """Posteriors on the clock, `(chunks, 250, queries)`: the maximum within each step."""
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
        return max_pooled(answer.transpose(0, 2, 1).astype(np.float32), TEN_SECONDS.rows)


def max_pooled(rows: FloatArray, steps: int) -> FloatArray:
    """The maximum of the rows that overlap each of `steps`, along the last axis but one.

    rows   a   b   c   d   e   f          steps  max(a,b)  max(b,c) ...
    """
    count = rows.shape[-2]
    edges = np.arange(steps + 1) * count
    spans = zip(edges[:-1] // steps, -(-edges[1:] // steps), strict=True)
    return np.stack([rows[..., first:end, :].max(axis=-2) for first, end in spans], axis=-2)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxQueries:
    """An open-vocabulary model in an ONNX file."""

    weights: WeightsFile
    embeddings: WeightsFile | None
    """Of the queries; None where they are in the model."""
    sample_rate: int
    session: Any = field(repr=False)

    @classmethod
    def open(cls, file: Path, embeddings: Path, count: int) -> OnnxQueries:
        """The model in `file`, and the embeddings of `count` queries if it takes them."""
        if not file.is_file():
            raise ModelMismatch(f"there is no model at {file}")
        session = open_session(file, threads=None)
        inputs = [entry.name for entry in session.get_inputs()]
        if inputs not in (["sound"], ["sound", "queries"]):
            raise ModelMismatch(f"{file.name} asks for {inputs}; expected `sound` and `queries`")
        rate = int(session.get_modelmeta().custom_metadata_map.get("sample_rate", SAMPLE_RATE))
        if len(inputs) == 1:
            return cls(WeightsFile.of(file), None, rate, session)
        held = len(read_embeddings(embeddings))
        if held != count:
            name = embeddings.name
            raise ModelMismatch(f"{name} embeds {held} queries and the list names {count}")
        return cls(WeightsFile.of(file), WeightsFile.of(embeddings), rate, session)

    def __call__(self, sound: FloatArray, _queries: tuple[str, ...], /) -> FloatArray:
        """Posteriors, `(chunks, queries, rows)`; the queries are in the model already."""
        given = {"sound": sound}
        if self.embeddings is not None:
            given["queries"] = read_embeddings(self.embeddings.file)
        return self.session.run(None, given)[0]


def read_embeddings(file: Path) -> FloatArray:
    """The embeddings of queries, `(queries, width)`; `ModelMismatch` if the file has none."""
    try:
        array = np.load(file, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ModelMismatch(f"cannot read the embeddings of the queries: {error}") from error
    if array.ndim != 2:
        raise ModelMismatch(f"{file.name} is {array.shape}; expected (queries, width)")
    return array.astype(np.float32)


@lru_cache(maxsize=1)
def _open(
    model: Path,
    queries: Path,
    embeddings: Path,
    held: tuple[WeightsFile, ...],  # noqa: ARG001 - the key's: a file that changed is opened anew
) -> QueryNetwork:
    names = read_names(queries)
    return QueryNetwork(OnnxQueries.open(model, embeddings, len(names)), names)
