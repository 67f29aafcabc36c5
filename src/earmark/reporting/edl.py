"""Edit decision lists (CMX 3600): picks as clips an editor can open."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from earmark.reporting.exporter import Export, Exporter
from earmark.selection.pick import Pick
from earmark.selection.result import Chosen, Selection

FRAME_RATE = 25
"""Frames a second of the time codes unless another is known; the format has no seconds."""


@dataclass(frozen=True, slots=True)
class Clip:
    """A stretch of one recording."""

    path: str
    start: float
    end: float
    comment: str = ""
    id: str = ""
    """What the user's manifest calls the recording."""


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


class EditList(Exporter):
    """The picks as clips in a row; time codes at the recordings' frame rate if they share one.

    At the usual one if not, or if theirs is too slow to be counted in.
    """

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        rates = {recording.frame_rate for recording in export.recordings} - {0.0}
        rate = rates.pop() if len(rates) == 1 else FRAME_RATE
        rate = (
            rate if round(rate) else FRAME_RATE
        )  # a time code cannot count less than one a second
        chapters = {recording.id: recording.chapters for recording in export.recordings}
        clips = (
            in_chapter(
                Clip(row.path, row.start, row.end, row.caption or row.reason, row.id),
                chapters[row.recording],
            )
            for row in export.rows
        )
        text = edit_list(export.title, clips, frame_rate=rate)
        path.write_text(text, encoding="utf-8", newline="\n")


def selection_edl(selection: Selection) -> str:
    """The picks of a selection as an edit list."""
    clips = (_clip(chosen, pick) for chosen in selection.recordings for pick in chosen.picks)
    return edit_list("earmark selection", clips)


def _clip(chosen: Chosen, pick: Pick) -> Clip:
    whole = Clip(chosen.path, pick.start, pick.end, pick.reason)
    return in_chapter(whole, tuple(zip(chosen.chapters, chosen.chapter_starts, strict=True)))


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
