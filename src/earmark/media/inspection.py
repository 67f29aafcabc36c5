from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from earmark.media.audio_decoder import JITTER
from earmark.media.container import open_media
from earmark.media.mp4_index import PacketIndex, read_packets
from earmark.media.recording import Part, Recording
from earmark.media.source import name_of
from earmark.media.source_listing import missing_chapters
from earmark.media.storage import Meter
from earmark.text_format import Heading, counted, format_bytes
from earmark.timeline import format_clock

_MOST_MARKS = 20
"""Most highlights printed; JSON lists all."""


@dataclass(frozen=True, slots=True)
class Inspection:
    audio_pass_bytes: int
    """Of the index and the audio packets, or of the whole file; 0 without sound."""
    audio_packet_bytes: int | None
    """None without an index."""
    index_bytes: int
    warnings: tuple[str, ...]

    def to_json(self, recording: Recording) -> dict[str, Any]:
        names = ("duration", "size_bytes", "container", "access", "access_reason")
        return {
            "path": recording.source.path,
            "chapters": list(recording.source.paths),
            **{name: getattr(recording, name) for name in names},
            "video": asdict(recording.video) if recording.video else None,
            "audio_tracks": [asdict(track) for track in recording.audio_tracks],
            "audio_track": recording.audio_track,
            "marks": list(recording.marks),
            **asdict(self),
        }

    def lines(self, recording: Recording) -> Iterator[str]:
        """What the recording contains, and how much of it listening reads."""
        yield Heading(recording.name)
        size = format_bytes(recording.size_bytes)
        yield f"  {format_clock(recording.duration)}, {size}, {recording.container}"
        for path in recording.source.paths if len(recording.parts) > 1 else ():
            yield f"  chapter {path}"
        if video := recording.video:
            turned = f", turned {video.rotation}°" if video.rotation else ""
            # With some codecs (MPEG-4 Part 2) only the first frame has the size, and it is not
            # decoded.
            size = f" {video.width_pixels}x{video.height_pixels}" if video.width_pixels else ""
            yield f"  video: {video.codec}{size}, {video.mean_fps:.2f} frames a second{turned}"
        for number, track in enumerate(recording.audio_tracks):
            chosen = " (listened to)" if number == recording.audio_track else ""
            language = f", {track.language}" if track.language else ""
            # Reading the start of the container may not reach a track that begins late.
            shape = f" {track.sample_rate} Hz, {counted(track.channels, 'channel')}"
            shape = shape if track.sample_rate else ""
            yield f"  audio {number}: {track.codec}{shape}{language}{chosen}"
        if recording.marks:
            times = ", ".join(map(format_clock, recording.marks[:_MOST_MARKS]))
            rest = ", …" if len(recording.marks) > _MOST_MARKS else ""
            yield f"  {counted(len(recording.marks), 'highlight')} marked: {times}{rest}"
        if recording.has_audio:
            share = self.audio_pass_bytes / max(1, recording.size_bytes)
            yield (
                f"  listening reads {format_bytes(self.audio_pass_bytes)} ({100 * share:.1f} %) "
                f"by {recording.access}: {recording.access_reason}"
            )


def inspect(recording: Recording) -> Inspection:
    """Media data is not read."""
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
                "no index of the sound, so the whole file is read to listen to it; "
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
    steps = np.diff(index.stamps[index.is_shown]) / index.ticks_a_second
    if not len(steps):
        return []
    lines = []
    typical = float(np.median(steps))
    holes = steps[steps > typical + JITTER] - typical
    if len(holes):
        lines.append(
            f"{len(holes)} gap{'s' * (len(holes) > 1)} in the sound, "
            f"{holes.sum():.1f} s in all, treated as silence"
        )
    if np.any(steps < 0):
        lines.append(
            f"audio timestamps step back {np.sum(steps < 0)} times; overlapping sound is read once"
        )
    return lines


_LEAST_SILENCE = 0.5
"""Seconds of missing sound at either end."""

_HEADER_TOLERANCE = 2.0
"""Seconds by which a file may end before its header says so."""


def list_warnings(
    recording: Recording, extra: Mapping[Part, Sequence[str]] = MappingProxyType({})
) -> list[str]:
    lines, tracks = list[str](), len(recording.audio_tracks)
    if not tracks:
        lines = ["no audio stream: by default windows are chosen by the sizes of its video packets"]
    elif tracks > 1:
        lines = [
            f"{tracks} audio tracks, of which track {recording.audio_track} "
            "is listened to; choose another `audio_track`"
        ]
    if missing_numbers := missing_chapters([part.uri for part in recording.parts]):
        which = f"chapter{'s' * (len(missing_numbers) > 1)} {', '.join(map(str, missing_numbers))}"
        lines.append(f"{which} missing, and times do not count the gap; copy all files")
    for part in recording.parts:
        name = f"{name_of(part.uri)}: " if len(recording.parts) > 1 else ""
        warnings = (*_part_warnings(recording, part), *extra.get(part, ()))
        lines += [f"{name}{line}" for line in warnings]
    return lines


def _part_warnings(recording: Recording, part: Part) -> Iterator[str]:
    missing = sum(track.missing_packets for track in part.audio_tracks)
    missing += part.video.missing_packets if part.video else 0
    length = f"it is treated as {part.duration:.1f} s long; copy the whole file again"
    if missing:
        yield f"cut off: {missing} packets in its index are past the end of the file, so {length}"
    elif part.promised - part.duration - max(0.0, part.zero) > _HEADER_TOLERANCE:
        yield f"cut off: its header says {part.promised:.1f} s, but {length}"
    sound = part.track(recording.audio_track)
    late, early = sound.start - part.zero, part.zero + part.duration - sound.end
    if sound.is_empty:
        if recording.has_audio:
            yield "no sound on this track"
        return
    if late > _LEAST_SILENCE:
        yield f"sound starts {late:.1f} s late; silence until then"
    if early > _LEAST_SILENCE:
        yield f"sound ends {early:.1f} s before the pictures; silence after that"
