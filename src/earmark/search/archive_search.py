from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tokenize import TokenError

import numpy as np

from earmark.errors import RunError
from earmark.evidence.face_blur import FaceBlur
from earmark.media.atomic_file import replacing
from earmark.models.sentence_encoder import WIDTH, SentenceEncoder
from earmark.report.moments import Moment, Pictures, Reason, group_moments, join_reasons
from earmark.run.run import Run, find_runs
from earmark.run.schema import FILE, require_run
from earmark.run.text_index import SearchableText, SearchHit
from earmark.timeline import FloatArray

logger = logging.getLogger(__name__)

VECTORS = "meaning.npy"
"""Beside the run's database; if it is deleted, the next search encodes all texts again."""

DIGEST = 16

ROW = np.dtype([("text", np.void, DIGEST), ("vector", np.float32, WIDTH)])

LEAST = 0.4
"""Cosine; two unrelated sentences have about 0.1."""

ENCODED_TOGETHER = 1024

Told = Callable[[int, int], None]
"""Texts encoded so far, and in all."""

GATHERED = 8


NEIGHBOURS = 30.0
"""Seconds between moments that say the same and are listed as one."""


@dataclass(slots=True, eq=False)
class MeaningIndex:
    """Sentence vectors of all texts of a run, stored beside the run and extended as it grows.

    Each distinct text has one vector. A query is compared with all of them: even for 200,000 texts
    this is one exact product of a matrix and a vector, so no approximate index is needed.
    """

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
        vectors = _vectors(texts, run.folder / VECTORS, encoder, told)
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
    stored = _read(path)
    digests = [hashlib.sha256(text.encode()).digest()[:DIGEST] for text in texts]
    rows = np.zeros(len(texts), dtype=ROW)
    rows["text"] = np.frombuffer(b"".join(digests), dtype=(np.void, DIGEST))
    indices = {bytes(name): index for index, name in enumerate(stored["text"])}
    sources = np.array([indices.get(digest, -1) for digest in digests], dtype=np.intp)
    rows["vector"][sources >= 0] = stored["vector"][sources[sources >= 0]]
    missing = np.flatnonzero(sources < 0)
    for first in range(0, len(missing), ENCODED_TOGETHER):
        batch = missing[first : first + ENCODED_TOGETHER]
        rows["vector"][batch] = encoder([texts[index] for index in batch])
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


class Archive(AbstractContextManager["Archive"]):
    def __init__(self, folder: Path, *, blur: FaceBlur | None = None) -> None:
        self._open = ExitStack()
        folders = [folder] if (folder / FILE).is_file() else find_runs(folder)
        if not folders:
            require_run(folder)
        self.runs: list[Run] = []
        self.skipped: list[str] = []
        for run_folder in folders:
            try:
                self.runs.append(self._open.enter_context(Run(run_folder, blur=blur)))
            except RunError as error:
                self.skipped.append(str(error))
        if not self.runs:
            raise RunError("; ".join(self.skipped))
        self._indexes: dict[Path, MeaningIndex] = {}

    def close(self, *_: object) -> None:
        self._open.close()

    __exit__ = close

    def search(
        self,
        words: str,
        *,
        most: int = 50,
        meaning: SentenceEncoder | None = None,
        told: Told | None = None,
    ) -> list[Moment]:
        """The first search by meaning encodes every text and stores the vectors beside each run."""
        if meaning is None:
            moments = search_words(self.runs, words, most=most)
        else:
            for run in self.runs:
                if run.folder not in self._indexes:
                    self._indexes[run.folder] = MeaningIndex.of(run, meaning, told=told)
            similar = (
                self._indexes[run.folder].search(run, words, most=GATHERED * most)
                for run in self.runs
            )
            moments = _best_moments(self.runs, similar, most)
        return [replace(moment, thumbnail=self._thumbnail(moment)) for moment in moments]

    def _thumbnail(self, moment: Moment) -> bytes:
        run = next(run for run in self.runs if str(run.folder) == moment.run)
        return run.thumbnail(moment.recording, moment.picture) if moment.picture else b""


def search(
    folder: str | Path,
    words: str,
    *,
    most: int = 50,
    meaning: SentenceEncoder | None = None,
    told: Told | None = None,
    blur: FaceBlur | None = None,
) -> list[Moment]:
    """Moments of the run in `folder`, or of the runs below it, that contain all of `words`.

    With the encoder `meaning`, by meaning instead; `told` is called with the texts encoded so far
    and in all. `blur` hides faces in pictures of runs that did not do so.
    """
    with Archive(Path(folder), blur=blur) as archive:
        return archive.search(words, most=most, meaning=meaning, told=told)


def search_words(runs: Sequence[Run], words: str, *, most: int) -> list[Moment]:
    return _best_moments(runs, (run.search(words, most=GATHERED * most) for run in runs), most)


def _best_moments(
    runs: Iterable[Run], hits: Iterable[Iterable[SearchHit]], most: int
) -> list[Moment]:
    pairs = zip(runs, hits, strict=True)
    moments = [moment for run, own in pairs for moment in as_moments(run, own)]
    return group_moments(moments, gap=NEIGHBOURS)[:most]


def as_moments(run: Run, hits: Iterable[SearchHit]) -> Iterator[Moment]:
    """Hits that overlap form one moment; so do hits with the same text in adjacent windows."""
    ranks: dict[str, dict[Reason, float]] = {}
    for hit in hits:
        reason = Reason(hit.kind, hit.told, hit.span, hit.confidence, hit.model)
        own = ranks.setdefault(hit.recording, {})
        own[reason] = min(hit.rank, own.get(reason, hit.rank))
    pictures = Pictures(run)
    for recording, own in ranks.items():
        row = run.recording(recording)
        assert row is not None, "hits are of recordings that are present"
        for reasons in join_reasons(own):
            ordered = sorted(reasons, key=lambda each: (each.kind == "tags", own[each]))
            rank = min(own[reason] for reason in reasons)
            moment = Moment.of(row, *ordered, run=str(run.folder), rank=rank)
            yield replace(moment, picture=pictures.best(recording, moment.span))
