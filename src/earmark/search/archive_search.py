"""Search for moments in one run, or in all runs of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from earmark.errors import LedgerError
from earmark.evidence.evidence_entry import KINDS, SOUND_TRACK
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.run_reader import Run, find_runs
from earmark.ledger.schema import FILE, require_run
from earmark.ledger.text_index import SearchHit
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.reporting.edit_list import Clip, in_chapter
from earmark.search.meaning_index import MeaningIndex, Told
from earmark.timeline import Span

ORDER = ("caption", *KINDS, "tags")
"""Order in which the kinds of entries of a moment are listed."""

GATHERED = 8
"""Entries fetched per moment wanted, since several may describe the same moment."""


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

    @property
    def hit(self) -> SearchHit:
        """The entry that describes it best."""
        return self.hits[0]

    @property
    def chapters(self) -> tuple[tuple[str, float], ...]:
        """Files of the recording and the second each begins at; empty if it is one file."""
        return self.hit.chapters

    @property
    def telling(self) -> tuple[SearchHit, ...]:
        """The hits without tags of windows; only tags where there is nothing else."""
        without_tags = tuple(hit for hit in self.hits if hit.kind != "tags")
        return without_tags or self.hits

    @property
    def span(self) -> Span:
        """From the first start to the last end of `telling`."""
        every = [hit.span for hit in self.telling]
        return Span(min(span.start for span in every), max(span.end for span in every))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of entries that match: `caption`, then evidence; `tags` if there is no other."""
        return tuple(kind for kind in ORDER if any(hit.kind == kind for hit in self.telling))

    @property
    def clip(self) -> Clip:
        """It in the file that it begins in: the path, and the start and end in that file."""
        return in_chapter(Clip(self.hit.path, self.span.start, self.span.end), self.chapters)

    @property
    def rank(self) -> float:
        """Rank of the best match; lower is better."""
        return min(hit.rank for hit in self.hits)

    @property
    def thumbnail(self) -> bytes:
        """A picture of it as JPEG; empty if none was kept."""
        return next((hit.thumbnail for hit in self.hits if hit.thumbnail), b"")

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the picture: the moment, its best entry, and all entries."""
        hit, windows = self.hit, [each for each in self.hits if each.window is not None]
        return {
            "run": str(self.run),
            "recording": hit.recording,
            "path": hit.path,
            "window": windows[0].window if windows else None,
            "start": self.span.start,
            "end": self.span.end,
            "file": self.clip.path,
            "file_start": round(self.clip.start, 3),
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
                    "kind": each.kind,
                    "start": each.span.start,
                    "end": each.span.end,
                    "text": each.told,
                    "confidence": each.confidence,
                    "model": each.model or None,
                }
                for each in self.hits
            ],
        }


class Archive(AbstractContextManager["Archive"]):
    """The runs in a folder, kept open for repeated searches; close it when done."""

    def __init__(self, folder: Path) -> None:
        """Open the run in `folder`, or every run below it.

        Raises:
            LedgerError: There is no run, or none that can be opened.
        """
        self._open = ExitStack()
        places = [folder] if (folder / FILE).is_file() else find_runs(folder)
        if not places:
            require_run(folder)
        self.runs: list[Run] = []
        self.skipped: list[str] = []
        """Why runs could not be opened, one line each."""
        for place in places:
            try:
                self.runs.append(self._open.enter_context(Run(place)))
            except LedgerError as error:
                self.skipped.append(str(error))
        if not self.runs:
            raise LedgerError("; ".join(self.skipped))
        self._indexes: dict[Path, MeaningIndex] = {}

    def close(self, *_: object) -> None:
        """Close the runs."""
        self._open.close()

    __exit__ = close

    def search(
        self,
        words: str,
        *,
        most: int = 50,
        meaning: SentenceEncoder | None = None,
        told: Told | None = None,
        blur: FaceBlur | None = None,
    ) -> list[FoundMoment]:
        """Moments by words, or by meaning with an encoder; see the function `search`.

        The first search by meaning encodes every text and stores the vectors beside each run.
        """
        if meaning is None:
            found = search_words(self.runs, words, most=most)
        else:
            for run in self.runs:
                if run.folder not in self._indexes:
                    self._indexes[run.folder] = MeaningIndex.of(run, meaning, told=told)
            similar = (
                self._indexes[run.folder].search(run, words, most=GATHERED * most)
                for run in self.runs
            )
            found = _best_moments(self.runs, similar, most)
        return found if blur is None else [_blurred(one, blur) for one in found]


def search(
    folder: str | Path,
    words: str,
    *,
    most: int = 50,
    meaning: SentenceEncoder | None = None,
    told: Told | None = None,
    blur: FaceBlur | None = None,
) -> list[FoundMoment]:
    """Moments of the run in `folder`, or of the runs below it, that contain `words`.

    Args:
        folder: The folder of a run, or of an archive of runs.
        words: A caption or a piece of evidence must contain all of them.
        most: Highest number of moments.
        meaning: Search by meaning instead, with this encoder; see `SentenceEncoder.if_available`.
        told: Called with the texts encoded so far and in all, in the first search by meaning.
        blur: Blurs faces in the pictures, for runs that did not do so.

    Raises:
        LedgerError: There is no run, or none that can be opened.
    """
    with Archive(Path(folder)) as archive:
        return archive.search(words, most=most, meaning=meaning, told=told, blur=blur)


def search_words(runs: Sequence[Run], words: str, *, most: int) -> list[FoundMoment]:
    """Moments of `runs` with an entry that contains all of `words`, best match first."""
    return _best_moments(runs, (run.search(words, most=GATHERED * most) for run in runs), most)


def _best_moments(
    runs: Iterable[Run], hits: Iterable[Iterable[SearchHit]], most: int
) -> list[FoundMoment]:
    """The best moments, of the hits in each of `runs`."""
    pairs = zip(runs, hits, strict=True)
    found = (moment for run, own in pairs for moment in as_moments(run.folder, own))
    return sorted(found, key=lambda each: each.rank)[:most]


def as_moments(run: Path, hits: Iterable[SearchHit]) -> list[FoundMoment]:
    """The hits in `run` grouped into moments, by recording and time.

    Hits that overlap form one moment; so do hits with the same text in adjacent windows. A sound
    heard in a window is left out if the track of that sound is among the hits.
    """
    every = list(hits)
    tracks = {(hit.recording, hit.text) for hit in every if hit.model == SOUND_TRACK}
    groups: list[list[SearchHit]] = []
    end, recording, ends = 0.0, "", dict[tuple[str, str], float]()
    for hit in sorted(every, key=lambda hit: (hit.recording, hit.span)):
        is_window = hit.kind == "heard" and hit.model != SOUND_TRACK
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


def _blurred(found: FoundMoment, blur: FaceBlur) -> FoundMoment:
    hits = (replace(hit, thumbnail=blur.jpeg(hit.thumbnail)) for hit in found.hits)
    return replace(found, hits=tuple(hits))
