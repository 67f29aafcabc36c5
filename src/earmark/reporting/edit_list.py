"""Edit lists (CMX 3600): clips of recordings one after the other, and the time codes of editors."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from earmark.selection.result import Selection

FRAME_RATE = 25
"""Frames a second of the time codes unless another is known; the formats have no seconds."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A stretch of one recording."""

    path: str
    start: float
    end: float
    comment: str = ""
    id: str = ""
    """What the user's manifest calls the recording."""


def selection_edl(selection: Selection) -> str:
    """The picks of a selection as an edit list."""
    clips = (
        in_chapter(
            Clip(chosen.path, pick.start, pick.end, pick.reason),
            tuple(zip(chosen.chapters, chosen.chapter_starts, strict=True)),
        )
        for chosen in selection.recordings
        for pick in chosen.picks
    )
    return edit_list("earmark selection", clips)


def edit_list(title: str, clips: Iterable[Clip], *, frame_rate: float = FRAME_RATE) -> str:
    """The clips one after the other; every clip names its file and carries its comment."""
    lines = [f"TITLE: {one_line(title)}", "FCM: NON-DROP FRAME"]
    place = 0
    for number, clip in enumerate(clips, start=1):
        start, end = round(clip.start * frame_rate), round(clip.end * frame_rate)
        frames = (start, end, place, place + end - start)
        codes = " ".join(time_code(frame / frame_rate, frame_rate) for frame in frames)
        lines.append(f"\n{number:03d}  AX       V     C        {codes}")
        lines.append(f"* FROM CLIP NAME: {one_line(PurePosixPath(clip.path).name)}")
        if clip.id:
            lines.append(f"* RECORDING ID: {one_line(clip.id)}")
        if clip.comment:
            lines.append(f"* COMMENT: {one_line(clip.comment)}")
        place += end - start
    return "\n".join(lines) + "\n"


def in_chapter(clip: Clip, chapters: Sequence[tuple[str, float]]) -> Clip:
    """The clip on the clock of the file it begins in; as it is where there is but one."""
    if not chapters:
        return clip
    place = max(bisect_right(chapters, clip.start, key=lambda chapter: chapter[1]) - 1, 0)
    path, begin = chapters[place]
    return replace(clip, path=path, start=clip.start - begin, end=clip.end - begin)


def time_code(seconds: float, frame_rate: float = FRAME_RATE) -> str:
    """`HH:MM:SS:FF`, counting every frame: at 29.97 a second the 30th begins the next second.

    >>> time_code(3661.52)
    '01:01:01:13'
    """
    whole, frame = divmod(round(seconds * frame_rate), round(frame_rate))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}:{frame:02d}"


def one_line(text: str) -> str:
    """`text` without line breaks, which would end the entry."""
    return " ".join(text.split())
