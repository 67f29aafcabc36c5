from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from earmark.errors import RunError
from earmark.evidence.evidence_entry import KINDS, TRACK
from earmark.evidence.face_blur import FaceBlur
from earmark.media.atomic_file import replacing
from earmark.media.source import name_of, place_of
from earmark.models.sentence_encoder import WIDTH, SentenceEncoder
from earmark.report.editing_formats import Clip, in_chapters
from earmark.run.run import Run, find_runs
from earmark.run.schema import FILE, require_run
from earmark.run.text_index import SearchableText, SearchHit
from earmark.text_format import Heading
from earmark.timeline import FloatArray, Span, format_clock
from earmark.wall_clock import time_of_day

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

MOST_TEXTS = 4
"""Most texts printed for each kind of evidence of a moment."""

ORDER = ("caption", *KINDS, "tags")

GATHERED = 8


@dataclass(frozen=True, slots=True)
class FoundMoment:
    """A moment that was found, its run, and all entries that describe it.

    tags       ├────┤    ├────┤      of picked windows: names of what is heard there
    heard        ├────────┤          a named sound, a caption or a text, from its start to its end
    moment       ├────────┤          tags count only where nothing else is found
    """

    run: Path
    hits: tuple[SearchHit, ...]
    """They overlap or follow each other; the best match first, tags last."""
    thumbnail: bytes = b""
    """Empty if none is stored."""

    @property
    def hit(self) -> SearchHit:
        return self.hits[0]

    @property
    def telling(self) -> tuple[SearchHit, ...]:
        without_tags = tuple(hit for hit in self.hits if hit.kind != "tags")
        return without_tags or self.hits

    @property
    def span(self) -> Span:
        spans = [hit.span for hit in self.telling]
        return Span(min(span.start for span in spans), max(span.end for span in spans))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind in ORDER if any(hit.kind == kind for hit in self.telling))

    @property
    def clips(self) -> list[Clip]:
        """In its file, or in each chapter that it touches."""
        return in_chapters(Clip(self.hit.path, self.span.start, self.span.end), self.hit.chapters)

    @property
    def rank(self) -> float:
        return min(hit.rank for hit in self.hits)

    @property
    def clock(self) -> str:
        """Date and time of day at which it begins; empty if that is not known."""
        return time_of_day(self.hit.began, self.span.start, date=True)

    def lines(self) -> Iterator[str]:
        """The recording and time, and the matching texts by kind of evidence."""
        span = f"{format_clock(self.span.start)} - {format_clock(self.span.end)}"
        day = f"  ({self.clock})" if self.clock else ""
        yield Heading(f"{place_of(self.hit.path)}  {span}{day}")
        for clip in self.clips if self.hit.chapters else ():
            times = f"{format_clock(clip.start)} - {format_clock(clip.end)}"
            yield f"  in {place_of(name_of(clip.path))}: {times}"
        for kind in self.kinds:
            texts = list(dict.fromkeys(_text(hit) for hit in self.telling if hit.kind == kind))
            more = [f"… and {len(texts) - MOST_TEXTS} more"] if len(texts) > MOST_TEXTS else []
            line = "; ".join(texts[:MOST_TEXTS] + more)
            yield f"  {'heard' if kind == 'tags' else kind}: {line}"

    def to_json(self) -> dict[str, Any]:
        hit, windows = self.hit, [hit for hit in self.hits if hit.window is not None]
        return {
            "run": str(self.run),
            "recording": hit.recording,
            "path": hit.path,
            "window": windows[0].window if windows else None,
            "start": self.span.start,
            "end": self.span.end,
            "clock": self.clock or None,
            "file": self.clips[0].path,
            "file_start": round(self.clips[0].start, 3),
            "kinds": list(self.kinds),
            "kind": hit.kind,
            "text": hit.told,
            "confidence": hit.confidence,
            "caption": hit.caption or None,
            "tags": list(windows[0].tags if windows else ()),
            "model": hit.model or None,
            "rank": round(self.rank, 4),
            "entries": [
                {
                    "kind": entry.kind,
                    "start": entry.span.start,
                    "end": entry.span.end,
                    "text": entry.told,
                    "confidence": entry.confidence,
                    "model": entry.model or None,
                }
                for entry in self.hits
            ],
        }


def _text(hit: SearchHit) -> str:
    """The text of one entry; for evidence with its confidence and model."""
    model = hit.model.removesuffix(" track")  # marks sounds of the whole recording, not of a window
    return f"{hit.text} ({hit.confidence:.2f}, {model})" if hit.text else hit.told


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
    ) -> list[FoundMoment]:
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

    def _thumbnail(self, moment: FoundMoment) -> bytes:
        run = next(run for run in self.runs if run.folder == moment.run)
        pictures = (run.thumbnail(hit.recording, hit.span) for hit in moment.hits)
        return next(filter(None, pictures), b"")


def search(
    folder: str | Path,
    words: str,
    *,
    most: int = 50,
    meaning: SentenceEncoder | None = None,
    told: Told | None = None,
    blur: FaceBlur | None = None,
) -> list[FoundMoment]:
    """Moments of the run in `folder`, or of the runs below it, that contain all of `words`.

    With the encoder `meaning`, by meaning instead; `told` is called with the texts encoded so far
    and in all. `blur` hides faces in pictures of runs that did not do so.
    """
    with Archive(Path(folder), blur=blur) as archive:
        return archive.search(words, most=most, meaning=meaning, told=told)


def search_words(runs: Sequence[Run], words: str, *, most: int) -> list[FoundMoment]:
    return _best_moments(runs, (run.search(words, most=GATHERED * most) for run in runs), most)


def _best_moments(
    runs: Iterable[Run], hits: Iterable[Iterable[SearchHit]], most: int
) -> list[FoundMoment]:
    pairs = zip(runs, hits, strict=True)
    moments = (moment for run, own in pairs for moment in as_moments(run.folder, own))
    return sorted(moments, key=lambda moment: moment.rank)[:most]


def as_moments(run: Path, hits: Iterable[SearchHit]) -> list[FoundMoment]:
    """Hits that overlap form one moment; so do hits with the same text in adjacent windows.

    A sound heard in a window is left out if the track of that sound is among the hits.
    """
    hits = list(hits)
    tracks = {(hit.recording, hit.text) for hit in hits if hit.model.endswith(TRACK)}
    groups: list[list[SearchHit]] = []
    end, recording, ends = 0.0, "", dict[tuple[str, str], float]()
    for hit in sorted(hits, key=lambda hit: (hit.recording, hit.span)):
        is_window = hit.kind == "heard" and not hit.model.endswith(TRACK)
        if is_window and (hit.recording, hit.text) in tracks:
            continue
        kind_and_text = hit.kind, hit.told
        goes_on = hit.span.start < end or ends.get(kind_and_text, -1.0) >= hit.span.start
        if hit.recording != recording or not goes_on:
            groups.append([])
            end, recording, ends = 0.0, hit.recording, {}
        groups[-1].append(hit)
        end, ends[kind_and_text] = max(end, hit.span.end), hit.span.end
    return [
        FoundMoment(run, tuple(sorted(group, key=lambda hit: (hit.kind == "tags", hit.rank))))
        for group in groups
    ]
