from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.container import (
    decode_packet,
    decode_time,
    find_video_stream,
    open_media,
    read_from_key,
    time_shown,
)
from earmark.media.frame import Frame, PictureBox, convert_frame
from earmark.media.recording import Recording
from earmark.media.source import is_remote
from earmark.media.storage import Meter
from earmark.timeline import Span

MOST_INTERLEAVE = 2.0

TICKS_A_SECOND = 90_000

BLUR_HOLD = 0.3
"""Seconds for which a face once found stays blurred: one that turns away is still there."""


class Blur(Protocol):
    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame, blurred also in the boxes `also`; and the boxes found in it."""
        ...

    def at_half_resolution(self) -> Blur: ...


def cut_clip(
    recording: Recording,
    span: Span,
    path: Path,
    *,
    muted: Sequence[Span] | None = (),
    blur: Blur | None = None,
) -> float:
    """Write `span` from the key frame before it; return the second at which the clip begins.

    Packets of sound that touch a span of `muted` are left out; None leaves out all sound. With
    `blur` every picture is re-encoded, and the clip begins with `span`. Only the chapter in which
    `span` starts is used; it must be local.
    """
    begun = [part for part in recording.parts if part.start <= span.start]
    part = begun[-1] if begun else recording.parts[0]
    if is_remote(part.uri):
        raise MediaError(
            f"{recording.source.name} is not a local file, so no clip can be cut from it"
        )
    first = recording.frames([span.start])[0] if blur and part.video else None
    muted_times = None
    if muted is not None:
        muted_times = [(mute.start - part.shift, mute.end - part.shift) for mute in muted]
    cut = CutRange(
        span.start - part.shift, span.end - part.shift, muted_times, recording.audio_track
    )
    try:
        with (
            replacing(path) as scratch,
            open_media(part.uri, Meter(), version=part.version) as media,
            open_output(scratch) as output_file,
        ):
            blurred = BlurredVideo(output_file, first, blur, cut) if first and blur else None
            return part.shift + _cut(media.container, output_file, cut, blurred)
    except (av.FFmpegError, MediaError, OSError, ValueError) as error:
        raise MediaError(
            f"no clip can be cut from {recording.source.name} ({summarise(error)})"
        ) from error


@dataclass(frozen=True, slots=True)
class CutRange:
    begin: float
    end: float
    muted_times: list[tuple[float, float]] | None
    track: int

    def has_sound(self, packet: Packet[Any], time: float) -> bool:
        length = float((packet.duration or 0) * packet.time_base) if packet.time_base else 0.0
        return not any(
            time < end and time + length >= start for start, end in self.muted_times or ()
        )


def _cut(
    container: InputContainer, output_file: Any, cut: CutRange, blurred: BlurredVideo | None
) -> float:
    video = find_video_stream(container)
    sounds = container.streams.audio[cut.track :][: cut.muted_times is not None]
    streams: list[Stream] = [*([video] if video else []), *sounds]
    if not streams:
        raise ValueError("nothing is left without its sound")
    copied = streams[1:] if blurred else streams
    copies = {stream.index: StreamCopy(output_file, stream) for stream in copied}
    zero = cut.begin if blurred else None
    for packet in read_from_key(container, streams, cut.begin):
        time = decode_time(packet)
        if time > cut.end + MOST_INTERLEAVE:
            break
        if time > cut.end:
            continue  # packets of other streams may follow
        zero = time_shown(packet) if zero is None else zero
        if packet.stream.index not in copies:
            assert blurred, "all else is copied"
            pictures = decode_packet(packet.stream.decode, packet, Meter())
            blurred.write(pictures, packet.time_base)
        elif packet.stream == video or (time >= zero and cut.has_sound(packet, time)):
            copies[packet.stream.index].write(packet, -zero)
    if zero is None:
        raise ValueError("nothing is recorded there")
    if blurred and video:
        blurred.write(video.codec_context.decode(None), video.time_base)
        blurred.close()
    return zero


class BlurredVideo:
    def __init__(self, output_file: Any, first: Frame, blur: Blur, cut: CutRange) -> None:
        self._output_file, self._blur, self._cut = output_file, blur.at_half_resolution(), cut
        self._stream = add_video(output_file, first.width, first.height)
        self._found: deque[tuple[float, list[PictureBox]]] = deque()
        self._earlier: VideoFrame | None = None

    def write(self, pictures: Iterable[VideoFrame], tick: Fraction | None) -> None:
        for picture in pictures:
            time = float((picture.pts or 0) * (tick or 0))
            if picture.pts is None or time > self._cut.end:
                continue
            if time < self._cut.begin:
                self._earlier = picture
                continue
            if time > self._cut.begin:
                self._write_earlier()
            self._earlier = None
            self._encode(picture, time)

    def close(self) -> None:
        self._write_earlier()
        self._output_file.mux(self._stream.encode(None))

    def _write_earlier(self) -> None:
        if self._earlier:
            self._encode(self._earlier, self._cut.begin)

    def _encode(self, picture: VideoFrame, time: float) -> None:
        while self._found and self._found[0][0] < time - BLUR_HOLD:
            self._found.popleft()
        also = [box for _, boxes in self._found for box in boxes]
        frame, found = self._blur(convert_frame(picture, time), also)
        self._found.append((time, found))
        rgb = frame.rgb[: self._stream.height, : self._stream.width]
        shown = VideoFrame.from_ndarray(rgb.copy(), format="rgb24").reformat(format="yuv420p")
        shown.pts, shown.time_base = to_ticks(time - self._cut.begin, TICKS_A_SECOND)
        self._output_file.mux(self._stream.encode(shown))


def add_video(output_file: Any, width: int, height: int) -> Any:
    """Rounded down to an even size, which all players support."""
    stream = output_file.add_stream("libx264", 30, options={"crf": "21", "preset": "veryfast"})
    stream.width, stream.height = width // 2 * 2, height // 2 * 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, TICKS_A_SECOND)
    return stream


def to_ticks(time: float, rate: int) -> tuple[int, Fraction]:
    return round(time * rate), Fraction(1, rate)


class StreamCopy:
    def __init__(self, output_file: Any, stream: Any) -> None:
        # Opaque: a copy needs no encoder, and for some codecs (AV1) there is none.
        self._copy = output_file.add_stream_from_template(stream, opaque=True)
        self._output_file = output_file
        self._last: Fraction | None = None
        """Decode time in seconds: the next packet may come from another file."""
        if stream.language not in (None, "und"):
            self._copy.metadata["language"] = stream.language
        if stream.type == "video" and stream.average_rate:
            self._copy.codec_context.framerate = stream.average_rate

    def write(self, packet: Packet[Any], shift: float) -> None:
        """The first packets of Matroska have no decode time; in MPEG-PS it may jump back."""
        assert packet.time_base is not None, "it comes from a file"
        tick = packet.time_base
        steps = round(shift / tick)
        packet.pts = None if packet.pts is None else packet.pts + steps
        if packet.dts is not None:
            packet.dts += steps
            if self._last is not None and packet.dts * tick <= self._last:
                packet.dts = int(self._last // tick) + 1
                packet.pts = max(packet.dts, packet.pts or packet.dts)
            self._last = packet.dts * tick
        packet.stream = self._copy
        self._output_file.mux(packet)


def open_output(path: Path, kind: str | None = None) -> Any:
    # An absolute path: libav takes what precedes a colon for a protocol.
    return av.open(str(path.absolute()), "w", format=kind)
