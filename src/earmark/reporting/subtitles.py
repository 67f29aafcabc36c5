"""Captions as subtitles: SubRip and WebVTT.

What a model wrote stays text: line breaks and arrows cannot end a cue, and what looks like markup
is shown, not obeyed. Where no caption was asked, tags are shown as what is heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from earmark.reporting.export_rows import ExportRow


@dataclass(frozen=True, slots=True)
class Cue:
    """A line of text and when it is shown."""

    start: float
    end: float
    text: str


def cues(rows: Iterable[ExportRow]) -> Iterator[Cue]:
    """One cue a pick that has a caption or tags, in order."""
    for row in rows:
        heard = f"[heard: {', '.join(row.tags)}]" if row.tags else ""
        text = " ".join((heard if row.caption is None else row.caption).split())
        if text:
            yield Cue(row.start, row.end, text)


def srt(rows: Iterable[ExportRow]) -> str:
    """SubRip; it has no way to quote markup, so angle brackets become single quotation marks."""
    blocks = (
        f"{number}\n{_time(cue.start, ',')} --> {_time(cue.end, ',')}\n{_plain(cue.text)}\n"
        for number, cue in enumerate(cues(rows), start=1)
    )
    return "\n".join(blocks)


def vtt(rows: Iterable[ExportRow]) -> str:
    """WebVTT."""
    blocks = (
        f"\n{_time(cue.start, '.')} --> {_time(cue.end, '.')}\n{_quoted(cue.text)}\n"
        for cue in cues(rows)
    )
    return "WEBVTT\n" + "".join(blocks)


def _plain(text: str) -> str:
    return text.replace("<", "\u2039").replace(">", "\u203a")


def _quoted(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _time(seconds: float, point: str) -> str:
    """`HH:MM:SS,mmm`; the hours may be more than two digits."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}{point}{thousandths:03d}"
