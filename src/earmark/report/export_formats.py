"""Export of a run to files that other tools read: one exporter per format, by name.

A package adds a format by declaring it; `earmark export` to toml then writes it:

    [project.entry-points."earmark.exporters"]
    toml = "my_package.exporters:Toml"
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, count, islice
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple, Protocol

from earmark.captioning.answer_schema import is_yes_or_no
from earmark.errors import MissingExtra
from earmark.evidence.evidence_entry import EvidenceEntry, describe_evidence, evidence_by_span
from earmark.media.atomic_file import replacing
from earmark.media.source import name_of
from earmark.models.registry import Registry
from earmark.run.corrections import read_corrections, settle
from earmark.run.records import RecordingRow, RunPick, folders_apart, spare_recordings, title_of
from earmark.run.run import Run
from earmark.text_format import write_csv
from earmark.timeline import format_clock
from earmark.wall_clock import time_of_day

BATCH = 10_000

LONGEST_NAME = 200
"""Bytes; file systems take 255, and suffixes are added."""

_NO_PICK = RunPick(0, 0, 0, 0, 0, 0, 0, "", recording="", tags=(), status="")
COLUMNS = tuple(dict.fromkeys(("recording", "id", "path", "clock", *_NO_PICK.to_json())))


@dataclass(frozen=True, slots=True)
class Export:
    title: str
    recordings: Sequence[RecordingRow]
    picks: Iterable[RunPick]
    """Of the current plan, by recording and time; read lazily, once."""
    corrections: Iterable[dict[str, Any]] = ()
    """Spans in the form of annotations; of the verdicts, only `wrong` says that nothing happens."""
    said: Iterable[EvidenceEntry] = ()
    is_search: bool = False

    @classmethod
    def of(cls, run: Run, recordings: Sequence[RecordingRow]) -> Export:
        return cls(
            title=run.folder.resolve().name,
            recordings=recordings,
            picks=_picks(run, recordings),
            corrections=_corrected(run, recordings),
            said=(entry for row in recordings for entry in run.evidence(row.id, kinds=("said",))),
            is_search=bool(run.plan().get("find")),
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        recordings = {row.id: row for row in self.recordings}
        for pick in self.picks:
            row = recordings[pick.recording]
            clock = time_of_day(row.began, pick.start, date=True, zone=True) or None
            about = {"recording": row.id, "id": row.name, "path": row.path, "clock": clock}
            yield about | pick.to_json()

    def shown(self) -> Iterator[RunPick]:
        return (pick for pick in self.picks if is_shown(pick.seen, is_search=self.is_search))


class Exporter(Protocol):
    """Writes picks as one file of a format; constructed without arguments.

    The path is that of an empty temporary file. It is moved into place when the call returns, and
    deleted if the call raises. Picks can be read only once, and lazily: a run may have more of them
    than fit in memory.
    """

    is_text: bool = True
    """Whether the file is UTF-8 text, and can be printed."""
    is_per_recording: bool = False
    """Whether a file contains one recording; else all recordings of the run."""
    suffix: str = ""
    """Suffix of its files, without the dot; empty: the name of the format."""

    def __call__(self, export: Export, path: Path) -> None: ...


class TextExporter(Exporter):
    """Writes a UTF-8 text file, piece by piece."""

    def __call__(self, export: Export, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(self._pieces(export))

    def _pieces(self, export: Export) -> Iterable[str]:
        raise NotImplementedError


class JsonLines(TextExporter):
    """JSON lines: one object per pick."""

    def _pieces(self, export: Export) -> Iterator[str]:
        return (json.dumps(row, ensure_ascii=False) + "\n" for row in export.rows())


class Corrections(TextExporter):
    """Corrections that people agree on, as JSON lines: `evaluate` and `train` read them."""

    def _pieces(self, export: Export) -> Iterator[str]:
        return (json.dumps(row, ensure_ascii=False) + "\n" for row in export.corrections)


class Csv(Exporter):
    """CSV: a header and one row per pick; tags are joined by semicolons, unknown values are empty.

    A spreadsheet takes no cell for a formula, see `as_cell`.
    """

    def __call__(self, export: Export, path: Path) -> None:
        rows = (row | {"tags": "; ".join(row["tags"])} for row in export.rows())
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(file, COLUMNS, (row.values() for row in rows), end="\r\n")


class Parquet(Exporter):
    """Parquet: one row per pick, in row groups; tags are a list. Needs `earmark[parquet]`."""

    is_text = False

    def __call__(self, export: Export, path: Path) -> None:
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtra("Parquet needs pyarrow: pip install 'earmark[parquet]'") from error
        counts = ("window", "round", "prompt_tokens", "completion_tokens")
        numbers = ("start", "end", "instant", "score", "rate", "expected", "latency", "spend")
        types = {
            **dict.fromkeys(COLUMNS, pyarrow.string()),
            **dict.fromkeys(counts, pyarrow.int64()),
            **dict.fromkeys(numbers, pyarrow.float64()),
            "tags": pyarrow.list_(pyarrow.string()),
            "seen": pyarrow.bool_(),
        }
        schema, rows = pyarrow.schema(list(types.items())), export.rows()
        with parquet.ParquetWriter(path, schema) as writer:
            while group := list(islice(rows, BATCH)):
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


class SubRip(TextExporter):
    """SubRip subtitles; the format cannot escape markup, so angle brackets become ‹ and ›."""

    is_per_recording = True

    def _pieces(self, export: Export) -> Iterator[str]:
        for number, cue in enumerate(_cues(export), start=1):
            head = str(number) if number == 1 else f"\n{number}"
            yield f"{head}\n{_times(cue, ',')}\n{cue.text.translate(_QUOTATION_MARKS)}\n"


class WebVtt(TextExporter):
    """WebVTT subtitles; text that looks like markup is escaped."""

    is_per_recording = True

    def _pieces(self, export: Export) -> Iterator[str]:
        yield "WEBVTT\n"
        for cue in _cues(export):
            yield f"\n{_times(cue, '.')}\n{html.escape(cue.text, quote=False)}\n"


class Cue(NamedTuple):
    start: float
    end: float
    text: str


_QUOTATION_MARKS = str.maketrans("<>", "\u2039\u203a")


def _cues(export: Export) -> Iterator[Cue]:
    """One cue per pick that has a caption or tags, and one per transcribed sentence; by start.

    Text of a model cannot end a cue: line breaks become spaces, and the formats replace the `>` of
    arrows.
    """
    began = {row.id: row.began for row in export.recordings}

    def pick_cues() -> Iterator[Cue]:
        for pick in export.shown():
            sounds = f"[heard: {', '.join(pick.tags)}]" if pick.tags else ""
            text = " ".join((sounds if pick.caption is None else pick.caption).split())
            if text:
                day = time_of_day(began[pick.recording], pick.start, zone=True)
                yield Cue(pick.span.start, pick.span.end, f"{day} {text}".lstrip())

    speech = (Cue(entry.span.start, entry.span.end, f"“{entry.text}”") for entry in export.said)
    return merge(pick_cues(), speech, key=lambda cue: cue.start)


def _times(cue: Cue, point: str) -> str:
    """`HH:MM:SS,mmm`, with `point` for the comma; hours may exceed two digits."""
    times = []
    for seconds in (cue.start, cue.end):
        whole, thousandths = divmod(round(seconds * 1000), 1000)
        clock = format_clock(whole, tenths=False, hours=True).zfill(8)
        times.append(f"{clock}{point}{thousandths:03d}")
    return " --> ".join(times)


EXPORTERS: Registry[type[Exporter]] = Registry(
    "earmark.exporters",
    {
        "jsonl": JsonLines,
        "csv": Csv,
        "parquet": Parquet,
        "edl": "earmark.report.editing_formats:EditList",
        "srt": SubRip,
        "vtt": WebVtt,
        "corrections": Corrections,
        "otio": "earmark.report.editing_formats:OpenTimeline",
        "fcpxml": "earmark.report.editing_formats:FinalCut",
        "premiere": "earmark.report.editing_formats:Premiere",
        "labelstudio": "earmark.report.editing_formats:LabelStudio",
    },
    kind="export format",
)


def export(run: Run, path: Path, *, format: str) -> list[Path]:  # noqa: A002 - as the option is called
    """Write `run` to `path`; returns the files written. A file is complete or not written at all.

    For a format with one file per recording, `path` is a folder if the run has several recordings,
    if `path` is an existing folder or if it has no suffix. `ValueError` if a recording of the run
    would be replaced.
    """
    write = EXPORTERS.named(format)()
    recordings = run.recordings()
    files = {path: recordings}
    if write.is_per_recording and (len(recordings) != 1 or path.is_dir() or not path.suffix):
        names = file_stems((recording.path, recording.name) for recording in recordings)
        files = {
            path / f"{name}.{write.suffix or format}": [recording]
            for name, recording in zip(names, recordings, strict=True)
        }
    elif path.is_dir():
        raise ValueError(f"{path} is a folder and {format} is one file: name a file in it")
    spare_recordings(recordings, files)
    for target, contained in files.items():
        with replacing(target) as scratch:
            write(Export.of(run, contained), scratch)
    return list(files)


def file_stems(recordings: Iterable[tuple[str, str]]) -> list[str]:
    """Names without suffix for files made of recordings, each given by path and own name.

    If two files have the same name, the folders that tell them apart are put before it, or else
    their suffixes after it.

    >>> file_stems([("/mon/1.mp4", ""), ("/tue/1.mp4", ""), ("/tue/2.mp4", ""), ("/tue/2.mov", "")])
    ['mon-1', 'tue-1', '2.mp4', '2.mov']
    """
    pairs = list(recordings)
    folders = folders_apart(path for path, _ in pairs)
    files = [_file_name(path, folders[path]) for path, _ in pairs]
    counts, stems = Counter(file.stem for file in files), dict[str, None]()
    for file, (_, name) in zip(files, pairs, strict=True):
        stem = (file.stem if counts[file.stem] == 1 else file.name) or "recording"
        if name:
            stem = re.sub(r"[^\w.+-]+", "_", name).strip(".") or "recording"
        candidates = chain([stem], (f"{stem}-{number}" for number in count(2)))
        stems[next(name for name in candidates if name not in stems)] = None
    return list(stems)


def _file_name(path: str, folder: str) -> PurePosixPath:
    name = title_of(path, folder).replace("/", "-")
    return PurePosixPath(name if len(name.encode()) <= LONGEST_NAME else title_of(path))


def is_shown(seen: bool | None, *, is_search: bool) -> bool:
    """By what `find` saw; None if it was not asked."""
    return bool(seen) if is_search else seen is not False


def _picks(run: Run, recordings: Iterable[RecordingRow]) -> Iterator[RunPick]:
    for recording in recordings:
        picks = list(run.picks(recording.id))
        evidence = evidence_by_span(run.evidence(recording.id), [pick.span for pick in picks])
        for pick in picks:
            yield replace(pick, evidence=describe_evidence(evidence[pick.span]))


def _corrected(run: Run, recordings: Iterable[RecordingRow]) -> Iterator[dict[str, Any]]:
    """Without those that only say whether `find` was answered right."""
    for row in recordings:
        for correction in settle(read_corrections(run, row.id)):
            verdict, span = correction.verdict, correction.span
            if verdict in ("right", "wrong") and is_yes_or_no(correction.caption):
                continue
            yield {
                "recording": PurePath(name_of(row.path)).stem,
                "path": row.path,
                "duration": row.duration,
                "start": span.start,
                "end": min(span.end, max(row.duration, span.start)),
                "verdict": verdict,
                "label": correction.text or correction.caption,
                "author": correction.author,
                "at": correction.at,
            }
