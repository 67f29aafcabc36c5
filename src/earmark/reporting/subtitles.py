"""Captions as subtitles: SubRip and WebVTT.

What a model wrote stays text: line breaks and arrows cannot end a cue, and what looks like markup
is shown, not obeyed. Where no caption was asked, tags are shown as what is heard. What was said, if
it was written down, has cues of its own at its own times.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from pathlib import Path

from earmark.reporting.exporter import Export, Exporter, ExportRow


@dataclass(frozen=True, slots=True)
class Cue:
    """A line of text and when it is shown."""

    start: float
    end: float
    text: str


def cues(export: Export) -> Iterator[Cue]:
    """One cue a pick that has a caption or tags, and one a sentence that was said; in order."""
    said = (Cue(one.span.start, one.span.end, f"“{one.text}”") for one in export.said)
    return merge(_pick_cues(export.rows), said, key=lambda cue: cue.start)


def _pick_cues(rows: Iterable[ExportRow]) -> Iterator[Cue]:
    for row in rows:
        heard = f"[heard: {', '.join(row.tags)}]" if row.tags else ""
        text = " ".join((heard if row.caption is None else row.caption).split())
        if text:
            yield Cue(row.start, row.end, text)


class SubRip(Exporter):
    """SubRip; it has no way to quote markup, so angle brackets become single quotation marks."""

    is_per_recording = True

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        blocks = (
            f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n"
            f"{cue.text.translate(_QUOTATION_MARKS)}\n"
            for number, cue in enumerate(cues(export), start=1)
        )
        path.write_text("\n".join(blocks), encoding="utf-8", newline="\n")


class WebVtt(Exporter):
    """WebVTT; what looks like markup is quoted."""

    is_per_recording = True

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        blocks = (
            f"\n{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n"
            f"{html.escape(cue.text, quote=False)}\n"
            for cue in cues(export)
        )
        path.write_text("WEBVTT\n" + "".join(blocks), encoding="utf-8", newline="\n")


_QUOTATION_MARKS = str.maketrans("<>", "\u2039\u203a")


def _time(seconds: float, point: str) -> str:
    """`HH:MM:SS,mmm`; the hours may be more than two digits."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}{point}{thousandths:03d}"
