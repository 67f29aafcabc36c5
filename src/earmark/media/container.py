from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any, TypeVar

import av
import av.error
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Discard, Disposition, Stream
from av.video.stream import VideoStream

from earmark.errors import MediaError, UnreadableFile, summarise
from earmark.media.mp4_boxes import (
    Mp4Box,
    Trak,
    check_table_places,
    describe,
    read_boxes,
    read_traks,
)
from earmark.media.mp4_index import check_fragments, why_unsupported
from earmark.media.source import is_remote, place_of, suffix_of
from earmark.media.storage import LocalStorage, Meter, Storage, file_changed

_FORMATS = (
    "aac ac3 aiff amr ape asf au av1 avi caf dhav dts dv eac3 flac flv gxf h264 hevc ivf m4v "
    "matroska mov mp3 mpeg mpegts mpegvideo mxf nut obu ogg rm tta w64 wav wtv wv"
)
FILE_OPTIONS = {"format_whitelist": ",".join(_FORMATS.split()), "protocol_whitelist": "none"}
"""Only formats that contain the media themselves: playlists and session descriptions open files and
sockets. No protocol is allowed, so that a format cannot open anything else."""

_COVER_ART = Disposition.attached_pic
MOST_PIXELS = 1 << 27  # four times 8K: a damaged header may ask for gigabytes
TOLERANCE = 1e-6
_FARTHEST = 1 << 62  # libav counts ticks in 64 bits
Decoded = TypeVar("Decoded")


@dataclass(frozen=True, slots=True)
class Tracks:
    index: Mp4Box | None
    """The moov box of an MP4 or MOV file."""
    traks: dict[int, Trak]
    """By number; empty if the file must be demuxed."""
    access_reason: str
    is_fragmented: bool = False
    description: bytes = b""
    end: int | None = None
    """The first byte that libav must not read; None if it may read the whole file."""


_tracks_cache: dict[tuple[str, str], Tracks] = {}
_MOST_CACHED = 16


@dataclass(frozen=True, slots=True)
class MediaFile:
    container: InputContainer
    storage: Storage
    tracks: Tracks


def open_storage(uri: str, meter: Meter) -> Storage:
    if not is_remote(uri):
        return LocalStorage(uri, meter)
    if suffix_of(uri) in (".m3u8", ".mpd"):
        raise _playlist(uri)
    from earmark.media.remote_storage import RemoteStorage

    return RemoteStorage(uri, meter)


@contextmanager
def open_media(
    uri: str, meter: Meter, *, version: str = "", index_only: bool = False
) -> Iterator[MediaFile]:
    """Refuses another `version` of the storage; with `index_only`, libav gets no packets."""
    storage = open_storage(uri, meter)
    try:
        if version and not storage.go_back_to(version):
            raise file_changed(uri)
        if storage.size_bytes == 0:
            raise UnreadableFile(f"{place_of(uri)} is empty (0 bytes); copy it again")
        file = _open_indexed(storage, _tracks_of(storage, version), index_only=index_only)
        with file.container:
            yield file
    except av.error.FFmpegError as error:
        raise unreadable_file(uri, error) from error
    finally:
        storage.close()


def _tracks_of(storage: Storage, version: str) -> Tracks:
    key = storage.uri, storage.version
    if version and (cached := _tracks_cache.get(key)):
        if cached.index and cached.traks:
            storage.hold(cached.index.whole)
        return cached
    _tracks_cache[key] = tracks = _read_tracks(storage)
    if len(_tracks_cache) > _MOST_CACHED:
        del _tracks_cache[next(iter(_tracks_cache))]
    return tracks


def _read_tracks(storage: Storage) -> Tracks:
    boxes = read_boxes(storage)
    if not boxes:
        return Tracks(None, {}, "its container has no index of its packets")
    index = boxes[b"moov"]
    check_table_places(storage, index)
    traks = read_traks(storage, index)
    obstacles = [why_unsupported(storage, trak) for trak in traks]
    if b"moof" in boxes or any(box.kind == b"mvex" for box in index.children):
        reason = "it is fragmented, so its index is in pieces"
        return Tracks(index, {}, reason, is_fragmented=True, end=check_fragments(storage))
    media_traks = {}
    for trak, obstacle in zip(traks, obstacles, strict=True):
        if trak.kind in (b"soun", b"vide"):
            if obstacle:
                return Tracks(index, {}, obstacle)
            media_traks[trak.number] = trak
    if not media_traks:
        return Tracks(index, {}, "its index is of an unsupported kind")
    description = describe(storage, *(boxes[kind] for kind in (b"ftyp", b"moov") if kind in boxes))
    reason = "its index lists every audio packet"
    return Tracks(index, media_traks, reason, description=description)


def _open_indexed(storage: Storage, tracks: Tracks, *, index_only: bool) -> MediaFile:
    if index_only and tracks.description:
        bare = _open_container(io.BytesIO(tracks.description), storage)
        streams = (*bare.streams.audio, *bare.streams.video)
        if all(s.id in tracks.traks or s.disposition & _COVER_ART for s in streams):
            return MediaFile(bare, storage, tracks)
        bare.close()
        reason = "its index and its tracks do not agree"
        tracks = replace(tracks, traks={}, access_reason=reason)
    return MediaFile(_open_container(_ByteFile(storage, tracks.end), storage), storage, tracks)


