"""Export of picks to editors, players and Label Studio: edit lists, chapters, markers, clips."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any

from earmark.errors import MediaError, MissingExtra
from earmark.ledger.records import RecordingRow
from earmark.media.chapter_writer import Chapter, copy_with_chapters
from earmark.media.source import is_remote, name_of
from earmark.reporting.csv_rows import as_cell
from earmark.reporting.edit_list import FRAME_RATE, Clip, edit_list, in_chapter, one_line, time_code
from earmark.reporting.exporter import Export, Exporter, ExportRow, TextExporter

_INVALID_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters and lone surrogates, which XML does not allow even when escaped."""

GAP = "not picked"
"""Title of the chapters between picks. MP4 has no gaps: the first chapter starts at 0 and each
lasts until the next."""


class EditList(TextExporter):
    """Edit list (CMX 3600): the picks as clips, one after the other.

    Time codes use the frame rate of the recordings; 25 frames per second if their rates differ, are
    unknown or round to 0.
    """

    def _pieces(self, export: Export) -> Iterable[str]:
        chapters = {recording.id: recording.chapters for recording in export.recordings}
        clips = (
            in_chapter(
                Clip(row.path, row.start, row.end, row.caption or row.reason, row.id),
                chapters[row.recording],
            )
            for row in export.shown
        )
        text = edit_list(export.title, clips, frame_rate=_rate_of(export.recordings))
        yield _INVALID_XML.sub("\ufffd", text)


class Chapters(TextExporter):
    """Chapters as ffmpeg metadata, one file per recording: one per pick, and one per gap.

    Times are those of the recording. If picks overlap, the later starts at the end of the earlier.
    """

    is_per_recording = True
    suffix = "ffmetadata"

    def _pieces(self, export: Export) -> Iterable[str]:
        yield ";FFMETADATA1\n"
        for start, end, title in _chapters(export):
            words = re.sub(r"([=;#\\])", r"\\\1", title)  # special in this format
            yield f"\n[CHAPTER]\nTIMEBASE=1/1000\nSTART={start}\nEND={end}\ntitle={words}\n"


class ChapteredMp4(Exporter):
    """An MP4 copy of each recording, not re-encoded, with one chapter per pick; for any player."""

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
                f"{_text_line(recording.path)} has several files, and a copy holds one; "
                "`--format chapters` writes the chapters alone"
            )
        copy_with_chapters(recording.path, _chapters(export), path, self.kind)


class ChapteredMkv(ChapteredMp4):
    """A Matroska copy of each recording, not re-encoded, with one chapter per pick."""

    suffix = "mkv"
    kind = "matroska"


class OpenTimeline(TextExporter):
    """OpenTimelineIO: picks as consecutive clips, captions as markers. Needs `earmark[editing]`."""

    adapter = "otio_json"
    rates: tuple[float, ...] = ()
    """Frame rates that the format supports, in frames per second; empty: any."""

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
        for row in export.shown:
            recording = recordings[row.recording]
            track.append(_clip(otio, row, recording, self._countable(_rate_of([recording]))))
        yield otio.adapters.write_to_string(timeline, adapter_name=self.adapter)

    def _countable(self, rate: float) -> float:
        return min(self.rates, key=lambda one: abs(one - rate), default=rate)


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


class PremiereMarkers(Exporter):
    """Markers as Premiere Pro lists them (File > Export > Markers), one file per recording.

    Tab-separated, in UTF-16, as Premiere writes it; scripts and panels that import markers read it.
    Times are those of the recording.
    """

    is_per_recording = True
    is_text = False
    suffix = "csv"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        rate = _rate_of(export.recordings)
        text = "Marker Name\tDescription\tIn\tOut\tDuration\tMarker Type\r\n"
        for row in export.shown:
            times = (row.start, row.end, row.end - row.start)
            codes = "\t".join(time_code(time, rate) for time in times)
            text += f"{row.status}\t{as_cell(_text_line(row.said))}\t{codes}\tComment\r\n"
        path.write_bytes(codecs.BOM_UTF16_LE + text.encode("utf-16-le", "replace"))


