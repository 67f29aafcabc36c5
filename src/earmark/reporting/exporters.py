"""A run as files other tools read."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from earmark.errors import MissingExtra
from earmark.ledger import RecordingRow, Run
from earmark.media.atomic_file import replacing
from earmark.reporting import subtitles
from earmark.reporting.edl import FRAME_RATE, Clip, edit_list, in_chapter
from earmark.reporting.export_rows import ExportRow, rows

BATCH = 10_000
"""Rows in memory at a time, and in one group of a Parquet file."""


def export(run: Run, path: Path, *, format: str) -> list[Path]:  # noqa: A002 - as the option is called
    """Write `run` to `path`; the files written, each whole or not there.

    Subtitles are one file a recording: with several, or where it is one, `path` is a folder and
    each file is named after its recording.

    Raises:
        MissingExtra: Parquet without pyarrow.
        ValueError: The format is unknown, and the message lists them; or `path` is a folder.
    """
    if format in SUBTITLES:
        return _export_each(run, path, SUBTITLES[format], format)
    if format not in TABLES:
        raise ValueError(f"no export format {format!r}; there are {', '.join(FORMATS)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder and {format} is one file: name a file in it")
    with replacing(path) as scratch:
        TABLES[format](run, scratch)
    return [path]


def write_jsonl(run: Run, path: Path) -> None:
    """One JSON object a pick."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in rows(run):
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")


def write_csv(run: Run, path: Path) -> None:
    """A header and one row a pick; tags are joined by semicolons, what is not known is empty."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(ExportRow)])
        writer.writeheader()
        for row in rows(run):
            writer.writerow(asdict(row) | {"tags": "; ".join(row.tags)})


def write_parquet(run: Run, path: Path) -> None:
    """One row a pick, in groups; tags are a list."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'earmark[parquet]'") from error
    schema = pyarrow.schema(_parquet_types(pyarrow))
    with parquet.ParquetWriter(path, schema) as writer:
        for group in _groups(rows(run)):
            writer.write_table(pyarrow.Table.from_pylist(group, schema=schema))


def write_edl(run: Run, path: Path) -> None:
    """The picks as clips in a row; time codes at the recordings' frame rate if they share one.

    At the usual one if not, or if theirs is too slow to be counted in.
    """
    rates = {recording.frame_rate for recording in run.recordings()} - {0.0}
    chapters = {recording.id: recording.chapters for recording in run.recordings()}
    clips = (in_chapter(_clip(row), chapters[row.recording]) for row in rows(run))
    rate = rates.pop() if len(rates) == 1 else FRAME_RATE
    rate = rate if round(rate) else FRAME_RATE  # a time code cannot count less than one a second
    text = edit_list(run.folder.resolve().name, clips, frame_rate=rate)
    path.write_text(text, encoding="utf-8", newline="\n")


def _clip(row: ExportRow) -> Clip:
    return Clip(row.path, row.start, row.end, row.caption or row.reason, row.id)


TABLES: dict[str, Callable[[Run, Path], None]] = {
    "jsonl": write_jsonl,
    "csv": write_csv,
    "parquet": write_parquet,
    "edl": write_edl,
}
"""Formats that hold a whole run in one file."""

SUBTITLES: dict[str, Callable[[Iterable[ExportRow]], str]] = {
    "srt": subtitles.srt,
    "vtt": subtitles.vtt,
}
"""Formats that hold one recording a file."""

FORMATS = (*TABLES, *SUBTITLES)
"""Every format `export` knows."""


def _export_each(
    run: Run, path: Path, write: Callable[[Iterable[ExportRow]], str], suffix: str
) -> list[Path]:
    by_recording: dict[str, list[ExportRow]] = {recording.id: [] for recording in run.recordings()}
    for row in rows(run):
        by_recording[row.recording].append(row)
    if len(by_recording) == 1 and not path.is_dir():
        targets = [path]
    else:
        names = [_stem(recording) for recording in run.recordings()]
        targets = [path / f"{name}.{suffix}" for name in _distinct(names)]
    for target, theirs in zip(targets, by_recording.values(), strict=True):
        with replacing(target) as scratch:
            scratch.write_text(write(theirs), encoding="utf-8", newline="\n")
    return targets


def _distinct(names: list[str]) -> Iterator[str]:
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


def _groups(every: Iterator[ExportRow]) -> Iterator[list[dict[str, Any]]]:
    while group := [asdict(row) for row in islice(every, BATCH)]:
        yield group


def _parquet_types(pyarrow: Any) -> list[tuple[str, Any]]:
    """A type for each field, from how it is declared."""
    kinds = {
        "str": pyarrow.string(),
        "int": pyarrow.int64(),
        "float": pyarrow.float64(),
        "tuple[str, ...]": pyarrow.list_(pyarrow.string()),
    }
    return [
        (field.name, kinds[str(field.type).removesuffix(" | None")]) for field in fields(ExportRow)
    ]
