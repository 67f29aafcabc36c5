"""Describes a recording from its index or its packets, decoding nothing."""

from __future__ import annotations

import hashlib
from contextlib import closing
from datetime import datetime
from pathlib import Path

from av.audio.stream import AudioStream
from av.video.stream import VideoStream

from earmark.errors import NoAudioStream, UnreadableFile
from earmark.media.audio_decoder import SOUND_RATES
from earmark.media.container import MediaFile, moving_pictures, open_media, open_storage
from earmark.media.highlight_marks import read_marks
from earmark.media.recording import Recording
from earmark.media.recording_part import AudioTrack, Part, VideoTrack
from earmark.media.source import Source, place_of
from earmark.media.storage import Meter
from earmark.media.stream_extents import Extent, bounds, measure, promised, zero_of

_LEAST_BYTES_A_SECOND = {False: 20, True: 60}
"""Of sound alone, and with pictures: digital silence as FLAC takes 27 at 8 kHz."""

_LONGEST = 7 * 24 * 3600.0
"""Seconds of one file; a damaged clock may promise months of nothing."""

_FIRST_YEAR = 1980
"""Of a clock that was set."""


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
    container = reason = began = ""
    for uri in source.uris:
        start = parts[-1].end if parts else 0.0
        with open_media(uri, meter, index_only=True) as file:
            parts.append(_describe(file, uri, start))
            keys.append(file.storage.key())
            container = container or file.container.format.name
            began = began if len(parts) > 1 else _began(file)
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


def _began(file: MediaFile) -> str:
    """When a file says that it began, in ISO 8601 to the second; empty where it does not.

    Cameras whose clock was never set say 1904 or 1970.
    """
    try:
        said = datetime.fromisoformat(file.container.metadata.get("creation_time", ""))
    except ValueError:
        return ""
    return said.isoformat(timespec="seconds") if said.year > _FIRST_YEAR else ""


def content_key(source: Source) -> str:
    """`Recording.key` of `source` without opening its containers."""
    keys = []
    for uri in source.uris:
        with closing(open_storage(uri, Meter())) as storage:
            keys.append(storage.key())
    return _join_keys(keys)


def _join_keys(keys: list[str]) -> str:
    return keys[0] if len(keys) == 1 else hashlib.sha256("".join(keys).encode()).hexdigest()


def _describe(file: MediaFile, uri: str, start: float) -> Part:
    audio = file.container.streams.audio
    pictures = moving_pictures(file.container)
    if not audio and pictures is None:
        raise UnreadableFile(
            f"{place_of(uri)} holds neither sound nor pictures; check that it plays"
        )
    extents = measure(file, [*audio, *([pictures] if pictures else [])])
    if not extents:
        raise UnreadableFile(f"{place_of(uri)} holds no packets; copy the whole file again")
    begin, end = bounds(extents.values(), extents.get(pictures.index) if pictures else None)
    zero = zero_of(file, begin)
    _check_clock(file, end - zero, has_pictures=pictures is not None)
    duration = max(0.0, end - zero)
    marks = (
        read_marks(file.storage, file.tracks.layout, duration=duration)
        if file.tracks.layout
        else ()
    )
    return Part(
        uri=uri,
        start=start,
        duration=duration,
        zero=zero,
        has_index=file.has_index,
        audio_tracks=tuple(_describe_audio(stream, extents) for stream in audio),
        video=_describe_video(file, pictures, extents) if pictures else None,
        size_bytes=file.storage.size_bytes,
        version=file.storage.version,
        promised=promised(file),
        marks=marks,
    )


def _check_clock(file: MediaFile, seconds: float, *, has_pictures: bool) -> None:
    """Make sure that the bytes of a file may last for `seconds`."""
    size = file.storage.size_bytes
    if not seconds <= min(_LONGEST, 60.0 + size / _LEAST_BYTES_A_SECOND[has_pictures]):
        hours = f"{seconds / 3600:,.1f}".removesuffix(".0")
        raise UnreadableFile(
            f"{place_of(file.storage.uri)} has damaged timestamps: {size:,} bytes cannot "
            f"last {hours} h; remux it, or convert what plays of it"
        )


def _describe_audio(stream: AudioStream, extents: dict[int, Extent]) -> AudioTrack:
    decoder = stream.codec_context  # None where libav knows no such codec
    extent = extents.get(stream.index, Extent())
    return AudioTrack(
        codec=getattr(decoder, "name", "unknown"),
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
    counted = extent.packets / seconds if extent.packets and seconds > 0 else None
    return VideoTrack(
        codec=getattr(decoder, "name", "unknown"),
        width_pixels=getattr(decoder, "width", 0),
        height_pixels=getattr(decoder, "height", 0),
        mean_fps=counted or float(stream.average_rate or 0.0),
        rotation=trak.rotation if trak else 0,
        start=extent.start,
        end=extent.end,
        missing_packets=extent.missing_packets,
    )


def _check_track(source: Source, parts: list[Part], track: int) -> None:
    most = max(len(part.audio_tracks) for part in parts)
    if track and track >= most:
        others = f"choose one of 0 to {most - 1} with `--audio-track`" if most else "it has none"
        raise NoAudioStream(f"{source.name} has no audio track {track}; {others}")
    for rate in (part.track(track).sample_rate for part in parts):
        if rate and rate not in SOUND_RATES:
            raise NoAudioStream(
                f"{source.name} has an audio track {track} at {rate} Hz, which is no sound; "
                "choose another with `--audio-track`"
            )
    if any(part.track(track).codec == "unknown" for part in parts):
        raise NoAudioStream(
            f"{source.name} has an audio track {track} that libav cannot decode; "
            "choose another with `--audio-track`"
        )
