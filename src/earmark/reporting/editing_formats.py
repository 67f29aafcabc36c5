"""Picks for editors (OpenTimelineIO, Final Cut, Premiere, Resolve) and for Label Studio."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from earmark.errors import MissingExtra
from earmark.ledger.records import RecordingRow
from earmark.media.source import is_remote, name_of
from earmark.reporting.csv_rows import as_cell
from earmark.reporting.edl import FRAME_RATE, Clip, in_chapter, one_line, time_code
from earmark.reporting.exporter import Export, Exporter, ExportRow


class OpenTimeline(Exporter):
    """OpenTimelineIO: picks as clips in a row, captions as markers. Needs `earmark[editing]`."""

    adapter = "otio_json"
    rates: tuple[float, ...] = ()
    """Frames a second that the format can count in; any where none are named."""

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
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
        for row in export.rows:
            recording = recordings[row.recording]
            rate = recording.frame_rate if round(recording.frame_rate) else float(FRAME_RATE)
            track.append(_clip(otio, row, recording, self._countable(rate)))
        text = otio.adapters.write_to_string(timeline, adapter_name=self.adapter)
        path.write_text(text, encoding="utf-8", newline="\n")

    def _countable(self, rate: float) -> float:
        """The nearest rate that the format can count in."""
        return min(self.rates, key=lambda one: abs(one - rate), default=rate)


class FinalCut(OpenTimeline):
    """Final Cut Pro X XML, by way of OpenTimelineIO. Needs `earmark[editing]`."""

    adapter = "fcpx_xml"
    rates = (24.0, 25.0, 30.0, 50.0, 60.0)


class Premiere(OpenTimeline):
    """Premiere Pro (File > Import), as Final Cut Pro 7 XML by way of OpenTimelineIO.

    Needs `earmark[editing]`.
    """

    adapter = "fcp_xml"
    rates = (24.0, 25.0, 30.0, 50.0, 60.0)
    suffix = "xml"


class PremiereMarkers(Exporter):
    """Markers as Premiere Pro's own list (File > Export > Markers), one file each.

    Tab-separated, in UTF-16, as Premiere writes it; scripts and panels that take markers read it.
    Times are those of the recording.
    """

    is_per_recording = True
    is_text = False
    suffix = "csv"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        rate = _rate_of(export)
        lines = ["Marker Name\tDescription\tIn\tOut\tDuration\tMarker Type"]
        for row in export.rows:
            note = as_cell(one_line(row.caption or ", ".join(row.tags) or row.reason))
            times = (row.start, row.end, row.end - row.start)
            codes = "\t".join(time_code(time, rate) for time in times)
            lines.append(f"{row.status}\t{note}\t{codes}\tComment")
        text = "".join(f"{line}\r\n" for line in lines)
        path.write_bytes(codecs.BOM_UTF16_LE + text.encode("utf-16-le", "replace"))


def _rate_of(export: Export) -> float:
    """Frames a second to count in."""
    rate = export.recordings[0].frame_rate if export.recordings else 0
    return rate if round(rate) else FRAME_RATE


class ResolveMarkers(Exporter):
    """Markers for DaVinci Resolve (Timelines > Import > Timeline Markers from EDL), one file each.

    Times are those of the recording: give the time line the start 00:00:00:00.
    """

    is_per_recording = True
    suffix = "edl"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        rate = _rate_of(export)
        lines = [f"TITLE: {one_line(export.title)}", "FCM: NON-DROP FRAME", ""]
        for number, row in enumerate(export.rows, start=1):
            frames = max(1, round((row.end - row.start) * rate))
            begin, end = time_code(row.start, rate), time_code(row.start + 1 / rate, rate)
            note = one_line(row.caption or ", ".join(row.tags) or row.reason).replace("|", "/")
            lines.append(f"{number:03d}  001      V     C        {begin} {end} {begin} {end}  ")
            lines.append(f" |C:ResolveColorBlue |M:{note} |D:{frames}\n")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


class LabelStudio(Exporter):
    """Label Studio: a video task a recording, its picks as predictions with captions as notes.

    The project's set-up has `<TimelineLabels name="label" toName="video">` with the label `picked`.
    """

    suffix = "json"

    def __call__(self, export: Export, path: Path) -> None:
        """Write `export` to `path`."""
        tasks: dict[str, dict[str, Any]] = {
            row.id: {
                "data": {"video": row.path, "name": row.name or name_of(row.path)},
                "predictions": [{"model_version": "earmark", "result": []}],
            }
            for row in export.recordings
        }
        rates = {row.id: row.frame_rate or FRAME_RATE for row in export.recordings}
        for number, row in enumerate(export.rows):
            (prediction,) = tasks[row.recording]["predictions"]
            prediction["result"].append(_region(row, rates[row.recording], number))
        text = json.dumps(list(tasks.values()), ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf-8", newline="\n")


def _clip(otio: Any, row: ExportRow, recording: RecordingRow, rate: float) -> Any:
    """A pick as a clip of the file it begins in, marked with what was said of it."""
    clip = in_chapter(Clip(row.path, row.start, row.end), recording.chapters)

    def span(start: float, end: float) -> Any:
        first = otio.opentime.RationalTime(round(start * rate), rate)
        length = otio.opentime.RationalTime(max(1, round((end - start) * rate)), rate)
        return otio.opentime.TimeRange(first, length)

    place = clip.path if is_remote(clip.path) else Path(clip.path).absolute().as_uri()
    said = one_line(row.caption or ", ".join(row.tags) or row.reason)
    media = otio.schema.ExternalReference(place, span(0.0, max(recording.duration, clip.end)))
    return otio.schema.Clip(
        name=PurePath(name_of(clip.path)).name,
        media_reference=media,
        source_range=span(clip.start, clip.end),
        markers=[otio.schema.Marker(said, span(clip.start, clip.end))],
        metadata={"earmark": dict(_about(row))},
    )


def _about(row: ExportRow) -> Iterator[tuple[str, Any]]:
    for name in ("recording", "start", "end", "instant", "score", "reason", "caption", "status"):
        value = getattr(row, name)
        if value is not None:
            yield name, value


def _region(row: ExportRow, rate: float, number: int) -> dict[str, Any]:
    """A stretch of a video as Label Studio's time line labels name it, frames counted from 1."""
    frames = {"start": round(row.start * rate) + 1, "end": max(1, round(row.end * rate))}
    return {
        "id": f"pick-{number}",
        "from_name": "label",
        "to_name": "video",
        "type": "timelinelabels",
        "value": {"ranges": [frames], "timelinelabels": ["picked"]},
        "meta": {"text": [row.caption or ", ".join(row.tags) or row.reason]},
    }
