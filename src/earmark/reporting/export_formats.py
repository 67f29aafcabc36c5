"""A run as files other tools read: one exporter a format, by name.

A package adds a format of its own by declaring it, and `earmark export --format toml` writes it:

    [project.entry-points."earmark.exporters"]
    toml = "my_package.exporters:Toml"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from earmark.errors import MissingExtra
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import replacing
from earmark.models.registry import Registry
from earmark.reporting.csv_rows import write_csv
from earmark.reporting.edl import EditList
from earmark.reporting.exporter import Export, Exporter, ExportRow
from earmark.reporting.subtitles import SubRip, WebVtt

BATCH = 10_000
"""Rows in memory at a time, and in one group of a Parquet file."""


class JsonLines(Exporter):
    """JSON lines: one object a pick."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for row in export.rows:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


class Corrections(Exporter):
    """What people agree on, as JSON lines: annotations that `evaluate` and `train` read."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for row in export.corrections:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


class Csv(Exporter):
    """A header and one row a pick; tags are joined by semicolons, what is not known is empty.

    No cell is a formula to a spreadsheet, see `csv_rows`.
    """

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        with path.open("w", encoding="utf-8", newline="") as file:
            names = [field.name for field in fields(ExportRow)]
            rows = (asdict(row) | {"tags": "; ".join(row.tags)} for row in export.rows)
            write_csv(file, names, (row.values() for row in rows), end="\r\n")


class Parquet(Exporter):
    """Parquet: one row a pick, in groups; tags are a list. Needs `earmark[parquet]`."""

    is_text = False

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            raise MissingExtra("Parquet needs pyarrow: pip install 'earmark[parquet]'") from error
        schema, rows = pyarrow.schema(_parquet_types(pyarrow)), iter(export.rows)
        with parquet.ParquetWriter(path, schema) as writer:
            while group := [asdict(row) for row in islice(rows, BATCH)]:
                writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def _parquet_types(pyarrow: Any) -> Iterator[tuple[str, Any]]:
    """A type for each field, from how it is declared."""
    kinds = {
        "str": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "tuple[str, ...]": pyarrow.list_(pyarrow.string()),
    }
    for field in fields(ExportRow):
        yield field.name, kinds[str(field.type).removesuffix(" | None")]


EXPORTERS: Registry[type[Exporter]] = Registry(
    "earmark.exporters",
    {
        "jsonl": JsonLines,
        "csv": Csv,
        "parquet": Parquet,
        "edl": EditList,
        "srt": SubRip,
        "vtt": WebVtt,
        "corrections": Corrections,
        "chapters": "earmark.reporting.chapter_marks:Chapters",
        "mp4": "earmark.reporting.chapter_marks:ChapteredMp4",
        "mkv": "earmark.reporting.chapter_marks:ChapteredMkv",
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
    """Write `run` to `path`; the files written, each whole or not there.

    A format that holds one recording a file makes several: with several recordings, or where it is
    one or its name has no ending, `path` is a folder and each file is named after its recording.

    Raises:
        MissingExtra: Parquet without pyarrow.
        ValueError: The format is unknown, and the message lists them; or `path` is a folder.
    """
    write = EXPORTERS.named(format)()
    files = {path: run.recordings()}
    is_folder = path.is_dir() or not path.suffix
    if write.is_per_recording and (len(run.recordings()) != 1 or is_folder):
        names = _distinct(map(_stem, run.recordings()))
        files = {
            path / f"{name}.{write.suffix or format}": [recording]
            for name, recording in zip(names, run.recordings(), strict=True)
        }
    elif path.is_dir():
        raise ValueError(f"{path} is a folder and {format} is one file: name a file in it")
    for target, recordings in files.items():
        with replacing(target) as scratch:
            write(Export.of(run, recordings), scratch)
    return list(files)


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """The names, a number behind those that came before: two cameras may both hold `0001.mp4`."""
    taken: set[str] = set()
    for name in names:
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        taken.add(free)
        yield free


def _stem(recording: RecordingRow) -> str:
    """What a file about a recording is called: as its user calls it, or after its own file."""
    if recording.name:
        return re.sub(r"[^\w.+-]+", "_", recording.name).strip(".") or "recording"
    return PurePosixPath(recording.path.replace("\\", "/")).stem or "recording"