def _open_container(file: object, storage: Storage) -> InputContainer:
    try:
        return av.open(file, mode="r", metadata_errors="replace", options=dict(FILE_OPTIONS))
    except MediaError:
        raise
    except (av.error.FFmpegError, ValueError) as error:
        if _is_text(storage.read(0, 4096)):
            raise _playlist(storage.uri) from error
        raise unreadable_file(storage.uri, error) from error


def _playlist(uri: str) -> UnreadableFile:
    return UnreadableFile(
        f"{place_of(uri)} is text, not a media file; playlists are not followed, "
        "so name the media files themselves"
    )


def _is_text(head: bytes) -> bool:
    return head.isascii() and head.decode("ascii").replace("\n", "").replace("\r", "").isprintable()


def unreadable_file(uri: str, error: Exception) -> UnreadableFile:
    reason = getattr(error, "strerror", None) or summarise(error)
    return UnreadableFile(
        f"{place_of(uri)} is not a media file libav can read ({reason}); check that it plays"
    )


def select_stream(container: InputContainer, stream: Stream) -> None:
    for other in container.streams:
        other.discard = Discard.default if other == stream else Discard.all
    if isinstance(stream, VideoStream):
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.options = {"max_pixels": str(MOST_PIXELS)}


def seek_back(container: InputContainer, offset: int, stream: Stream | None = None) -> None:
    """Seek to the last key frame by `offset`, in ticks of `stream` or in microseconds.

    If there is none, to the first after it: some formats (AVI, FLV) have no other way to the start.
    In MPEG streams libav seeks by decode time and may fail: the start is the first byte there.
    """
    offset = max(-_FARTHEST, min(offset, _FARTHEST))
    is_mpeg = container.format.name in ("mpegts", "mpeg")
    if is_mpeg and offset <= ((stream or container).start_time or 0):
        container.seek(0, unsupported_byte_offset=True)
        return
    try:
        container.seek(offset, stream=stream)
    except av.error.FFmpegError:
        if is_mpeg:
            container.seek(0, unsupported_byte_offset=True)
        else:
            container.seek(offset, stream=stream, backward=False)


def read_from_key(
    container: InputContainer, streams: Sequence[Stream], time: float
) -> Iterator[Packet[Any]]:
    """The packets up to the end of the file, first a key frame of the first stream.

    It is shown by `time`, in container time, if any is; then comes what lies before it in the file.
    """
    main, back = streams[0], 0.0
    tick = main.time_base or Fraction(1, av.time_base)
    begin = float((main.start_time or 0) * tick)
    while True:
        seek_back(container, round((time - back) / tick), main)
        packets = (packet for packet in demux_packets(container, *streams) if packet.size)
        is_start = time - back < begin - 1.0
        others, key = [], None
        for packet in packets:
            if packet.stream != main:
                others.append(packet)
            elif packet.is_keyframe:
                key = packet
                break
            elif decode_time(packet) > time and not is_start:
                break
        if is_start or (key and time_shown(key) <= time + TOLERANCE):
            return chain([key] if key else [], others, packets)
        # Some containers seek by decode time or land after the key frame: go further back.
        back = 2 * back + 1.0


def time_shown(packet: Packet[Any]) -> float:
    """Container time; if the packet does not say, when it is decoded."""
    stamp = packet.dts if packet.pts is None else packet.pts
    return float((stamp or 0) * (packet.time_base or 0))


def decode_time(packet: Packet[Any]) -> float:
    """Container time; if the packet does not say, when it is shown."""
    stamp = packet.pts if packet.dts is None else packet.dts
    return float((stamp or 0) * (packet.time_base or 0))


def demux_packets(container: InputContainer, *streams: Stream) -> Iterator[Packet[Any]]:
    while True:
        try:
            yield from container.demux(*streams)
        except IndexError:  # of PyAV, at a stream that begins in mid-file, as in a damaged FLV
            continue
        return


def find_video_stream(container: InputContainer) -> VideoStream | None:
    return next((s for s in container.streams.video if not s.disposition & _COVER_ART), None)


def decode_packet(
    decode: Callable[[Packet[Any] | None], list[Decoded]], packet: Packet[Any] | None, meter: Meter
) -> list[Decoded]:
    """None flushes the decoder; refused packets are counted."""
    try:
        return decode(packet)
    except av.error.FFmpegError:  # damage is not always reported as invalid data
        meter.damaged_packets += 1
        return []


def decode_stream(
    container: InputContainer, stream: AudioStream | VideoStream, meter: Meter
) -> Iterator[Any]:
    select_stream(container, stream)
    decode: Callable[[Packet[Any] | None], list[Any]] = stream.codec_context.decode
    for packet in demux_packets(container, stream):
        yield from decode_packet(decode, packet, meter)


class _ByteFile:
    def __init__(self, storage: Storage, end: int | None = None) -> None:
        self._storage = storage
        self._end = storage.size_bytes if end is None else end
        self._position = self._buffer_start = 0
        self._buffer = b""

    def tell(self) -> int:
        """Libav takes a file without `tell` for a pipe."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        size = max(0, min(size if size >= 0 else self._end, self._end - self._position))
        offset = self._position - self._buffer_start
        if not 0 <= offset < len(self._buffer):
            end = self._position + max(size, self._storage.read_ahead_bytes)
            self._buffer = self._storage.read(self._position, end)
            self._buffer_start, offset = self._position, 0
        data = self._buffer[offset : offset + size]
        self._position += len(data)
        return data
