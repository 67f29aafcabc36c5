"""How much listening to a recording will read, and what may go wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from earmark.media.audio_decoder import JITTER
from earmark.media.container import open_media
from earmark.media.packet_index import PacketIndex, read_packets
from earmark.media.recording import Recording
from earmark.media.recording_part import Part
from earmark.media.recording_warnings import list_warnings
from earmark.media.storage import Meter


@dataclass(frozen=True, slots=True)
class Inspection:
    """Sizes and warnings from the index of a recording."""

    audio_pass_bytes: int
    """Bytes that listening will read: index and audio packets, or the whole file; 0 without sound.

    Over a network a little more, since close packets are fetched together.
    """
    audio_packet_bytes: int | None
    """Bytes of the audio packets alone; None without an index."""
    index_bytes: int
    """Bytes of the index; 0 without one."""
    warnings: tuple[str, ...]
    """Possible problems, a line each; empty if there are none."""


def inspect(recording: Recording) -> Inspection:
    """Inspect the index of a recording; media data is not read."""
    files = [_inspect_part(recording, part) for part in recording.parts]
    packets = [file.audio_packet_bytes for file in files]
    extra = dict(zip(recording.parts, [file.warnings for file in files], strict=True))
    return Inspection(
        audio_pass_bytes=sum(file.audio_pass_bytes for file in files) * recording.has_audio,
        audio_packet_bytes=None if None in packets else sum(size or 0 for size in packets),
        index_bytes=sum(file.index_bytes for file in files),
        warnings=tuple(list_warnings(recording, extra)),
    )


def _inspect_part(recording: Recording, part: Part) -> Inspection:
    track, warnings = recording.audio_track, list[str]()
    if not part.has_index:
        if part.video:
            warnings.append(
                "no index to find the sound by, so all of the file is read to hear it; "
                "remux it to MP4 to read less"
            )
        return Inspection(part.size_bytes, None, 0, tuple(warnings))
    with open_media(part.uri, Meter(), version=part.version, index_only=True) as file:
        index_bytes = len(file.tracks.index.whole) if file.tracks.index else 0
        streams, packet_bytes = file.container.streams.audio, 0
        if track < len(streams):
            index = read_packets(file.storage, file.tracks.traks[streams[track].id])
            packet_bytes = index.size_bytes
            if not part.track(track).codec.startswith("pcm"):  # raw packets may last any time
                warnings += _timestamp_warnings(index)
    return Inspection(index_bytes + packet_bytes, packet_bytes, index_bytes, tuple(warnings))


def _timestamp_warnings(index: PacketIndex) -> list[str]:
    """Warnings about gaps and backward steps in audio timestamps."""
    steps = np.diff(index.stamps[index.is_shown]) / index.ticks_a_second
    if not len(steps):
        return []
    lines = []
    typical = float(np.median(steps))
    holes = steps[steps > typical + JITTER] - typical
    if len(holes):
        lines.append(
            f"{len(holes)} hole{'s' * (len(holes) > 1)} in the sound, "
            f"{holes.sum():.1f} s in all, heard as silence"
        )
    if np.any(steps < 0):
        lines.append(
            f"audio timestamps step back {np.sum(steps < 0)} times; what overlaps is heard once"
        )
    return lines
