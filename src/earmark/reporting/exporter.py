"""The interface of exporters and their input: the picks of a run as flat rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

from earmark.captioning.yes_or_no import is_seen, is_yes_or_no
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.evidence_line import describe_evidence, evidence_by_span
from earmark.ledger.corrections import read_corrections, settle
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.source import name_of


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One pick and all that is known about it; times in seconds."""

    recording: str
    """Id of the recording's content, independent of where the file is."""
    id: str
    """Id of the recording in the user's manifest; empty if it has none."""
    path: str
    window: int | None
    """Index on the grid; None for a window that is not on a grid."""
    start: float
    end: float
    instant: float
    score: float
    rate: float
    expected: float
    reason: str
    tags: tuple[str, ...]
    """Names of what is heard (or seen); not a caption."""
    status: str
    """`answered`, `failed`, `in flight` or `not asked`."""
    caption: str | None
    """None unless a model answered."""
    model: str | None
    form: str | None
    finish: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    latency: float | None
    spend: float | None
    failure: str | None
    evidence: str = ""
    """What is known without a vision-language model, in one line: heard, said, read, seen."""
    seen: bool | None = None
    """Whether `find` saw what it looked for; None if it did not ask about this window."""

    @property
    def said(self) -> str:
        """A description: the caption, else the tags, else the reason for the pick."""
        return self.caption or ", ".join(self.tags) or self.reason


@dataclass(frozen=True, slots=True)
class CorrectedSpan:
    """A corrected section of a recording that people agree on, in the form of an annotation."""

    recording: str
    """File name without suffix, which identifies the recording in annotations."""
    path: str
    duration: float
    """Seconds of the whole recording."""
    start: float
    end: float
    verdict: str
    """`right`, `reworded` or `missed`: the action takes place; `wrong`: it does not."""
    label: str
    """The action, in the words of the model or of the person who corrected it."""
    author: str
    at: str


@dataclass(frozen=True, slots=True)
class Export:
    """The content of one exported file."""

    title: str
    recordings: Sequence[RecordingRow]
    rows: Iterable[ExportRow]
    """Every pick of the current plan, by recording and time; read lazily, once."""
    corrections: Iterable[CorrectedSpan] = ()
    """Corrections that people agree on, by recording and time; read lazily, once."""
    said: Iterable[EvidenceEntry] = ()
    """Every transcribed sentence, by recording and time; read lazily, once."""
    is_blurred: bool = False
    """Whether faces are blurred, so that no frame of a recording may be exported unchanged."""
    is_search: bool = False
    """Whether the run was last searched by `find`."""

    @property
    def shown(self) -> Iterator[ExportRow]:
        """The rows for subtitles, edit lists and marks; of a search, those in which it was seen.

        They take the place of `rows`, which are read once.
        """
        return (row for row in self.rows if is_shown(row.seen, is_search=self.is_search))

    @classmethod
    def of(cls, run: Run, recordings: Sequence[RecordingRow]) -> Export:
        """The picks of some recordings of `run`."""
        title = run.folder.resolve().name
        speech = (one for each in recordings for one in run.evidence(each.id, kinds=("said",)))
        rows, corrected = _rows(run, recordings), _corrected(run, recordings)
        is_search = bool(run.plan().get("find"))
        return cls(title, recordings, rows, corrected, speech, run.hides_faces, is_search)


class Exporter(Protocol):
    """Writes picks as one file of a format; constructed without arguments.

    The path is that of an empty temporary file. It is moved into place when the call returns, and
    deleted if the call raises. Rows can be read only once, and lazily: a run may have more of them
    than fit in memory.
    """

    is_text: bool = True
    """Whether the file is UTF-8 text, and can be printed."""
    is_per_recording: bool = False
    """Whether a file contains one recording; else all recordings of the run."""
    suffix: str = ""
    """Suffix of its files, without the dot; empty: the name of the format."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        ...


class TextExporter(Exporter):
    """Writes a UTF-8 text file, piece by piece."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._pieces(export))

    def _pieces(self, export: Export) -> Iterable[str]:
        raise NotImplementedError


def _rows(run: Run, recordings: Iterable[RecordingRow]) -> Iterator[ExportRow]:
    names = ("model", "form", "finish", "prompt_tokens", "completion_tokens", "latency")
    for recording in recordings:
        picks = list(run.picks(recording.id))
        known = evidence_by_span(run.evidence(recording.id), [pick.span for pick in picks])
        for row in picks:
            answer: dict[str, Any] = {name: getattr(row.answer, name, None) for name in names}
            yield ExportRow(
                recording=recording.id,
                id=recording.name,
                path=recording.path,
                **asdict(row.pick),
                tags=row.tags,
                status=row.status,
                caption=row.caption,
                **answer,
                spend=row.kept.spend if row.kept else None,
                failure=row.failure,
                evidence=describe_evidence(known[row.span]),
                seen=is_seen(row.answer),
            )


def is_shown(seen: bool | None, *, is_search: bool) -> bool:
    """Whether a window is worth showing by what `find` saw in it; None if it was not asked."""
    return bool(seen) if is_search else seen is not False


def _corrected(run: Run, recordings: Iterable[RecordingRow]) -> Iterator[CorrectedSpan]:
    """The corrections, without those that only say whether `find` was answered right."""
    for row in recordings:
        for one in settle(read_corrections(run, row.id)):
            if one.verdict in ("right", "wrong") and is_yes_or_no(one.caption):
                continue
            yield CorrectedSpan(
                recording=PurePath(name_of(row.path)).stem,
                path=row.path,
                duration=row.duration,
                start=one.span.start,
                end=min(one.span.end, max(row.duration, one.span.start)),
                verdict=one.verdict,
                label=one.text or one.caption,
                author=one.author,
                at=one.at,
            )
