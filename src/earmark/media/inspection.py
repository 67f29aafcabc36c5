"""What listening to a recording will cost, and what would go wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from earmark.media.audio_decoder import JITTER
from earmark.media.container import open_media
from earmark.media.packet_index import PacketIndex
from earmark.media.recording import Recording
from earmark.media.recording_part import Part
from earmark.media.source import name_of
from earmark.media.source_listing import missing_chapters
from earmark.media.storage import Meter

_LATE = 0.5
"""Seconds of missing sound at either end that are worth a word."""

_SHORT = 2.0
"""Seconds by which a file may end before its header says so: headers are rough."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a look at the index of a recording tells."""

    audio_pass_bytes: int
    """Bytes that listening will read: index and audio packets, or the whole file; 0 without sound.

    Over a network a little more, since close packets are fetched together.
    """
    audio_packet_bytes: int | None
    """Bytes of the audio packets alone; None where there is no index to tell."""
    index_bytes: int
    """Bytes of the index; 0 where there is none."""
    warnings: tuple[str, ...]
    """What would go wrong or surprise, a line each; empty when all is well."""


def list_warnings(recording: Recording) -> list[str]:
    """What is odd about a recording as far as its description tells, a line each."""
    lines = [*_about_tracks(recording), *_about_chapters(recording)]
    for part in recording.parts:
        lines += _named(recording, part, _about_part(recording, part))
    return lines


def inspect(recording: Recording) -> Inspection:
    """Look closer at a recording, at its index and not at its media."""
    files = [_inspect_part(recording, part) for part in recording.parts]
    packets = [file.audio_packet_bytes for file in files]
    warnings = [*_about_tracks(recording), *_about_chapters(recording)]
    for part, file in zip(recording.parts, files, strict=True):
        warnings += _named(recording, part, file.warnings)
    return Inspection(
        audio_pass_bytes=sum(file.audio_pass_bytes for file in files) * recording.has_audio,
        audio_packet_bytes=None if None in packets else sum(size or 0 for size in packets),
        index_bytes=sum(file.index_bytes for file in files),
        warnings=tuple(warnings),
    )


def _inspect_part(recording: Recording, part: Part) -> Inspection:
    track, warnings = recording.audio_track, [*_about_part(recording, part)]
    if not part.has_index:
        if part.video:
            warnings.append(
                f"no index to find the sound by, so all {part.size_bytes / 1e6:,.1f} MB are read "
                "to hear it; remux it to MP4 to read less"
            )
        return Inspection(part.size_bytes, None, 0, tuple(warnings))
    with open_media(part.uri, Meter(), version=part.version, index_only=True) as file:
        index_bytes = file.tracks.layout.index.whole.size_bytes if file.tracks.layout else 0
        streams, packet_bytes = file.container.streams.audio, 0
        if track < len(streams):
            index = file.index_of(streams[track])
            packet_bytes = index.size_bytes
            if not part.track(track).codec.startswith("pcm"):  # raw packets may last any time
                warnings += _about_stamps(index)
    return Inspection(index_bytes + packet_bytes, packet_bytes, index_bytes, tuple(warnings))


def _named(recording: Recording, part: Part, lines: Iterable[str]) -> list[str]:
    """Lines about one file; with its name where the recording has several."""
    name = f"{name_of(part.uri)}: " if len(recording.parts) > 1 else ""
    return [f"{name}{line}" for line in lines]


def _about_tracks(recording: Recording) -> list[str]:
    if not recording.has_audio:
        return ["no audio stream: by default windows are chosen by the sizes of its video packets"]
    if len(recording.audio_tracks) == 1:
        return []
    return [
        f"{len(recording.audio_tracks)} audio tracks, of which track {recording.audio_track} "
        "is listened to; choose another with `--audio-track`"
    ]


def _about_chapters(recording: Recording) -> list[str]:
    """Chapters that the names of the files say there were, and that are not among them."""
    gone = missing_chapters([part.uri for part in recording.parts])
    if not gone:
        return []
    which = f"chapter{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
    return [f"{which} not among its files, and the clock goes on without; copy all of them"]


def _about_part(recording: Recording, part: Part) -> Iterator[str]:
    """What one file lacks."""
    missing = sum(track.missing_packets for track in part.audio_tracks)
    missing += part.video.missing_packets if part.video else 0
    taken = f"it is taken to last {part.duration:.1f} s; copy the whole file again"
    if missing:
        yield f"cut off: {missing} packets of its index lie past the end of the file, so {taken}"
    elif part.promised - part.duration > _SHORT:
        yield f"cut off: its header says {part.promised:.1f} s, but {taken}"
    sound = part.track(recording.audio_track)
    late, early = sound.start - part.zero, part.zero + part.duration - sound.end
    if sound.is_empty:
        if recording.has_audio:
            yield "no sound on this track"
        return
    if late > _LATE:
        yield f"sound starts {late:.1f} s late; silence until then"
    if early > _LATE:
        yield f"sound ends {early:.1f} s before the pictures; silence from there"


def _about_stamps(index: PacketIndex) -> list[str]:
    """Holes and steps back in the times of audio packets."""
    steps = np.diff(index.stamps[index.is_shown]) / index.ticks_a_second
    if not len(steps):
        return []
    lines = []
    usual = float(np.median(steps))
    holes = steps[steps > usual + JITTER] - usual
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
