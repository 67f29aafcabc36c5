"""Finding moments in one run, or in every run of an archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from earmark.errors import LedgerError
from earmark.evidence.evidence_entry import SOUND_TRACK
from earmark.evidence.face_blur import FaceBlur
from earmark.ledger.run_reader import Run, find_runs
from earmark.ledger.schema import FILE
from earmark.ledger.text_index import SearchHit
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.search.meaning_index import MeaningIndex, Told


@dataclass(frozen=True, slots=True)
class FoundMoment:
    """A moment that was found, and in which run."""

    run: Path
    hit: SearchHit

    @property
    def text(self) -> str:
        """What it says of itself."""
        return self.hit.text or self.hit.caption or ", ".join(self.hit.tags)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the picture."""
        hit = self.hit
        return {
            "run": str(self.run),
            "recording": hit.recording,
            "path": hit.path,
            "window": hit.window,
            "start": hit.span.start,
            "end": hit.span.end,
            "kind": hit.kind,
            "text": self.text,
            "confidence": hit.confidence,
            "caption": hit.caption or None,
            "tags": list(hit.tags),
            "model": hit.model or None,
            "rank": round(hit.rank, 4),
        }


class Archive:
    """The runs in a folder, open to be searched again and again; close it when done."""

    def __init__(self, folder: Path) -> None:
        """Open the run in `folder`, or every run below it.

        Raises:
            LedgerError: There is none.
        """
        self._open = ExitStack()
        places = [folder] if (folder / FILE).is_file() else find_runs(folder)
        if not places:
            raise LedgerError(f"no run in {folder}: it has no {FILE}; give the folder of a run")
        self.skipped: list[str] = []
        """Why runs could not be opened, a line each."""
        self.runs = list(self._opened(places))
        self._indexes: dict[Path, MeaningIndex] = {}

    def _opened(self, places: Iterable[Path]) -> Iterator[Run]:
        for place in places:
            try:
                yield self._open.enter_context(Run.open(place))
            except LedgerError as error:
                self.skipped.append(str(error))

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the runs."""
        self._open.close()

    def by_words(self, words: str, *, most: int = 50) -> list[FoundMoment]:
        """What holds all of `words`, the best match first, as the page of a run finds them."""
        found = (
            FoundMoment(run.folder, hit)
            for run in self.runs
            for hit in run.search(words, most=most)
        )
        return _best(found, most)

    def by_meaning(
        self,
        words: str,
        encoder: SentenceEncoder,
        *,
        most: int = 50,
        told: Told | None = None,
    ) -> list[FoundMoment]:
        """What means much the same as `words`, the nearest first.

        The first time, every text is read, and what it means is kept beside its run.
        """
        found: list[FoundMoment] = []
        for run in self.runs:
            if run.folder not in self._indexes:
                self._indexes[run.folder] = MeaningIndex.of(run, encoder, told=told)
            hits = self._indexes[run.folder].search(run, words, most=most)
            found += (FoundMoment(run.folder, hit) for hit in hits)
        return _best(found, most)


def search(
    folder: str | Path,
    words: str,
    *,
    most: int = 50,
    meaning: SentenceEncoder | None = None,
    told: Told | None = None,
    blur: FaceBlur | None = None,
) -> list[FoundMoment]:
    """Moments of the run in `folder`, or of the runs below it, that hold `words`.

    Args:
        folder: Of a run, or of an archive of them.
        words: All of them must be in a caption, or in a piece of evidence.
        most: At most so many moments.
        meaning: Find what means much the same instead; see `SentenceEncoder.at_hand`.
        told: Told the texts read so far and in all, where meaning is looked for the first time.
        blur: What is blurred in the pictures, where the runs have not done so.

    Raises:
        LedgerError: There is no run.
    """
    with Archive(Path(folder)) as archive:
        if meaning is None:
            found = archive.by_words(words, most=most)
        else:
            found = archive.by_meaning(words, meaning, most=most, told=told)
    if blur is None:
        return found
    pictures = (blur.jpeg(one.hit.thumbnail) for one in found)
    return [
        replace(one, hit=replace(one.hit, thumbnail=picture))
        for one, picture in zip(found, pictures, strict=True)
    ]


def _best(found: Iterable[FoundMoment], most: int) -> list[FoundMoment]:
    """The best, each sound once: what is heard in a window is part of the track of it."""
    ordered = sorted(found, key=lambda each: each.hit.rank)
    tracks = {
        (each.run, each.hit.recording, each.hit.text)
        for each in ordered
        if each.hit.model == SOUND_TRACK
    }
    return [each for each in ordered if not _is_repeated(each, tracks)][:most]


def _is_repeated(found: FoundMoment, tracks: set[tuple[Path, str, str]]) -> bool:
    hit = found.hit
    is_window = hit.kind == "heard" and hit.model != SOUND_TRACK
    return is_window and (found.run, hit.recording, hit.text) in tracks
