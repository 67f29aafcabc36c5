"""Picks as chapters of a recording: as text for ffmpeg, or written into a copy of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from earmark.errors import MediaError
from earmark.media.clip_writer import Chapter, copy_with_chapters
from earmark.reporting.edl import one_line
from earmark.reporting.exporter import Export, Exporter

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
        text = "".join((";FFMETADATA1\n", *map(_mark, _chapters(export))))
        path.write_text(text, encoding="utf-8", newline="\n")


class ChapteredMp4(Exporter):
    """A copy of each recording, as recorded, with a chapter a pick: MP4, for any player."""

    is_per_recording = True
    is_text = False
    suffix = "mp4"
    kind = "mp4"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        (recording,) = export.recordings
        if export.is_blurred:
            raise MediaError(
                "faces are blurred in this run, and a copy of its recording would show them; "
                "`--format chapters` writes the chapters alone"
            )
        if recording.chapters:
            raise MediaError(
                f"{one_line(recording.path)} has several files, and a copy holds one; "
                "`--format chapters` writes the chapters alone"
            )
        copy_with_chapters(recording.path, _chapters(export), path, self.kind)


class ChapteredMkv(ChapteredMp4):
    """A copy of each recording, as recorded, with a chapter a pick: Matroska."""

    suffix = "mkv"
    kind = "matroska"


def _chapters(export: Export) -> Iterator[Chapter]:
    """Chapters that fill a recording."""
    last = round(1000 * max((one.duration for one in export.recordings), default=0.0))
    place = 0
    for row in export.rows:
        start, end = max(place, round(1000 * row.start)), round(1000 * row.end)
        if end <= start:
            continue
        if start > place:
            yield place, start, GAP
        yield start, end, one_line(row.caption or ", ".join(row.tags) or row.reason)
        place = end
    if last > place:
        yield place, last, GAP


def _mark(chapter: Chapter) -> str:
    start, end, title = chapter
    words = _quoted(title)
    return f"\n[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={words}\n"


def _quoted(text: str) -> str:
    """`text` with a backslash before what has a meaning in this format."""
    return re.sub(r"([=;#\\])", r"\\\1", text)
