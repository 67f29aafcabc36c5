"""Writes clips cut out of recordings.

Packets are copied from a key frame on; only video to be blurred is decoded and re-encoded.
"""

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
from earmark.media.chapter_writer import StreamCopy, open_output
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
"""Seconds by which one stream may be ahead of another in a file."""

TICKS_A_SECOND = 90_000
"""Time base of re-encoded video."""

BLUR_HOLD = 0.3
"""Seconds for which a face once found stays blurred: one that turns away is still there."""


class Blur(Protocol):
    """Blurs what must not be seen in a frame."""

    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame, blurred also in the boxes `also`; and the boxes found in it."""
        ...

    def at_half_resolution(self) -> Blur:
        """The same for videos, of which every picture is searched."""
        ...


def cut_clip(
    recording: Recording,
    span: Span,
    path: Path,
    *,
    muted: Sequence[Span] | None = (),
    blur: Blur | None = None,
) -> float:
    """Write `span` of `recording` to `path`, from the key frame before it.

    Returns the second of the recording at which the clip begins; its own time begins at 0. Of
    several chapters, the one that contains the start of `span` is used. The sound is the track that
    is listened to, without the packets that touch a span of `muted`; None leaves out all sound.
    With `blur` every picture is decoded, blurred and re-encoded, and the clip begins with `span`.
    Raises `MediaError` if the file is not local or cannot be cut.
    """
    begun = [one for one in recording.parts if one.start <= span.start]
    part = begun[-1] if begun else recording.parts[0]
    if is_remote(part.uri):
        raise MediaError(f"{recording.source.name} is no local file, so no clip is cut from it")
    first = recording.frames([span.start])[0] if blur and part.video else None
    muted_times = None
    if muted is not None:
        muted_times = [(one.start - part.shift, one.end - part.shift) for one in muted]
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
    """The range to cut, in container time."""

    begin: float
    end: float
    muted_times: list[tuple[float, float]] | None
    """Ranges without sound; None mutes everything."""
    track: int
    """Which of the audio tracks, from 0."""

    def has_sound(self, packet: Packet[Any], time: float) -> bool:
        """Whether `packet`, which begins at `time`, touches no muted range."""
        length = float((packet.duration or 0) * packet.time_base) if packet.time_base else 0.0
        return not any(
            time < end and time + length >= start for start, end in self.muted_times or ()
        )


def _cut(
    container: InputContainer, output_file: Any, cut: CutRange, blurred: BlurredVideo | None
) -> float:
    """Write the range; return the container time at which the clip begins."""
    video = find_video_stream(container)
    sounds = container.streams.audio[cut.track :][: cut.muted_times is not None]
    streams: list[Stream] = [*([video] if video else []), *sounds]
    if not streams:
        raise ValueError("nothing is left without its sound")
    copies = {one.index: StreamCopy(output_file, one) for one in streams[bool(blurred) :]}
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
            shown = decode_packet(packet.stream.decode, packet, Meter())
            blurred.write(shown, packet.time_base)
        elif packet.stream == video or (time >= zero and cut.has_sound(packet, time)):
            copies[packet.stream.index].write(packet, -zero)
    if zero is None:
        raise ValueError("nothing is recorded there")
    if blurred and video:
        blurred.write(video.codec_context.decode(None), video.time_base)
        blurred.close()
    return zero


class BlurredVideo:
    """The video stream of a clip, encoded from blurred frames."""

    def __init__(self, output_file: Any, first: Frame, blur: Blur, cut: CutRange) -> None:
        """Pictures of the size of `first` in the container `output_file`."""
        self._output_file, self._blur, self._cut = output_file, blur.at_half_resolution(), cut
        self._stream = add_video(output_file, first.width, first.height)
        self._found: deque[tuple[float, list[PictureBox]]] = deque()
        self._earlier: VideoFrame | None = None
        """The last picture before the range: it may be on show when that begins."""

    def write(self, pictures: Iterable[VideoFrame], tick: Fraction | None) -> None:
        """Write those of `pictures` that are in the range, and the one on show as it begins."""
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
        """Flush the encoder."""
        self._write_earlier()
        self._output_file.mux(self._stream.encode(None))

    def _write_earlier(self) -> None:
        if self._earlier:
            self._encode(self._earlier, self._cut.begin)

    def _encode(self, picture: VideoFrame, time: float) -> None:
        """Write `picture` at `time`, in container time."""
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
    """An H.264 stream of that size, rounded down to even, which all players support."""
    stream = output_file.add_stream("libx264", 30, options={"crf": "21", "preset": "veryfast"})
    stream.width, stream.height = width // 2 * 2, height // 2 * 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, TICKS_A_SECOND)
    return stream


def to_ticks(time: float, rate: int) -> tuple[int, Fraction]:
    """A time in seconds as ticks of a clock, and its time base."""
    return round(time * rate), Fraction(1, rate)
