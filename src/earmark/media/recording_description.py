"""Describes a recording from its packets, without decoding; the header is not trusted."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import av
import av.error
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.format import Flags
from av.packet import Packet
from av.stream import Discard, Stream
from av.video.stream import VideoStream

from earmark.errors import NoAudioStream, UnreadableFile
from earmark.media.audio_decoder import SOUND_RATES
from earmark.media.container import (
    TOLERANCE,
    MediaFile,
    Tracks,
    demux_packets,
    find_video_stream,
    open_media,
    open_storage,
    seek_back,
)
from earmark.media.mp4_boxes import read_marks
from earmark.media.mp4_index import read_packets
from earmark.media.recording import AudioTrack, Part, Recording, VideoTrack
from earmark.media.source import Source, name_of, place_of
from earmark.media.storage import Meter
from earmark.wall_clock import camera_time

_LEAST_BYTES_A_SECOND = {False: 20, True: 60}
"""Without and with video: digital silence as FLAC takes 27 at 8 kHz."""

_LONGEST = 7 * 24 * 3600.0  # seconds; damaged timestamps may claim months
_APPLE_CREATION = "com.apple.quicktime.creationdate"
_LOCAL_TIME = ("GoPro", "DJI", "Ambarella")
"""Handlers of cameras that write their local time as UTC."""
_FIRST_YEAR = 1980  # cameras whose clock was never set give 1904 or 1970

_MOST_OVERHANG = 0.1
"""Seconds of sound past the video that do not make the recording longer: codecs pad."""

_GUESSED_DURATION: int = cast(Any, Flags.generic_index).value
"""Of formats such as MP3, whose duration is estimated from the bit rate."""

_NO_TIMESTAMPS: int = cast(Any, Flags.no_timestamps).value
"""Of formats that are the bytes of one stream, such as raw H.264."""

_TAIL = 10.0  # seconds before the claimed end from which packets are read to find the real one
_HEAD = 60.0  # seconds up to which packets are read to find when a stream begins
_MOST_FPS = 1000.0


@dataclass(frozen=True, slots=True)
class Extent:
    """In container time; the default is that of an empty stream."""

    start: float = 0.0
    end: float = 0.0
    packets: int | None = None
    missing_packets: int = 0


def open_recording(source: Source | str | Path, *, audio_track: int = 0) -> Recording:
    """The recording at a path, an address or a Source from `find`, described.

    Raises `UnreadableFile`, `RemoteError`, or `NoAudioStream` if it has audio tracks, but not
    `audio_track`.
    """
    if not isinstance(source, Source):
        source = Source((str(source),))
    if audio_track < 0:
        raise ValueError(f"audio tracks are counted from 0, so there is no track {audio_track}")
    meter = Meter()
    parts: list[Part] = []
    keys: list[str] = []
    container = reason = began = ""
    for uri in source.uris:
        start = parts[-1].end if parts else 0.0
        with open_media(uri, meter, index_only=True) as file:
            if not parts:
                container = file.container.format.name
                began = _read_began(file.container, name_of(uri))
            parts.append(_describe(file, uri, start))
            keys.append(file.storage.key())
            reason = reason if reason and parts[-1].has_index else file.tracks.access_reason
    _check_track(source, parts, audio_track)
    return Recording(
        source=source,
        duration=parts[-1].end,
        container=container,
        audio_track=audio_track,
        access="index" if all(part.has_index for part in parts) else "demux",
        access_reason=reason,
        size_bytes=sum(part.size_bytes for part in parts),
        key=_join_keys(keys),
        bytes_read=meter.bytes_read,
        parts=tuple(parts),
        began=began,
    )


def _read_began(container: InputContainer, name: str) -> str:
    """ISO 8601 to the second; empty if it cannot be right, and without a zone if that is unknown.

    Apple's tag has the zone.
    """
    tags = container.metadata
    handlers = (stream.metadata.get("handler_name", "") for stream in container.streams)
    with suppress(ValueError):
        created = tags.get(_APPLE_CREATION) or tags.get("creation_time", "")
        writes_local = any(maker in handler for handler in handlers for maker in _LOCAL_TIME)
        began = camera_time(created, name, writes_local=writes_local)
        if datetime.fromisoformat(began).year > _FIRST_YEAR:
            return began
    return ""


def content_key(source: Source) -> str:
    keys = []
    for uri in source.uris:
        with closing(open_storage(uri, Meter())) as storage:
            keys.append(storage.key())
    return _join_keys(keys)


def continues(recording: Recording, versions: Sequence[str]) -> bool:
    """Whether its files begin with those `versions`; the last may have grown, and more may follow.

    ├── chapter 1 ──┼─ chapter 2 ─┤               before
    ├── chapter 1 ──┼─ chapter 2 ───┼─ chapter 3  now
    """
    if not versions or recording.versions[: len(versions) - 1] != tuple(versions[:-1]):
        return False
    if len(versions) > len(recording.parts):
        return False
    uri = recording.parts[len(versions) - 1].uri
    with closing(open_storage(uri, Meter())) as storage:
        return storage.go_back_to(versions[-1])


def _join_keys(keys: list[str]) -> str:
    return keys[0] if len(keys) == 1 else hashlib.sha256("".join(keys).encode()).hexdigest()


def _describe(file: MediaFile, uri: str, start: float) -> Part:
    audio = file.container.streams.audio
    pictures = find_video_stream(file.container)
    if not audio and pictures is None:
        raise UnreadableFile(
            f"{place_of(uri)} holds neither sound nor pictures; check that it plays"
        )
    extents = measure_extents(file, [*audio, *([pictures] if pictures else [])])
    if not extents:
        why = "holds no packets; copy the whole file again"
        if file.container.format.flags & _NO_TIMESTAMPS:
            why = "is a bare stream without timestamps; remux it to MP4"
        raise UnreadableFile(f"{place_of(uri)} {why}")
    begin, end = bounds(extents.values(), extents.get(pictures.index) if pictures else None)
    zero = clock_zero(file.tracks, begin)
    duration, size = max(0.0, end - zero), file.storage.size_bytes
    if not end - zero <= min(_LONGEST, 60.0 + size / _LEAST_BYTES_A_SECOND[pictures is not None]):
        hours = f"{(end - zero) / 3600:,.1f}".removesuffix(".0")
        raise UnreadableFile(
            f"{place_of(uri)} has damaged timestamps: {size:,} bytes cannot last {hours} h; "
            "remux it, or convert the part that plays"
        )
    index = file.tracks.index
    return Part(
        uri=uri,
        start=start,
        duration=duration,
        zero=zero,
        has_index=bool(file.tracks.traks),
        audio_tracks=tuple(_describe_audio(stream, extents) for stream in audio),
        video=_describe_video(file, pictures, extents) if pictures else None,
        size_bytes=size,
        version=file.storage.version,
        promised=0.0 if index else header_duration(file.container),
        marks=read_marks(file.storage, index, duration=duration) if index else (),
    )


def _describe_audio(stream: AudioStream, extents: dict[int, Extent]) -> AudioTrack:
    decoder = stream.codec_context  # None if libav knows no such codec
    extent = extents.get(stream.index, Extent())
    return AudioTrack(
        codec=decoder.codec.canonical_name if decoder else "unknown",
        sample_rate=getattr(decoder, "sample_rate", 0),
        channels=getattr(decoder, "channels", 0),
        language=None if stream.language in (None, "und") else stream.language,
        start=extent.start,
        end=extent.end,
        missing_packets=extent.missing_packets,
    )


def _describe_video(file: MediaFile, stream: VideoStream, extents: dict[int, Extent]) -> VideoTrack:
    decoder = stream.codec_context
    extent = extents.get(stream.index, Extent())
    trak = file.tracks.traks.get(stream.id)
    seconds = extent.end - extent.start
    # Some writers of Matroska give the ticks of their clock as the average rate.
    header_rate = float(stream.average_rate or 0.0)
    if header_rate > _MOST_FPS:
        header_rate = float(stream.guessed_rate or 0.0)
    counted = extent.packets / seconds if extent.packets and seconds > 0 else None
    return VideoTrack(
        codec=decoder.codec.canonical_name if decoder else "unknown",
        width_pixels=getattr(decoder, "width", 0),
        height_pixels=getattr(decoder, "height", 0),
        mean_fps=counted or header_rate,
        rotation=trak.rotation if trak else 0,
        start=extent.start,
        end=extent.end,
        missing_packets=extent.missing_packets,
    )


def _check_track(source: Source, parts: list[Part], track: int) -> None:
    most = max(len(part.audio_tracks) for part in parts)
    if track and track >= most:
        others = f"choose an `audio_track` of 0 to {most - 1}" if most else "it has none"
        raise NoAudioStream(f"{source.name} has no audio track {track}; {others}")
    for rate in (part.track(track).sample_rate for part in parts):
        if rate and rate not in SOUND_RATES:
            raise NoAudioStream(
                f"{source.name} has an audio track {track} at {rate} Hz, "
                "which is not a sample rate of sound; choose another `audio_track`"
            )
    if any(part.track(track).codec == "unknown" for part in parts):
        raise NoAudioStream(
            f"{source.name} has an audio track {track} that libav cannot decode; "
            "choose another `audio_track`"
        )


def measure_extents(file: MediaFile, streams: list[Stream]) -> dict[int, Extent]:
    """By the index of the stream; streams without packets are left out."""
    if file.tracks.traks:
        extents = {}
        for stream in streams:
            index = read_packets(file.storage, file.tracks.traks[stream.id])
            if count := int(index.is_shown.sum()):
                extents[stream.index] = Extent(index.start, index.end, count, index.missing_packets)
        return extents
    if file.tracks.is_fragmented:
        return _by_fragments(file, streams)
    return _by_tail(file.container, streams) or _by_scan(file.container, streams)


def clock_zero(tracks: Tracks, begin: float) -> float:
    """The container time at which the recording begins.

    An MP4 with an index begins at its own 0, other files at the first packet. Just before 0 that is
    priming of the codec; further before, a clock that wrapped around (MPEG-TS).
    """
    if tracks.traks:
        return 0.0
    return begin if begin < -_MOST_OVERHANG and tracks.index is None else max(0.0, begin)


def header_duration(container: InputContainer) -> float:
    """Seconds; 0 if there is none, or it is only a guess."""
    is_measured = not container.format.flags & _GUESSED_DURATION
    return (container.duration or 0) / av.time_base if is_measured else 0.0


def bounds(extents: Collection[Extent], video: Extent | None) -> tuple[float, float]:
    """Sound that overhangs the pictures a little does not count."""
    begin = min(extent.start for extent in extents)
    end = max(extent.end for extent in extents)
    if video and video.start - begin < _MOST_OVERHANG:
        begin = video.start
    if video and end - video.end < _MOST_OVERHANG:
        end = video.end
    return begin, end


def _by_fragments(file: MediaFile, streams: list[Stream]) -> dict[int, Extent]:
    for stream in file.container.streams:
        stream.discard = Discard.all
    deque(demux_packets(file.container), maxlen=0)
    extents = {}
    for stream in streams:
        count = _entries_within(stream, file.storage.size_bytes)
        if count and stream.time_base is not None:
            extents[stream.index] = _by_entries(stream, count, float(stream.time_base))
    return extents


def _entries_within(stream: Stream, size_bytes: int) -> int:
    entries = stream.index_entries
    count = len(entries)
    while count and entries[count - 1].pos + entries[count - 1].size > size_bytes:
        count -= 1
    return count


def _by_entries(stream: Stream, count: int, tick: float) -> Extent:
    entries = stream.index_entries
    first, last = entries[0].timestamp, entries[count - 1].timestamp
    step = last - entries[count - 2].timestamp if count > 1 else 0
    # Entries have decode times; all pictures are shown as much later as the first one.
    begin = first if stream.start_time is None else max(first, stream.start_time)
    delay = begin - first if stream.type == "video" else 0
    ends = [last + delay + step, begin + (stream.duration or 0)]
    end = ends[1] if last + delay < ends[1] < ends[0] else ends[0]
    return Extent(max(0, begin) * tick, end * tick, count, len(entries) - count)


def _by_tail(container: InputContainer, streams: list[Stream]) -> dict[int, Extent]:
    if not (length := header_duration(container)):
        return {}
    begin = container.start_time or 0
    target = begin + round((length - _TAIL) * av.time_base)
    try:
        firsts = _begin(container, streams)
        seek_back(container, max(begin, target))
        extents = _by_scan(container, streams, firsts)
    except av.error.FFmpegError:
        extents = {}
    if all(stream.index in extents for stream in streams):
        return extents
    seek_back(container, begin)  # One stream ended earlier: find out with a whole pass.
    return {}


def _begin(container: InputContainer, streams: list[Stream]) -> dict[int, float]:
    """Reads until every stream has a packet, or for `_HEAD` s."""
    firsts: dict[int, float] = {}
    limit = (container.start_time or 0) / av.time_base + _HEAD
    for packet, time, _ in _timed_packets(container, streams):
        firsts.setdefault(packet.stream.index, time)
        if len(firsts) == len(streams) or time > limit:
            break
    return firsts


def _by_scan(
    container: InputContainer, streams: list[Stream], starts: dict[int, float] | None = None
) -> dict[int, Extent]:
    """`starts` are those of streams whose beginning is not scanned."""
    firsts = dict(starts or {})
    lasts: dict[int, tuple[float, float]] = {}
    for packet, time, step in _timed_packets(container, streams):
        index = packet.stream.index
        firsts[index] = min(time, firsts.get(index, time))
        lasts[index] = max((time, time + step), lasts.get(index, (time, time)))
    return {
        stream.index: _extent_of(stream, firsts[stream.index], *lasts[stream.index])
        for stream in streams
        if stream.index in lasts
    }


def _timed_packets(
    container: InputContainer, streams: list[Stream]
) -> Iterator[tuple[Packet[Any], float, float]]:
    """With the time at which each is shown, and for how long: 0 if not known."""
    for packet in demux_packets(container, *streams):
        if packet.pts is not None and packet.time_base is not None:
            tick = float(packet.time_base)
            step = (packet.duration or 0) * tick
            if not step and isinstance(packet.stream, VideoStream) and packet.stream.average_rate:
                step = float(1 / packet.stream.average_rate)
            yield packet, packet.pts * tick, step


def _extent_of(stream: Stream, first: float, last: float, end: float) -> Extent:
    if stream.start_time is None or stream.time_base is None:
        return Extent(first, end)
    reported = stream.start_time * float(stream.time_base)
    promised = reported + (stream.duration or 0) * float(stream.time_base)
    # The header gives a later time if there is priming to leave out (MP3), and an earlier one if
    # the stream begins after the part of the file that the demuxer looked at.
    return Extent(max(reported, first), promised if last + TOLERANCE < promised < end else end)
