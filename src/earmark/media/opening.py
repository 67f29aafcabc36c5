"""Describes a recording from its index or its packets, decoding nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from av.container import InputContainer
from av.stream import Stream
from av.video.stream import VideoStream

from earmark.errors import NoAudioStream, UnreadableFile
from earmark.media.container import Opened, opened
from earmark.media.packets import read_index
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.source import Source, name_of
from earmark.media.storage import Meter

OVERHANG = 0.1
"""Seconds by which sound may overhang the pictures without making the recording longer.

Codecs begin with priming and fill up their last packet; that is not time anybody filmed.
"""


@dataclass(frozen=True, slots=True)
class _Extent:
    """When a stream is shown, in the container's time, and how many packets it has."""

    start: float
    end: float
    packets: int


def open_recording(source: Source | str | Path, *, audio_track: int = 0) -> Recording:
    """The recording at `source`, described.

    Args:
        source: A path, an address, or a Source from `find`.
        audio_track: Which audio track to listen to, from 0.

    Raises:
        UnreadableFile: missing, empty, cut off or not media.
        RemoteError: the server stands in the way.
        NoAudioStream: it has audio tracks, but not that one.
    """
    if not isinstance(source, Source):
        source = Source((str(source),))
    if audio_track < 0:
        raise ValueError(f"audio tracks are counted from 0, so there is no track {audio_track}")
    meter = Meter()
    parts: list[Part] = []
    keys: list[str] = []
    warnings: list[str] = []
    container = ""
    for uri in source.uris:
        start = parts[-1].start + parts[-1].duration if parts else 0.0
        with opened(uri, meter, index_only=True) as file:
            parts.append(_describe(file, uri, start, warnings))
            keys.append(file.storage.key())
            container = container or file.container.format.name
    _check_track(source, parts, audio_track)
    return Recording(
        source=source,
        duration=parts[-1].start + parts[-1].duration,
        container=container,
        audio_track=audio_track,
        access="index" if all(part.has_index for part in parts) else "demux",
        access_reason=_reason(parts, container),
        size_bytes=sum(part.size_bytes for part in parts),
        key=keys[0] if len(keys) == 1 else hashlib.sha256("".join(keys).encode()).hexdigest(),
        bytes_read=meter.bytes_read,
        parts=tuple(parts),
        warnings=tuple(warnings),
    )


def _describe(file: Opened, uri: str, start: float, warnings: list[str]) -> Part:
    audio = file.container.streams.audio
    pictures = _pictures(file.container)
    if not audio and pictures is None:
        raise UnreadableFile(
            f"{name_of(uri)} holds neither sound nor pictures; check that it plays"
        )
    wanted: list[Stream] = [*audio, *([pictures] if pictures else [])]
    extents = _indexed(file, wanted, warnings) if file.has_index else _scanned(file, wanted)
    if not extents:
        raise UnreadableFile(f"{name_of(uri)} holds no packets; copy the whole file again")
    seen = extents.get(pictures.index) if pictures else None
    begin, end = _bounds([extents[s.index] for s in audio if s.index in extents], seen)
    zero = 0.0 if file.has_index else max(0.0, begin)
    return Part(
        uri=uri,
        start=start,
        duration=max(0.0, end - zero),
        zero=zero,
        has_index=file.has_index,
        audio_tracks=tuple(
            AudioTrack(
                stream.codec_context.name, stream.sample_rate, stream.channels, stream.language
            )
            for stream in audio
        ),
        video=_describe_video(pictures, seen) if pictures else None,
        size_bytes=file.storage.size_bytes,
    )


def _bounds(heard: list[_Extent], seen: _Extent | None) -> tuple[float, float]:
    """When the file begins and ends to be shown; the pictures decide where sound overhangs."""
    begin = min(extent.start for extent in [*heard, *([seen] if seen else [])])
    end = max(extent.end for extent in [*heard, *([seen] if seen else [])])
    if seen and seen.start - begin < OVERHANG:
        begin = seen.start
    if seen and end - seen.end < OVERHANG:
        end = seen.end
    return begin, end


def _pictures(container: InputContainer) -> VideoStream | None:
    """The first stream of moving pictures; the cover of an album is not one."""
    moving = (
        stream
        for stream in container.streams.video
        if not stream.disposition & stream.disposition.attached_pic
    )
    return next(moving, None)


def _describe_video(stream: VideoStream, extent: _Extent | None) -> VideoTrack:
    seconds = extent.end - extent.start if extent else 0.0
    return VideoTrack(
        codec=stream.codec_context.name,
        width_pixels=stream.codec_context.width,
        height_pixels=stream.codec_context.height,
        mean_fps=extent.packets / seconds if extent and seconds > 0 else 0.0,
    )


def _indexed(file: Opened, streams: list[Stream], warnings: list[str]) -> dict[int, _Extent]:
    """When each stream is shown, by its index; one without packets is left out."""
    extents = {}
    for stream in streams:
        index = read_index(stream)
        present = index.within(file.storage.size_bytes)
        if len(present) < len(index):
            warnings.append(
                f"{name_of(file.storage.uri)} is cut off: {len(index) - len(present)} of "
                f"{len(index)} {stream.type} packets lie past the end of the file"
            )
        shown = present[~present.is_discard]
        if not len(shown) or stream.time_base is None:
            continue
        first = int(shown.stamps[0])
        begin = stream.start_time if stream.start_time is not None else first
        delay = max(0, begin - first) if stream.type == "video" else 0
        claimed = begin + stream.duration - delay if stream.duration else None
        end = shown.end_stamp(claimed) + delay
        tick = float(stream.time_base)
        extents[stream.index] = _Extent(max(0, begin) * tick, end * tick, len(shown))
    return extents


def _scanned(file: Opened, streams: list[Stream]) -> dict[int, _Extent]:
    """When each stream is shown, by its packets."""
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    counts: dict[int, int] = {}
    for packet in file.container.demux(streams):
        if packet.pts is None or packet.time_base is None:
            continue
        tick, place = float(packet.time_base), packet.stream.index
        starts[place] = min(packet.pts * tick, starts.get(place, float("inf")))
        ends[place] = max((packet.pts + (packet.duration or 0)) * tick, ends.get(place, 0.0))
        counts[place] = counts.get(place, 0) + 1
    for stream in streams:
        if stream.index in starts and stream.start_time is not None and stream.time_base:
            # Later than the first packet where the demuxer knows of priming to leave out (MP3).
            starts[stream.index] = stream.start_time * float(stream.time_base)
    return {place: _Extent(starts[place], ends[place], counts[place]) for place in starts}


def _reason(parts: list[Part], container: str) -> str:
    if all(part.has_index for part in parts):
        return "its index says where every audio packet lies"
    kind = container.partition(",")[0]
    return f"{kind} files of this layout keep no index of every packet"


def _check_track(source: Source, parts: list[Part], track: int) -> None:
    most = max(len(part.audio_tracks) for part in parts)
    if most and track >= most:
        raise NoAudioStream(
            f"{source.name} has no audio track {track}; choose one of 0 to {most - 1} "
            "with `--audio-track`"
        )
