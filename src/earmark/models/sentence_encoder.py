"""Sentence embeddings of short texts: MiniLM in 8 bits (extra `search`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from earmark.errors import MissingExtra
from earmark.models.catalogue import MINILM
from earmark.models.model_store import ModelStore
from earmark.models.sessions import shared_session
from earmark.timeline import FloatArray

WIDTH = 384

MAX_TOKENS = 128

BATCH = 32
"""Texts, sorted by length, so that there is little padding."""


@dataclass(frozen=True, slots=True)
class SentenceEncoder:
    """Turns texts into unit vectors whose dot product is similarity of meaning; thread-safe."""

    store: ModelStore = field(default_factory=ModelStore)

    @classmethod
    def if_available(cls, store: ModelStore | None = None) -> SentenceEncoder | None:
        store = store or ModelStore()
        is_here = all(store.state(name) == "here" for name in MINILM)
        return cls(store) if is_here and find_spec("tokenizers") is not None else None

    def check(self) -> None:
        self._open()

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        """`(texts, WIDTH)`, float32; all 0 for an empty text."""
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        session, tokenizer = self._open()
        encodings = tokenizer.encode_batch([text[: 8 * MAX_TOKENS] for text in texts])
        order = [index for index, text in enumerate(texts) if text.strip()]
        order.sort(key=lambda index: len(encodings[index].ids))
        for first in range(0, len(order), BATCH):
            batch = order[first : first + BATCH]
            vectors[batch] = _embed(session, [encodings[index].ids for index in batch])
        return vectors

    def _open(self) -> tuple[Any, Any]:
        model, words = (self.store.find(name) for name in MINILM)
        return shared_session(model), _open_tokenizer(words)


def _embed(session: Any, rows: Sequence[Sequence[int]]) -> FloatArray:
    ids = np.zeros((len(rows), max(map(len, rows))), dtype=np.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = row
    mask = (np.arange(ids.shape[1]) < np.array([[len(row)] for row in rows])).astype(np.int64)
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    names = [node.name for node in session.get_inputs()]
    (tokens, *_) = session.run(None, {name: values[name] for name in names})
    sums = np.einsum("btw,bt->bw", tokens, mask.astype(np.float32))
    return np.asarray(sums / np.linalg.norm(sums, axis=1, keepdims=True), dtype=np.float32)


@cache
def _open_tokenizer(path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtra(
            "search by meaning needs tokenizers: pip install 'earmark[search]'"
        ) from error
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer
