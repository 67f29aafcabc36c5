"""What an exporter is, and what it is given: the picks of a run as flat rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any, Protocol

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.evidence_line import describe_evidence, evidence_by_span
from earmark.ledger.corrections import read_corrections, settle
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.source import name_of


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One pick and all that is known of it."""

    recording: str
    """Of its content: the same wherever the file lies."""
    id: str
    """What the user's manifest calls the recording; empty where none does."""
    path: str
    window: int | None
    """Place on the grid; None for a window that lies on none."""
    start: float
    end: float
    instant: float
    score: float
    rate: float
    expected: float
    reason: str
    tags: tuple[str, ...]
    """What is heard (or seen) in words; not a caption."""
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
    """What is known of it without a vision model, in a line: heard, said, read, seen."""

    @property
    def said(self) -> str:
        """What there is to say of it: the caption, else the tags, else why it was picked."""
        return self.caption or ", ".join(self.tags) or self.reason


@dataclass(frozen=True, slots=True)
class CorrectedSpan:
    """A stretch of a recording that people agree on, as annotations name it."""

    recording: str
    """The name of its file without the ending, which annotations know it by."""
    path: str
    duration: float
    """Of the recording."""
    start: float
    end: float
    verdict: str
    """`right`, `reworded` or `missed`: something is done here; `wrong`: what was said is not."""
    label: str
    """What is done, in the words of the model or of who corrected it."""
    author: str
    at: str


@dataclass(frozen=True, slots=True)
class Export:
    """What one file is to hold."""

    title: str
    recordings: Sequence[RecordingRow]
    rows: Iterable[ExportRow]
    """Every pick of the present plan, by recording and time, read as they are come to."""
    corrections: Iterable[CorrectedSpan] = ()
    """What people agree on, by recording and time, read as they are come to."""
    said: Iterable[EvidenceEntry] = ()
    """Every sentence that was written down, by recording and time."""
    is_blurred: bool = False
    """Whether no picture of a recording may be shown as it is."""

    @classmethod
    def of(cls, run: Run, recordings: Sequence[RecordingRow]) -> Export:
        """The picks of some recordings of `run`."""
        title = run.folder.resolve().name
        said = (one for each in recordings for one in run.evidence(each.id, kinds=("said",)))
        rows, corrected = _rows(run, recordings), _corrected(run, recordings)
        return cls(title, recordings, rows, corrected, said, run.hides_faces)


class Exporter(Protocol):
    """Writes picks as one file of a format; made without arguments.

    The path is that of an empty scratch file, which is moved into place once this returns and
    deleted if it raises. Rows can be read once, and are read as they are come to: a run may have
    more of them than memory holds.
    """

    is_text: bool = True
    """Whether the file is UTF-8 text, and can be printed."""
    is_per_recording: bool = False
    """Whether a file holds one recording; else all of the run."""
    suffix: str = ""
    """How its files end, where that is not the name of the format."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        ...


class TextExporter(Exporter):
    """Writes a file of text, piece by piece."""

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
            said: dict[str, Any] = {name: getattr(row.answer, name, None) for name in names}
            yield ExportRow(
                recording=recording.id,
                id=recording.name,
                path=recording.path,
                **asdict(row.pick),
                tags=row.tags,
                status=row.status,
                caption=row.caption,
                **said,
                spend=row.kept.spend if row.kept else None,
                failure=row.failure,
                evidence=describe_evidence(known[row.span]),
            )


def _corrected(run: Run, recordings: Iterable[RecordingRow]) -> Iterator[CorrectedSpan]:
    for row in recordings:
        for one in settle(read_corrections(run, row.id)):
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
