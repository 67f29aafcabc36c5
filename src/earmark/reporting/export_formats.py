"""Export of a run to files that other tools read: one exporter per format, by name.

A package adds a format by declaring it; `earmark export --format toml` then writes it:

    [project.entry-points."earmark.exporters"]
    toml = "my_package.exporters:Toml"
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from heapq import merge
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from earmark.errors import MediaError, MissingExtra
from earmark.ledger.records import folders_apart, spare_recordings, title_of
from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import replacing
from earmark.models.registry import Registry
from earmark.reporting.csv_rows import write_csv
from earmark.reporting.exporter import Export, Exporter, ExportRow, TextExporter
from earmark.reporting.text_format import counted
from earmark.timeline import format_clock

BATCH = 10_000
"""Rows in memory at a time, and in one row group of a Parquet file."""

LONGEST_NAME = 200
"""Bytes of a file name that has folders in it; file systems take 255, and suffixes are added."""

MOST_TOLD = 20
"""Highest number of recordings for which an error gives the reason they were not written."""


class JsonLines(TextExporter):
    """JSON lines: one object per pick."""

    def _pieces(self, export: Export) -> Iterator[str]:
        return (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in export.rows)


class Corrections(TextExporter):
    """Corrections that people agree on, as JSON lines: `evaluate` and `train` read them."""

    def _pieces(self, export: Export) -> Iterator[str]:
        return (json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in export.corrections)


class Csv(Exporter):
    """CSV: a header and one row per pick; tags are joined by semicolons, unknown values are empty.

    A spreadsheet takes no cell for a formula, see `csv_rows`.
    """

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        with path.open("w", encoding="utf-8", newline="") as file:
            names = [field.name for field in fields(ExportRow)]
            rows = (asdict(row) | {"tags": "; ".join(row.tags)} for row in export.rows)
            write_csv(file, names, (row.values() for row in rows), end="\r\n")


class Parquet(Exporter):
    """Parquet: one row per pick, in row groups; tags are a list. Needs `earmark[parquet]`."""

    is_text = False

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtra("Parquet needs pyarrow: pip install 'earmark[parquet]'") from error
        kinds = {
            "str": pyarrow.string(),
            "int": pyarrow.int64(),
            "float": pyarrow.float64(),
            "bool": pyarrow.bool_(),
            "tuple[str, ...]": pyarrow.list_(pyarrow.string()),
        }
        types = {one.name: str(one.type).removesuffix(" | None") for one in fields(ExportRow)}
        schema = pyarrow.schema([(name, kinds[kind]) for name, kind in types.items()])
        rows = iter(export.rows)
        with parquet.ParquetWriter(path, schema) as writer:
            while group := [asdict(row) for row in islice(rows, BATCH)]:
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
    """A subtitle and when it is shown, in seconds."""

    start: float
    end: float
    text: str


_QUOTATION_MARKS = str.maketrans("<>", "\u2039\u203a")


def _cues(export: Export) -> Iterator[Cue]:
    """One cue per pick that has a caption or tags, and one per transcribed sentence; by start.

    Text of a model cannot end a cue: line breaks become spaces, and the formats replace the `>` of
    arrows. Without a caption, the tags are shown as `[heard: …]`.
    """
    speech = (Cue(one.span.start, one.span.end, f"“{one.text}”") for one in export.said)
    return merge(_pick_cues(export.shown), speech, key=lambda cue: cue.start)


def _pick_cues(rows: Iterable[ExportRow]) -> Iterator[Cue]:
    for row in rows:
        heard = f"[heard: {', '.join(row.tags)}]" if row.tags else ""
        text = " ".join((heard if row.caption is None else row.caption).split())
        if text:
            yield Cue(row.start, row.end, text)


def _times(cue: Cue, point: str) -> str:
    """Start and end as `HH:MM:SS,mmm`, with `point` for the comma; hours may exceed two digits."""
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
        "edl": "earmark.reporting.editing_formats:EditList",
        "srt": SubRip,
        "vtt": WebVtt,
        "corrections": Corrections,
        "chapters": "earmark.reporting.editing_formats:Chapters",
        "mp4": "earmark.reporting.editing_formats:ChapteredMp4",
        "mkv": "earmark.reporting.editing_formats:ChapteredMkv",
        "otio": "earmark.reporting.editing_formats:OpenTimeline",
        "fcpxml": "earmark.reporting.editing_formats:FinalCut",
        "premiere": "earmark.reporting.editing_formats:Premiere",
        "premiere-markers": "earmark.reporting.editing_formats:PremiereMarkers",
        "resolve": "earmark.reporting.editing_formats:ResolveMarkers",
        "labelstudio": "earmark.reporting.editing_formats:LabelStudio",
    },
    kind="export format",
)
"""Every format of `earmark export`, by name."""


def export(run: Run, path: Path, *, format: str) -> list[Path]:  # noqa: A002 - as the option is called
    """Write `run` to `path`; returns the files written. A file is complete or not written at all.

    For a format with one file per recording, `path` is a folder if the run has several recordings,
    if `path` is an existing folder or if it has no suffix; each file is then named after its
    recording. A recording that cannot be written does not stop the others.

    Raises:
        ValueError: The format is unknown (the message lists all), `path` is a folder, or a
            recording of the run would be replaced.
        MediaError: Some recordings could not be written; raised after all others are.
    """
    write = EXPORTERS.named(format)()
    every = run.recordings()
    files = {path: every}
    is_folder = path.is_dir() or not path.suffix
    if write.is_per_recording and (len(every) != 1 or is_folder):
        names = file_stems((each.path, each.name) for each in every)
        files = {
            path / f"{name}.{write.suffix or format}": [recording]
            for name, recording in zip(names, every, strict=True)
        }
    elif path.is_dir():
        raise ValueError(f"{path} is a folder and {format} is one file: name a file in it")
    spare_recordings(every, files)
    written, refused = [], list[MediaError]()
    for target, recordings in files.items():
        try:
            with replacing(target) as scratch:
                write(Export.of(run, recordings), scratch)
            written.append(target)
        except MediaError as error:
            refused.append(error)
    if refused and written:
        more = f"; and {len(refused) - MOST_TOLD} more" if len(refused) > MOST_TOLD else ""
        raise MediaError(
            f"{counted(len(written), 'file')} written to {path}, {len(refused)} not: "
            f"{'; '.join(map(str, refused[:MOST_TOLD]))}{more}"
        ) from refused[0]
    if refused:
        raise refused[0]
    return written


def file_stems(recordings: Iterable[tuple[str, str]]) -> list[str]:
    """Names without suffix for files made of recordings, each given by path and own name.

    A recording has its own name, if any, else that of its file. Where two files have the same name,
    the folders that tell them apart are put before it, or else their suffixes after it.

    >>> file_stems([("/mon/1.mp4", ""), ("/tue/1.mp4", ""), ("/tue/2.mp4", ""), ("/tue/2.mov", "")])
    ['mon-1', 'tue-1', '2.mp4', '2.mov']
    """
    every = list(recordings)
    folders = folders_apart(path for path, _ in every)
    names = [_file_name(path, folders[path]) for path, _ in every]
    alike = Counter(name.stem for name in names)
    stems = (name.stem if alike[name.stem] == 1 else name.name for name in names)
    pairs = zip(stems, every, strict=True)
    return list(_numbered(_safe(own) if own else stem or "recording" for stem, (_, own) in pairs))


def _file_name(path: str, folder: str) -> PurePosixPath:
    """The file name of `path` behind its `folder`, or alone if that would be too long."""
    name = title_of(path, folder).replace("/", "-")
    return PurePosixPath(name if len(name.encode()) <= LONGEST_NAME else title_of(path))


def _safe(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", name).strip(".") or "recording"


def _numbered(names: Iterable[str]) -> Iterator[str]:
    """The names, repeated ones with a number added."""
    taken: set[str] = set()
    for name in names:
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        taken.add(free)
        yield free
