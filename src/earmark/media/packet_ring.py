"""The last seconds of a stream, compressed: pictures are decoded only for windows worth a call.

groups    [K . . . . .][K . . . . .][K . . .        each begins with a key frame
window              |-------|                       decoded from the first group it touches
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import av
import av.error
from av.container import InputContainer
from av.packet import Packet

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.container import MOST_PIXELS, decode_packet
from earmark.media.frame import Frame, convert_frame
from earmark.media.frame_reader import last_needed, pictures_at
from earmark.media.prefetch import DecodedFrames
from earmark.media.storage import Meter
from earmark.timeline import Span, format_clock

_PADDING = bytes(64)  # decoders may read this many bytes past the end of a packet

_TOLERANCE = 1e-3

MOST_BYTES = 512 << 20
"""Of one stream: 30 s at 100 Mbit/s with a wide margin."""


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """What a decoder or a file needs to know of a stream, besides its packets."""

    description: bytes
    """A NUT file of one packet: it outlives the connection, and libav opens it as a template."""
    codec: str
    tick: Fraction
    width_pixels: int = 0
    """0 for sound."""
    height_pixels: int = 0
    frame_rate: float = 0.0

    @classmethod
    def of(cls, stream: Any, packet: Packet[Any]) -> StreamFormat:
        """`packet` is a key frame of `stream`, and stays as it is."""
        file, first = io.BytesIO(), _new_packet(bytes(packet), packet.time_base)
        first.pts = first.dts = 0
        first.is_keyframe = True
        with av.open(file, "w", format="nut") as output:
            first.stream = output.add_stream_from_template(stream, opaque=True)
            output.mux(first)
        decoder, is_video = stream.codec_context, stream.type == "video"
        return cls(
            file.getvalue(),
            decoder.codec.canonical_name,
            packet.time_base or Fraction(1, 1000),
            decoder.width if is_video else 0,
            decoder.height if is_video else 0,
            float(stream.average_rate or 0) if is_video else 0.0,
        )

    @classmethod
    def of_jpeg(cls, data: bytes, width: int, height: int, fps: float) -> StreamFormat:
        """Of pictures that were encoded here, with times in milliseconds."""
        file, tick = io.BytesIO(), Fraction(1, 1000)
        with av.open(file, "w", format="nut") as output:
            stream = output.add_stream("mjpeg", round(fps), width=width, height=height)
            stream.pix_fmt, stream.time_base = "yuvj420p", tick
            first = _new_packet(data, tick)
            first.pts = first.dts = 0
            first.is_keyframe, first.stream = True, stream
            output.mux(first)
        return cls(file.getvalue(), "mjpeg", tick, width, height, fps)

    @property
    def is_video(self) -> bool:
        return self.width_pixels > 0

    def open(self) -> InputContainer:
        return av.open(io.BytesIO(self.description), mode="r", format="nut")


def _new_packet(data: bytes, tick: Fraction | None) -> Packet[Any]:
    packet: Packet[Any] = Packet(cast(bytes, memoryview(data + _PADDING)[: len(data)]))
    packet.time_base = tick  # type: ignore[assignment]
    return packet


@dataclass(frozen=True, slots=True, eq=False)
class StoredPacket:
    time: float
    """Wall clock, when it is shown."""
    pts: int
    dts: int
    duration: int
    is_key: bool
    data: bytes

    def packet(self, tick: Fraction) -> Packet[Any]:
        packet = _new_packet(self.data, tick)
        packet.pts, packet.dts = self.pts, self.dts
        packet.duration, packet.is_keyframe = self.duration, self.is_key
        return packet


@dataclass(slots=True, eq=False)
class _Group:
    """Packets of one stream that a decoder can begin with, on one clock."""

    format: StreamFormat
    shift: float
    """Seconds to add to container time for wall-clock time."""
    packets: list[StoredPacket] = field(default_factory=list)
    size_bytes: int = 0

    @property
    def start(self) -> float:
        return self.packets[0].time

    @property
    def end(self) -> float:
        return self.packets[-1].time

    def add(self, packet: StoredPacket) -> None:
        self.packets.append(packet)
        self.size_bytes += len(packet.data)


class PacketRing:
    """Bounded in seconds and bytes; the oldest group goes first. Safe to use from any thread."""

    def __init__(self, seconds: float, most_bytes: int = MOST_BYTES) -> None:
        self.seconds, self.most_bytes = seconds, most_bytes
        self.bytes_received = 0
        self._lock = threading.Lock()
        self._video: deque[_Group] = deque()
        self._audio: deque[_Group] = deque()
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    @property
    def span(self) -> Span | None:
        """Of the pictures; None if there are none."""
        with self._lock:
            return Span(self._video[0].start, self._video[-1].end) if self._video else None

    @property
    def format(self) -> StreamFormat | None:
        with self._lock:
            return self._video[-1].format if self._video else None

    def add(self, packet: StoredPacket, kind: StreamFormat) -> None:
        """Pictures before the first key frame are dropped: no decoder can begin with them."""
        is_video = kind.is_video
        groups = self._video if is_video else self._audio
        shift = packet.time - packet.pts * float(kind.tick)
        with self._lock:
            last = groups[-1] if groups else None
            is_same = last and last.format == kind and abs(last.shift - shift) < 0.01
            is_long = not is_video and last is not None and packet.time - last.start > 1.0
            if not is_same or is_long or (is_video and packet.is_key):
                if is_video and not packet.is_key:
                    return
                last = _Group(kind, shift)
                groups.append(last)
            assert last is not None
            last.add(packet)
            self._size_bytes += len(packet.data)
            self.bytes_received += len(packet.data)
            self._drop(packet.time - self.seconds)

    def _drop(self, oldest: float) -> None:
        for groups in (self._video, self._audio):
            while len(groups) > 1 and (
                groups[1].start <= oldest or self._size_bytes > self.most_bytes
            ):
                self._size_bytes -= groups.popleft().size_bytes

    def _touching(self, groups: deque[_Group], span: Span) -> list[_Group]:
        """Groups with packets in `span`, and the one before it: its picture is still shown."""
        with self._lock:
            listed = list(groups)
        first = max((n for n, group in enumerate(listed) if group.start <= span.start), default=0)
        return [group for group in listed[first:] if group.start <= span.end]

    def frames(self, times: Sequence[float]) -> DecodedFrames:
        """The picture shown at each of `times`; `MediaError` if the ring does not hold one."""
        span = Span(min(times), max(times))
        frames: dict[float, Frame] = {}
        decoded = read = 0
        groups = self._touching(self._video, span)
        for number, group in enumerate(groups):
            end = groups[number + 1].start if number + 1 < len(groups) else float("inf")
            own = [time for time in times if group.start <= time < end]
            if not own:
                continue
            pictures, count, size = _decode(group, sorted(set(own)))
            decoded, read = decoded + count, read + size
            frames |= pictures
        if missing := [time for time in times if time not in frames]:
            raise MediaError(
                f"the picture at {format_clock(missing[0] % 86400)} UTC is not in the last "
                f"{self.seconds:.0f} s of the stream, which are all that is stored"
            )
        return DecodedFrames([frames[time] for time in times], decoded, read)

    def cut(self, span: Span, path: Path, *, has_sound: bool = True) -> float:
        """Write `span` to a file without re-encoding; returns when it begins: at a key frame."""
        video = self._touching(self._video, span)
        if not video:
            raise MediaError("no clip can be cut: the ring holds no pictures of that time")
        video = [group for group in video if group.format == video[0].format]
        begin = video[0].start
        within = Span(min(begin, span.start), span.end)
        audio = self._touching(self._audio, within) if has_sound else []
        audio = [group for group in audio if group.format == audio[0].format]
        tracks = [groups for groups in (video, audio) if groups]
        try:
            with ExitStack() as stack:
                scratch = stack.enter_context(replacing(path))
                output: Any = stack.enter_context(av.open(str(scratch.absolute()), "w"))
                packets: list[tuple[float, Packet[Any]]] = []
                for groups in tracks:
                    template = stack.enter_context(groups[0].format.open()).streams[0]
                    copy = output.add_stream_from_template(template, opaque=True)
                    packets += _shifted(groups, copy, begin, span.end)
                for _, packet in sorted(packets, key=itemgetter(0)):
                    output.mux(packet)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            raise MediaError(f"no clip can be cut ({summarise(error)})") from error
        return begin


def _decode(group: _Group, times: list[float]) -> tuple[dict[float, Frame], int, int]:
    """The pictures by time, how many were decoded for them, and from how many bytes."""
    last = last_needed([packet.time for packet in group.packets], times)
    used, tick = group.packets[: last + 1], group.format.tick
    with group.format.open() as template:
        decoder = template.streams.video[0].codec_context
        decoder.options = {"max_pixels": str(MOST_PIXELS)}
        packets = [*(packet.packet(tick) for packet in used), None]
        pictures = [
            picture
            for packet in packets
            for picture in decode_packet(decoder.decode, packet, Meter())
        ]
    shown = pictures_at(pictures, [time - group.shift for time in times], float(tick))
    frames = {
        time: convert_frame(picture, start + group.shift)
        for time, (start, picture) in zip(times, shown, strict=False)
    }
    return frames, len(pictures), sum(len(packet.data) for packet in used)


def _shifted(
    groups: Sequence[_Group], copy: Any, begin: float, end: float
) -> Iterator[tuple[float, Packet[Any]]]:
    """The packets from `begin` to `end` with times from 0, and when each is decoded.

    Decode times increase strictly, as files need.
    """
    earlier: int | None = None
    for group in groups:
        tick = group.format.tick
        steps = round((group.shift - begin) / tick)
        for stored in group.packets:
            if not begin - _TOLERANCE <= stored.time <= end:
                continue
            packet = stored.packet(tick)
            packet.dts = stored.dts + steps
            if earlier is not None and packet.dts <= earlier:
                packet.dts = earlier + 1
            packet.pts = max(stored.pts + steps, packet.dts)
            earlier, packet.stream = packet.dts, copy
            yield float(packet.dts * tick), packet
