"""`earmark probe`: prints what a file contains, and how many bytes listening will read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from earmark.cli.options import OutcomeAs, Paths, TrackNumber, sources_at
from earmark.errors import EarmarkError
from earmark.media import Recording, open_recording
from earmark.media.inspection import Inspection, inspect
from earmark.reporting.console import Format, emit_json, err, out, warn
from earmark.reporting.text_format import counted, format_bytes
from earmark.timeline import format_clock

MOST_MARKS = 20
"""Most highlights printed on the terminal; JSON lists all."""


def probe(
    paths: Paths,
    audio_track: TrackNumber = 0,
    format: OutcomeAs = Format.table,
) -> None:
    """Print what recordings contain: length, streams, the bytes that listening reads, and problems.

    Only the index of a file is read, or as much of the file as is needed to
    know its length.

    For example:

      earmark probe shift.mp4

      earmark probe archive/ --format json
    """
    found: list[dict[str, Any]] = []
    failures: list[dict[str, str]] = []
    for source in sources_at(paths):
        try:
            recording = open_recording(source, audio_track=audio_track)
            inspection = inspect(recording)
        except EarmarkError as error:
            failures.append({"path": source.path, "error": str(error)})
            err.print(f"earmark: {error}", style="red")
            continue
        found.append(as_plain(recording, inspection))
        if format is Format.table:
            show(recording, inspection)
    if format is Format.json:
        emit_json({"recordings": found, "failures": failures})
    if failures:
        raise typer.Exit(1)


def show(recording: Recording, inspection: Inspection) -> None:
    """Print one recording as a paragraph; warnings go to stderr."""
    out.print(recording.name, style="bold")
    size = format_bytes(recording.size_bytes)
    out.print(f"  {format_clock(recording.duration)}, {size}, {recording.container}")
    for path in recording.source.paths if len(recording.parts) > 1 else ():
        out.print(f"  chapter {path}")
    if video := recording.video:
        turned = f", turned {video.rotation}°" if video.rotation else ""
        # With some codecs (MPEG-4 Part 2) only the first frame has the size, and it is not decoded.
        size = f" {video.width_pixels}x{video.height_pixels}" if video.width_pixels else ""
        rate = f"{video.mean_fps:.2f} frames a second"
        out.print(f"  video: {video.codec}{size}, {rate}{turned}")
    for place, track in enumerate(recording.audio_tracks):
        chosen = " (listened to)" if place == recording.audio_track else ""
        language = f", {track.language}" if track.language else ""
        # Reading the start of the container may not reach a track that begins late.
        shape = f" {track.sample_rate} Hz, {counted(track.channels, 'channel')}"
        shape = shape if track.sample_rate else ""
        out.print(f"  audio {place}: {track.codec}{shape}{language}{chosen}")
    if recording.marks:
        times = ", ".join(map(format_clock, recording.marks[:MOST_MARKS]))
        rest = ", …" if len(recording.marks) > MOST_MARKS else ""
        out.print(f"  {counted(len(recording.marks), 'highlight')} marked: {times}{rest}")
    if recording.has_audio:
        share = inspection.audio_pass_bytes / max(1, recording.size_bytes)
        out.print(
            f"  listening reads {format_bytes(inspection.audio_pass_bytes)} ({100 * share:.1f} %) "
            f"by {recording.access}: {recording.access_reason}"
        )
    for line in inspection.warnings:
        warn(f"{recording.name}: {line}")


def as_plain(recording: Recording, inspection: Inspection) -> dict[str, Any]:
    """The recording and its inspection as values for JSON."""
    names = ("duration", "size_bytes", "container", "access", "access_reason")
    return {
        "path": recording.source.path,
        "chapters": list(recording.source.paths),
        **{name: getattr(recording, name) for name in names},
        "video": asdict(recording.video) if recording.video else None,
        "audio_tracks": [asdict(track) for track in recording.audio_tracks],
        "audio_track": recording.audio_track,
        "marks": list(recording.marks),
        **asdict(inspection),
    }
