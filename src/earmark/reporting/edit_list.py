"""Edit lists (CMX 3600) of clips from recordings, one after the other, and their time codes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from earmark.selection.result import Selection

FRAME_RATE = 25
"""Default frames per second of time codes; the formats count frames, not fractions of seconds."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A section of one recording, in seconds."""

    path: str
    start: float
    end: float
    comment: str = ""
    id: str = ""
    """Id of the recording in the user's manifest; empty if it has none."""


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
    """The clips one after the other as an edit list; each with its file name and comment."""
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
    """The clip in the time of the chapter file it begins in; unchanged without chapters."""
    if not chapters:
        return clip
    place = max(bisect_right(chapters, clip.start, key=lambda chapter: chapter[1]) - 1, 0)
    path, begin = chapters[place]
    return replace(clip, path=path, start=clip.start - begin, end=clip.end - begin)


def time_code(seconds: float, frame_rate: float = FRAME_RATE) -> str:
    """`HH:MM:SS:FF` without dropped frames: at 29.97 per second, 30 frames count as one second.

    >>> time_code(3661.52)
    '01:01:01:13'
    """
    whole, frame = divmod(round(seconds * frame_rate), round(frame_rate))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours:02d}:{minute:02d}:{second:02d}:{frame:02d}"


def one_line(text: str) -> str:
    """`text` without line breaks, which would end an entry of the list."""
    return " ".join(text.split())
