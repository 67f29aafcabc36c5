"""Sentence vectors of all texts of a run, stored beside the run and extended as it grows.

Each distinct text has one vector. A query is compared with all of them: even for 200,000 texts this
is one exact product of a matrix and a vector, so no approximate index is needed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tokenize import TokenError

import numpy as np

from earmark.media.atomic_file import replacing
from earmark.models.sentence_encoder import WIDTH, SentenceEncoder
from earmark.run.run import Run
from earmark.run.text_index import SearchableText, SearchHit
from earmark.timeline import FloatArray

logger = logging.getLogger(__name__)

FILE = "meaning.npy"
"""Beside the run's database; if it is deleted, the next search encodes all texts again."""

DIGEST = 16

ROW = np.dtype([("text", np.void, DIGEST), ("vector", np.float32, WIDTH)])

LEAST = 0.4
"""Cosine; two unrelated sentences have about 0.1."""

ENCODED_TOGETHER = 1024

Told = Callable[[int, int], None]


@dataclass(slots=True, eq=False)
class MeaningIndex:
    encoder: SentenceEncoder
    texts: list[str]
    places: list[list[SearchableText]]
    vectors: FloatArray = field(repr=False)
    """One row per text, of length 1."""

    @classmethod
    def of(cls, run: Run, encoder: SentenceEncoder, *, told: Told | None = None) -> MeaningIndex:
        places: dict[str, list[SearchableText]] = {}
        for text in run.searchable():
            if text.text.strip():
                places.setdefault(text.text, []).append(text)
        texts = list(places)
        vectors = _vectors(texts, run.folder / FILE, encoder, told)
        return cls(encoder, texts, list(places.values()), vectors)

    def search(self, run: Run, words: str, *, most: int = 50) -> list[SearchHit]:
        if not words.strip() or not self.texts:
            return []
        likeness = self.vectors @ self.encoder([words])[0]
        near = np.flatnonzero(likeness >= LEAST)
        near = near[np.argsort(-likeness[near], kind="stable")]
        hits = (
            run.hit_at(place, rank=-float(likeness[number]))
            for number in near.tolist()
            for place in self.places[number]
        )
        return list(islice(filter(None, hits), most))


def _vectors(
    texts: Sequence[str], path: Path, encoder: SentenceEncoder, told: Told | None
) -> FloatArray:
    known = _read(path)
    digests = [hashlib.sha256(text.encode()).digest()[:DIGEST] for text in texts]
    rows = np.zeros(len(texts), dtype=ROW)
    rows["text"] = np.frombuffer(b"".join(digests), dtype=(np.void, DIGEST))
    place_of = {bytes(name): place for place, name in enumerate(known["text"])}
    places = np.array([place_of.get(digest, -1) for digest in digests], dtype=np.intp)
    rows["vector"][places >= 0] = known["vector"][places[places >= 0]]
    missing = np.flatnonzero(places < 0)
    for first in range(0, len(missing), ENCODED_TOGETHER):
        batch = missing[first : first + ENCODED_TOGETHER]
        rows["vector"][batch] = encoder([texts[place] for place in batch])
        if told is not None:
            told(min(first + ENCODED_TOGETHER, len(missing)), len(missing))
    if len(missing):
        _write(path, rows)
    return np.ascontiguousarray(rows["vector"])


def _read(path: Path) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    try:
        with path.open("rb") as file:
            rows = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, TokenError):  # not there or not readable, or damaged
        return np.zeros(0, dtype=ROW)
    return rows if rows.dtype == ROW else np.zeros(0, dtype=ROW)


def _write(path: Path, rows: np.ndarray[tuple[int], np.dtype[np.void]]) -> None:
    try:
        with replacing(path) as scratch, scratch.open("wb") as file:
            np.save(file, rows)
    except OSError as error:  # a run on a read-only medium can still be searched
        logger.info("text embeddings cannot be cached in %s: %s", path, error)