class ResolveMarkers(TextExporter):
    """Markers for DaVinci Resolve (Timelines > Import > Timeline Markers from EDL).

    One file per recording. Times are those of the recording: let the timeline start at 00:00:00:00.
    """

    is_per_recording = True
    suffix = "edl"

    def _pieces(self, export: Export) -> Iterable[str]:
        rate = _rate_of(export.recordings)
        yield f"TITLE: {_text_line(export.title)}\nFCM: NON-DROP FRAME\n\n"
        for number, row in enumerate(export.shown, start=1):
            frames = max(1, round((row.end - row.start) * rate))
            begin, end = time_code(row.start, rate), time_code(row.start + 1 / rate, rate)
            note = _text_line(row.said).replace("|", "/")
            yield f"{number:03d}  001      V     C        {begin} {end} {begin} {end}  \n"
            yield f" |C:ResolveColorBlue |M:{note} |D:{frames}\n\n"


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
        for number, row in enumerate(export.shown):
            (prediction,) = tasks[row.recording]["predictions"]
            prediction["result"].append(_region(row, rates[row.recording], number))
        yield json.dumps(list(tasks.values()), ensure_ascii=False, indent=1) + "\n"


def _text_line(text: str) -> str:
    """`text` on one line, with characters that XML does not allow replaced."""
    return _INVALID_XML.sub("\ufffd", one_line(text))


def _rate_of(recordings: Iterable[RecordingRow]) -> float:
    """The common frame rate of `recordings`, in frames per second.

    `FRAME_RATE` if their rates differ, are unknown, or round to 0, which time codes cannot count.
    """
    rates = {recording.frame_rate for recording in recordings} - {0.0}
    rate = rates.pop() if len(rates) == 1 else FRAME_RATE
    return rate if round(rate) else FRAME_RATE


def _chapters(export: Export) -> Iterator[Chapter]:
    last = round(1000 * max((one.duration for one in export.recordings), default=0.0))
    place = 0
    for row in export.shown:
        start, end = max(place, round(1000 * row.start)), round(1000 * row.end)
        if end <= start:
            continue
        if start > place:
            yield place, start, GAP
        yield start, end, _text_line(row.said)
        place = end
    if last > place:
        yield place, last, GAP


def _clip(otio: Any, row: ExportRow, recording: RecordingRow, rate: float) -> Any:
    """A pick as a clip of the file it begins in, with its description as a marker."""
    clip = in_chapter(Clip(row.path, row.start, row.end), recording.chapters)

    def span(start: float, end: float) -> Any:
        first = otio.opentime.RationalTime(round(start * rate), rate)
        length = otio.opentime.RationalTime(max(1, round((end - start) * rate)), rate)
        return otio.opentime.TimeRange(first, length)

    place = clip.path if is_remote(clip.path) else Path(clip.path).absolute().as_uri()
    ends = [*(begin for _, begin in recording.files[1:]), recording.duration]
    lengths = {path: end - begin for (path, begin), end in zip(recording.files, ends, strict=True)}
    media = otio.schema.ExternalReference(place, span(0.0, max(lengths[clip.path], clip.end)))
    names = ("recording", "start", "end", "instant", "score", "reason", "caption", "status")
    about = {name: value for name in names if (value := getattr(row, name)) is not None}
    return otio.schema.Clip(
        name=_text_line(PurePath(name_of(clip.path)).name),
        media_reference=media,
        source_range=span(clip.start, clip.end),
        markers=[otio.schema.Marker(_text_line(row.said), span(clip.start, clip.end))],
        metadata={"earmark": about},
    )


def _region(row: ExportRow, rate: float, number: int) -> dict[str, Any]:
    """A pick as a region of Label Studio's timeline labels, frames counted from 1."""
    frames = {"start": round(row.start * rate) + 1, "end": max(1, round(row.end * rate))}
    return {
        "id": f"pick-{number}",
        "from_name": "label",
        "to_name": "video",
        "type": "timelinelabels",
        "value": {"ranges": [frames], "timelinelabels": ["picked"]},
        "meta": {"text": [row.said]},
    }
