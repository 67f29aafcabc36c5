"""Warnings about a recording, from its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from earmark.media.recording import Recording
from earmark.media.recording_part import Part
from earmark.media.source import name_of
from earmark.media.source_listing import missing_chapters

_LEAST_SILENCE = 0.5
"""Seconds of missing sound at either end that give a warning."""

_HEADER_TOLERANCE = 2.0
"""Seconds by which a file may end before its header says so: headers are rough."""


def list_warnings(
    recording: Recording, extra: Mapping[Part, Sequence[str]] = MappingProxyType({})
) -> list[str]:
    """Warnings about a recording, a line each; `extra` are further ones of its files."""
    lines, tracks = list[str](), len(recording.audio_tracks)
    if not tracks:
        lines = ["no audio stream: by default windows are chosen by the sizes of its video packets"]
    elif tracks > 1:
        lines = [
            f"{tracks} audio tracks, of which track {recording.audio_track} "
            "is listened to; choose another with `--audio-track`"
        ]
    if missing_numbers := missing_chapters([part.uri for part in recording.parts]):
        which = f"chapter{'s' * (len(missing_numbers) > 1)} {', '.join(map(str, missing_numbers))}"
        lines.append(
            f"{which} not among its files, and the clock goes on without; copy all of them"
        )
    for part in recording.parts:
        name = f"{name_of(part.uri)}: " if len(recording.parts) > 1 else ""
        warnings = (*_part_warnings(recording, part), *extra.get(part, ()))
        lines += [f"{name}{line}" for line in warnings]
    return lines


def _part_warnings(recording: Recording, part: Part) -> Iterator[str]:
    """Warnings about one file."""
    missing = sum(track.missing_packets for track in part.audio_tracks)
    missing += part.video.missing_packets if part.video else 0
    length = f"it is taken to last {part.duration:.1f} s; copy the whole file again"
    if missing:
        yield f"cut off: {missing} packets of its index lie past the end of the file, so {length}"
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
        yield f"sound ends {early:.1f} s before the pictures; silence from there"
