"""Picks as chapters of a recording, in the text that ffmpeg writes into MP4 and Matroska files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from earmark.reporting.edl import one_line
from earmark.reporting.exporter import Export, Exporter, ExportRow

GAP = "not picked"
"""The title between picks. MP4 has no gaps: a chapter lasts until the next, the first from 0."""


class Chapters(Exporter):
    """Chapters as ffmpeg's metadata text, a file a recording: one a pick, and those in between.

    Times are the recording's. Where picks overlap, the later begins at the end of the one before.
    """

    is_per_recording = True
    suffix = "ffmetadata"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        duration = max((one.duration for one in export.recordings), default=0.0)
        text = "".join((";FFMETADATA1\n", *_marks(export.rows, round(1000 * duration))))
        path.write_text(text, encoding="utf-8", newline="\n")


def _marks(rows: Iterable[ExportRow], last: int) -> Iterator[str]:
    """Chapters that fill a recording of so many milliseconds."""
    place = 0
    for row in rows:
        start, end = max(place, round(1000 * row.start)), round(1000 * row.end)
        if end <= start:
            continue
        if start > place:
            yield _mark(place, start, GAP)
        yield _mark(start, end, row.caption or ", ".join(row.tags) or row.reason)
        place = end
    if last > place:
        yield _mark(place, last, GAP)


def _mark(start: int, end: int, title: str) -> str:
    words = _quoted(one_line(title))
    return f"\n[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={words}\n"


def _quoted(text: str) -> str:
    """`text` with a backslash before what has a meaning in this format."""
    return re.sub(r"([=;#\\])", r"\\\1", text)
