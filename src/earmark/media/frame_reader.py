"""Reads the pictures of a recording: those at given times, all of them small, or packet sizes.

Pictures at given times are decoded with as few others as the codec allows:

wanted            ▼  ▼                        ▼
packets   K . . . . . . . . K . . . . . . . . K . . . . .
decoded   ^^^^^^^^^^^^^                       ^
          from the key frame before to the last one wanted, once for both
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import av.error
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation
from av.video.stream import VideoStream
from numpy.typing import NDArray

from earmark.errors import MediaError
from earmark.media.container import (
    TOLERANCE,
    decode_packet,
    decode_stream,
    find_video_stream,
    open_media,
    read_from_key,
    select_stream,
    time_shown,
)
from earmark.media.frame import Frame, Pixels, convert_frame
from earmark.media.mp4_index import Ints, read_packets
from earmark.media.source import place_of
from earmark.media.storage import Meter
from earmark.timeline import FloatArray

if TYPE_CHECKING:
    from earmark.media.recording import Part, Recording

_READ_ON = 10.0  # seconds up to which the next time is reached by reading on; beyond, by seeking
_REORDER_DEPTH = 17  # packets within which decode order may differ from presentation order
_LEAST_GAP = 0.03  # seconds: all pictures of 30 a second are returned, half of 50 or 60


class FrameReader(AbstractContextManager["FrameReader"]):
    """Keeps a recording open between calls; not to be shared between threads."""

    _container: InputContainer
    _stream: VideoStream
    _tick: float
    _buffer: list[tuple[float, Packet[VideoStream]]]
    _packets: Iterator[Packet[VideoStream]]
    _is_at_end: bool

    def __init__(self, name: str, parts: Sequence[Part]) -> None:
        self._name = name
        self._parts = parts
        self._stack = ExitStack()
        self._open_part: Part | None = None
        self.meter = Meter()
        self.decoded = 0
        self.seeks = 0

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open_part = None
        self._stack.close()

    def frames(self, times: Sequence[float]) -> list[Frame]:
        frames: dict[float, Frame] = {}
        starts = [part.start for part in self._parts]
        for number, part in enumerate(self._parts):
            # Times before all parts go to the first.
            inside = sorted({t for t in times if max(0, bisect_right(starts, t) - 1) == number})
            if not inside:
                continue
            try:
                self._open(part)
                pictures = self._decode([time - part.shift for time in inside])
                for time, (stamp, picture) in zip(inside, pictures, strict=False):
                    frames[time] = convert_frame(picture, stamp + part.shift)
            except av.error.FFmpegError as error:
                raise MediaError(
                    f"{place_of(part.uri)} cannot be read near {inside[0]:.3f} s "
                    f"({error.strerror}); check that it plays there"
                ) from error
        if missing := [time for time in times if time not in frames]:
            raise MediaError(
                f"{self._name} has no picture that can be decoded at {missing[0]:.3f} s; "
                "check that it plays there"
            )
        return [frames[time] for time in times]

    def _open(self, part: Part) -> None:
        if part is self._open_part:
            return
        self.close()
        file = self._stack.enter_context(open_media(part.uri, self.meter, version=part.version))
        stream = find_video_stream(file.container)
        if stream is None or cast(object, stream.codec_context) is None:
            raise MediaError(f"{place_of(part.uri)} has no pictures that libav can decode")
        select_stream(file.container, stream)
        self._container, self._stream, self._open_part = file.container, stream, part
        self._tick = float(stream.time_base or 0)
        self._buffer, self._packets, self._is_at_end = [], iter(()), True

    def _decode(self, times: Sequence[float]) -> Iterator[tuple[float, VideoFrame]]:
        """For each of the ascending container `times`, the picture shown then and its own time."""
        remaining = deque(times)
        while remaining:
            group = [remaining.popleft()]  # times decoded from one key frame
            self._seek_to(group[0])
            while (
                remaining
                and remaining[0] - group[-1] <= _READ_ON
                and not self._read_until(remaining[0])
            ):
                group.append(remaining.popleft())
            yield from self._decode_group(group)

    def _decode_group(self, times: list[float]) -> Iterator[tuple[float, VideoFrame]]:
        last = last_needed([start for start, _ in self._buffer], times)
        pictures = self._decode_packets(packet for _, packet in self._buffer[: last + 1])
        yield from pictures_at(pictures, times, self._tick)

    def _decode_packets(self, packets: Iterable[Packet[VideoStream]]) -> Iterator[VideoFrame]:
        decoder = self._stream.codec_context
        for packet in [*packets, None]:
            pictures = decode_packet(decoder.decode, packet, self.meter)
            self.decoded += len(pictures)
            yield from pictures
        decoder.flush_buffers()

    def _seek_to(self, time: float) -> None:
        is_near = bool(self._buffer) and (
            self._buffer[0][0] <= time + TOLERANCE and time - self._buffer[-1][0] <= _READ_ON
        )
        if not is_near:
            self.seeks += 1
            self._packets = read_from_key(self._container, [self._stream], time)
            self._buffer, self._is_at_end = [], False
        while later := self._read_until(time):
            del self._buffer[:later]

    def _read_until(self, time: float) -> int:
        """Stops early at a key frame shown by then and returns its index; else returns 0."""
        numbers = range(len(self._buffer) - 1, 0, -1)
        later = next((n for n in numbers if _can_start_at(*self._buffer[n], time)), 0)
        while not later and not self._is_at_end and not self._is_past(time):
            packet = next(self._packets, None)
            if packet is None:
                self._is_at_end = True
            elif self._buffer or packet.is_keyframe:
                self._buffer.append((time_shown(packet), packet))
                later = (len(self._buffer) - 1) * _can_start_at(*self._buffer[-1], time)
        return later

    def _is_past(self, time: float) -> bool:
        """No picture is shown before it is decoded, and none is delayed by more than 16 others."""
        if not self._buffer:
            return False
        decoded = self._buffer[-1][1].dts
        if decoded is not None:
            return decoded * self._tick > time + TOLERANCE
        return min(start for start, _ in self._buffer[-_REORDER_DEPTH:]) > time + TOLERANCE


def last_needed(starts: Sequence[float], times: Iterable[float]) -> int:
    """The index of the last packet to decode; `starts` are in decode order."""
    last = 0
    for time in times:
        earlier = [n for n, start in enumerate(starts) if start <= time + TOLERANCE]
        last = max(last, max(earlier, key=starts.__getitem__, default=0))
    return last


def pictures_at(
    pictures: Iterable[VideoFrame], times: Sequence[float], tick: float
) -> list[tuple[float, VideoFrame]]:
    """The picture shown at each of `times` and its own time; none if there are no pictures."""
    best: dict[float, tuple[float, VideoFrame]] = {}
    for picture in pictures:
        if picture.pts is None:
            continue
        start = picture.pts * tick
        for time in times:
            if time not in best or best[time][0] < start <= time + TOLERANCE:
                best[time] = (start, picture)
    return [best[time] for time in times if time in best]


def _can_start_at(start: float, packet: Packet[VideoStream], time: float) -> bool:
    return packet.is_keyframe and start <= time + TOLERANCE


@dataclass(frozen=True, slots=True, eq=False)
class GreyFrame:
    time: float
    grey: Pixels


def scan_video(
    recording: Recording, *, width_pixels: int = 160, meter: Meter | None = None
) -> Iterator[GreyFrame]:
    """Every picture is decoded; those less than `_LEAST_GAP` after the previous one are skipped."""
    video = recording.video
    if video is None:
        raise MediaError(
            f"{recording.name} has no pictures, so there is no motion to measure; listen instead "
            "(the frontline `flux`)"
        )
    recording.check_pictures()
    width = min(width_pixels, video.width_pixels)
    height = max(1, round(video.height_pixels * width / video.width_pixels))
    return _scan(recording.parts, (width, height), meter or Meter())


def _scan(parts: Sequence[Part], size: tuple[int, int], meter: Meter) -> Iterator[GreyFrame]:
    last, meter.access = float("-inf"), "demux"
    for part in parts:
        with open_media(part.uri, meter, version=part.version) as file:
            stream = find_video_stream(file.container)
            if stream is None or stream.time_base is None:
                continue
            tick = float(stream.time_base)
            for picture in decode_stream(file.container, stream, meter):
                if picture.pts is None:
                    continue
                time = picture.pts * tick + part.shift
                if time - last >= _LEAST_GAP - 1e-6:
                    last = time
                    small = picture.reformat(*size, format="gray", interpolation=Interpolation.AREA)
                    yield GreyFrame(time, small.to_ndarray())


@dataclass(frozen=True, slots=True, eq=False)
class VideoPackets:
    """In presentation order: `times` never decrease."""

    times: FloatArray
    sizes_bytes: Ints
    is_key: NDArray[np.bool_]


def read_video_packets(parts: Sequence[Part], meter: Meter) -> VideoPackets:
    files = [_read_packet_columns(part, meter) for part in parts if part.video]
    return VideoPackets(*map(np.concatenate, zip(*files, strict=True)))


def _read_packet_columns(part: Part, meter: Meter) -> tuple[NDArray[Any], ...]:
    with open_media(part.uri, meter, version=part.version, index_only=True) as file:
        stream = find_video_stream(file.container)
        if stream is None:  # a remote file may have no version to check
            raise MediaError(f"{place_of(part.uri)} has no pictures any more: it has changed")
        index = read_packets(file.storage, file.tracks.traks[stream.id])
        numbers = np.flatnonzero(index.is_shown)
        order = numbers[np.argsort(index.stamps[numbers], kind="stable")]
        times = index.stamps[order] / index.ticks_a_second + part.shift
        return times, index.sizes[order].astype(np.int64), index.is_key[order]
