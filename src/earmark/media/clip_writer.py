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
from av.packet import Packet
from av.video.frame import VideoFrame

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.chapter_writer import add_copy
from earmark.media.container import decode_packet
from earmark.media.frame import Frame, PictureBox, convert_frame
from earmark.media.recording import Recording
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
    file = recording.source.paths[recording.parts.index(part)]
    if "://" in file:
        raise MediaError(f"{recording.source.name} is no local file, so no clip is cut from it")
    first = recording.frames([span.start])[0] if blur and recording.video else None
    muted_times = None
    if muted is not None:
        muted_times = [(one.start - part.shift, one.end - part.shift) for one in muted]
    cut = _CutRange(
        span.start - part.shift, span.end - part.shift, muted_times, recording.audio_track
    )
    try:
        with (
            replacing(path) as scratch,
            av.open(file) as input_file,
            av.open(str(scratch), "w") as output_file,
        ):
            blurred = BlurredVideo(output_file, first, blur) if first and blur else None
            return part.shift + _cut(input_file, output_file, cut, blurred)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise MediaError(
            f"no clip can be cut from {recording.source.name} ({summarise(error)})"
        ) from error


@dataclass(frozen=True, slots=True)
class _CutRange:
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


def _cut(input_file: Any, output_file: Any, cut: _CutRange, blurred: BlurredVideo | None) -> float:
    """Write the range; return the container time at which the clip begins."""
    zero = cut.begin if blurred else None
    pictures, sounds = input_file.streams.video[:1], input_file.streams.audio[cut.track :][:1]
    sounds = () if cut.muted_times is None else sounds
    copied = (*(() if blurred else pictures), *sounds)
    streams = {one.index: add_copy(output_file, one) for one in copied}
    input_file.seek(max(0, int(cut.begin * 1_000_000)))
    for packet in input_file.demux([*pictures, *sounds]):
        if packet.dts is None or packet.time_base is None:
            continue
        time = float(packet.dts * packet.time_base)
        if time > cut.end + MOST_INTERLEAVE:
            break
        if time > cut.end:
            continue  # packets of other streams may follow
        zero = time if zero is None else zero
        if blurred and packet.stream.type == "video":
            shown = decode_packet(packet.stream.decode, packet, Meter())
            blurred.write(shown, cut.begin, cut.end)
        elif (time >= zero or not blurred) and (
            packet.stream.type == "video" or cut.has_sound(packet, time)
        ):
            shift_packet(packet, -zero)
            packet.stream = streams[packet.stream.index]
            output_file.mux(packet)
    if blurred:
        blurred.write(pictures[0].codec_context.decode(None), cut.begin, cut.end)
        blurred.close()
    return zero or 0.0


def shift_packet(packet: Packet[Any], seconds: float) -> None:
    """Shift the timestamps of a packet by `seconds`."""
    assert packet.time_base is not None, "it comes from a file"
    steps = round(seconds / packet.time_base)
    packet.dts = None if packet.dts is None else packet.dts + steps
    packet.pts = None if packet.pts is None else packet.pts + steps


class BlurredVideo:
    """The video stream of a clip, encoded from blurred frames."""

    def __init__(self, output_file: Any, first: Frame, blur: Blur) -> None:
        """Pictures of the size of `first` in the container `output_file`."""
        self._output_file, self._blur = output_file, blur.at_half_resolution()
        self._stream = add_video(output_file, first.width, first.height)
        self._found: deque[tuple[float, list[PictureBox]]] = deque()

    def write(self, pictures: Iterable[VideoFrame], begin: float, end: float) -> None:
        """Write those of `pictures` from `begin` to `end`, in container time; `begin` becomes 0."""
        for picture in pictures:
            if picture.time is None or not begin <= picture.time <= end:
                continue
            while self._found and self._found[0][0] < picture.time - BLUR_HOLD:
                self._found.popleft()
            also = [box for _, boxes in self._found for box in boxes]
            frame, found = self._blur(convert_frame(picture, picture.time), also)
            self._found.append((picture.time, found))
            rgb = frame.rgb[: self._stream.height, : self._stream.width]
            shown = VideoFrame.from_ndarray(rgb.copy(), format="rgb24").reformat(format="yuv420p")
            shown.pts, shown.time_base = to_ticks(picture.time - begin, TICKS_A_SECOND)
            self._output_file.mux(self._stream.encode(shown))

    def close(self) -> None:
        """Flush the encoder."""
        self._output_file.mux(self._stream.encode(None))


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
