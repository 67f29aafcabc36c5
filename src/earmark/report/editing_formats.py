from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

from earmark.errors import MissingExtra
from earmark.media.source import is_remote, name_of
from earmark.report.export_formats import Export, TextExporter
from earmark.run.records import RecordingRow, RunPick
from earmark.selection.result import Selection

_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters and lone surrogates, which XML does not allow even when escaped."""

FRAME_RATE = 25
"""The formats count frames, not fractions of seconds."""


@dataclass(frozen=True, slots=True)
class Clip:
    path: str
    start: float
    end: float
    comment: str = ""
    id: str = ""


class EditList(TextExporter):
    """Edit list (CMX 3600): the picks as clips, one after the other.

    Time codes use the frame rate of the recordings; 25 frames per second if their rates differ, are
    unknown or round to 0.
    """

    def _pieces(self, export: Export) -> Iterable[str]:
        recordings = {row.id: row for row in export.recordings}
        clips = (
            clip for pick in export.shown() for clip in _as_clips(pick, recordings[pick.recording])
        )
        text = edit_list(export.title, clips, frame_rate=_rate_of(export.recordings))
        yield _INVALID_XML.sub("\ufffd", text)


class OpenTimeline(TextExporter):
    """OpenTimelineIO: picks as consecutive clips, captions as markers. Needs `earmark[editing]`."""

    adapter = "otio_json"
    rates: tuple[float, ...] = ()
    """Those the format can count; empty: all."""

    def _pieces(self, export: Export) -> Iterable[str]:
        try:
            import opentimelineio as otio
        except ImportError as error:
            raise MissingExtra(
                "OpenTimelineIO needs its library: pip install 'earmark[editing]'"
            ) from error
        recordings = {row.id: row for row in export.recordings}
        timeline = otio.schema.Timeline(export.title)
        track = otio.schema.Track("picks", kind=otio.schema.TrackKind.Video)
        timeline.tracks.append(track)
        for pick in export.shown():
            recording = recordings[pick.recording]
            rate = _rate_of([recording])
            nearest = min(self.rates, key=lambda supported: abs(supported - rate), default=rate)
            for clip in _as_clips(pick, recording):
                track.append(_otio_clip(otio, clip, pick, recording, nearest))
        yield otio.adapters.write_to_string(timeline, adapter_name=self.adapter)


class FinalCut(OpenTimeline):
    """Final Cut Pro X XML, written by OpenTimelineIO. Needs `earmark[editing]`."""

    adapter = "fcpx_xml"
    rates = (24.0, 25.0, 30.0, 50.0, 60.0)


class Premiere(FinalCut):
    """Premiere Pro (File > Import): Final Cut Pro 7 XML, written by OpenTimelineIO.

    Needs `earmark[editing]`.
    """

    adapter = "fcp_xml"
    suffix = "xml"


class LabelStudio(TextExporter):
    """Label Studio: one video task per recording, its picks as predictions with captions as notes.

    The labelling set-up needs `<TimelineLabels name="label" toName="video">` with label `picked`.
    """

    suffix = "json"

    def _pieces(self, export: Export) -> Iterable[str]:
        tasks: dict[str, dict[str, Any]] = {
            row.id: {
                "data": {"video": row.path, "name": row.name or name_of(row.path)},
                "predictions": [{"model_version": "earmark", "result": []}],
            }
            for row in export.recordings
        }
        rates = {row.id: row.frame_rate or FRAME_RATE for row in export.recordings}
        for number, pick in enumerate(export.shown()):
            (prediction,) = tasks[pick.recording]["predictions"]
            prediction["result"].append(_region(pick, rates[pick.recording], number))
        yield json.dumps(list(tasks.values()), ensure_ascii=False, indent=1) + "\n"


def _text_line(text: str) -> str:
    return _INVALID_XML.sub("\ufffd", one_line(text))


def _rate_of(recordings: Iterable[RecordingRow]) -> float:
    """`FRAME_RATE` if rates differ, are unknown, or round to 0, which time codes cannot count."""
    rates = {recording.frame_rate for recording in recordings} - {0.0}
    rate = rates.pop() if len(rates) == 1 else FRAME_RATE
    return rate if round(rate) else FRAME_RATE


def _as_clips(pick: RunPick, recording: RecordingRow) -> list[Clip]:
    comment, span = pick.caption or pick.reason, pick.span
    clip = Clip(recording.path, span.start, span.end, comment, recording.name)
    return in_chapters(clip, recording.chapters)


def _otio_clip(otio: Any, clip: Clip, pick: RunPick, recording: RecordingRow, rate: float) -> Any:
    def span(start: float, end: float) -> Any:
        first = otio.opentime.RationalTime(round(start * rate), rate)
        length = otio.opentime.RationalTime(max(1, round((end - start) * rate)), rate)
        return otio.opentime.TimeRange(first, length)

    url = clip.path if is_remote(clip.path) else Path(clip.path).absolute().as_uri()
    ends = [*(begin for _, begin in recording.files[1:]), recording.duration]
    lengths = {path: end - begin for (path, begin), end in zip(recording.files, ends, strict=True)}
    media = otio.schema.ExternalReference(url, span(0.0, max(lengths[clip.path], clip.end)))
    names = ("recording", "start", "end", "instant", "score", "reason", "caption", "status")
    values = pick.to_json()
    about = {name: values[name] for name in names if values[name] is not None}
    return otio.schema.Clip(
        name=_text_line(PurePath(name_of(clip.path)).name),
        media_reference=media,
        source_range=span(clip.start, clip.end),
        markers=[otio.schema.Marker(_text_line(pick.description), span(clip.start, clip.end))],
        metadata={"earmark": about},
    )


def _region(pick: RunPick, rate: float, number: int) -> dict[str, Any]:
    start, end = round(pick.span.start * rate) + 1, max(1, round(pick.span.end * rate))
    return {
        "id": f"pick-{number}",
        "from_name": "label",
        "to_name": "video",
        "type": "timelinelabels",
        "value": {"ranges": [{"start": start, "end": end}], "timelinelabels": ["picked"]},
        "meta": {"text": [pick.description]},
    }


def selection_edl(selection: Selection) -> str:
    clips = (
        clip
        for chosen in selection.recordings
        for pick in chosen.picks
        for clip in in_chapters(
            Clip(chosen.path, pick.start, pick.end, pick.reason),
            tuple(zip(chosen.chapters, chosen.chapter_starts, strict=True)),
        )
    )
    return edit_list("earmark selection", clips)


def edit_list(title: str, clips: Iterable[Clip], *, frame_rate: float = FRAME_RATE) -> str:
    lines = [f"TITLE: {one_line(title)}", "FCM: NON-DROP FRAME"]
    offset = 0
    for number, clip in enumerate(clips, start=1):
        start, end = round(clip.start * frame_rate), round(clip.end * frame_rate)
        frames = (start, end, offset, offset + end - start)
        codes = " ".join(time_code(frame / frame_rate, frame_rate) for frame in frames)
        lines.append(f"\n{number:03d}  AX       V     C        {codes}")
        lines.append(f"* FROM CLIP NAME: {one_line(PurePosixPath(clip.path).name)}")
        if clip.id:
            lines.append(f"* RECORDING ID: {one_line(clip.id)}")
        if clip.comment:
            lines.append(f"* COMMENT: {one_line(clip.comment)}")
        offset += end - start
    return "\n".join(lines) + "\n"


def in_chapters(clip: Clip, chapters: Sequence[tuple[str, float]]) -> list[Clip]:
    """One clip for each chapter that it touches, in the time of that chapter.

    >>> in_chapters(Clip("a", 8.0, 14.0), [("a", 0.0), ("b", 10.0)])[1]
    Clip(path='b', start=0.0, end=4.0, comment='', id='')
    """
    if not chapters:
        return [clip]
    first = max(bisect_right(chapters, clip.start, key=lambda chapter: chapter[1]) - 1, 0)
    clips: list[Clip] = []
    for index, (path, begin) in enumerate(chapters[first:], start=first):
        until = chapters[index + 1][1] if index + 1 < len(chapters) else clip.end
        start, end = max(clip.start, begin), min(clip.end, until)
        if start < end or not clips:
            clips.append(replace(clip, path=path, start=start - begin, end=end - begin))
    return clips


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
    """A line break would end an entry of the list."""
    return " ".join(text.split())
