"""Cuts a span of a recording into a file of its own, and joins clips into one video."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
from av.audio.resampler import AudioResampler
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing, scratch_folder
from earmark.media.container import (
    decode_packet,
    decode_time,
    find_video_stream,
    open_media,
    read_from_key,
    time_shown,
)
from earmark.media.frame import Frame, PictureBox, Pixels, convert_frame, usual_colorspace
from earmark.media.recording import Part, Recording
from earmark.media.source import is_remote
from earmark.media.storage import Meter
from earmark.timeline import Span

_MOST_INTERLEAVE = 2.0
_SHORTEST_PIECE = 0.05
"""Seconds: less of a chapter may hold no packet."""
_TICKS_PER_SECOND = 90_000

_BLUR_HOLD = 0.3
"""Seconds for which a detected face stays blurred: one that turns away is still there."""

_SEARCH_INTERVAL = 0.1
"""Seconds between two searches for faces; pictures between them have the faces of both blurred."""

_LONGEST_SIDE = 1280
"""Pixels of a blurred picture: all that pages show, and half the work of 1080p."""

_MILLISECONDS = Fraction(1, 1000)
_SAMPLE_RATE = 48_000

_STYLE = (
    "[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, "
    "OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, "
    "Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\r\n"
    "Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1\r\n"
)


class Blur(Protocol):
    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame with its faces and the boxes `also` blurred; and the boxes of its faces."""
        ...

    def hide(self, frame: Frame, boxes: Sequence[PictureBox]) -> Frame:
        """The frame with only `boxes` blurred."""
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

    A span over a seam is one clip; it is encoded again if the chapters differ in format. Packets of
    sound that touch a span of `muted` are left out; None leaves out all sound. With `blur` every
    picture is re-encoded, and the clip begins with `span`. The chapters must be local.
    """
    begun = [part for part in recording.parts if part.start <= span.start]
    parts = [part for part in recording.parts if _overlap(part, span) > _SHORTEST_PIECE]
    if len(parts) < 2:
        part = (parts or begun[-1:] or recording.parts)[0]
        return _cut_part(recording, part, span, path, muted=muted, blur=blur)
    with scratch_folder(path) as folder:
        pieces = [folder / f"{number}.mp4" for number in range(len(parts))]
        spans = [Span(max(span.start, part.start), span.end) for part in parts]
        starts = [
            _cut_part(recording, *piece, muted=muted, blur=blur)
            for piece in zip(parts, spans, pieces, strict=True)
        ]
        clips = [CaptionedClip(piece) for piece in pieces]
        join_clips(clips, path, starts=[start - starts[0] for start in starts])
    return starts[0]


def _overlap(part: Part, span: Span) -> float:
    return min(part.end, span.end) - max(part.start, span.start)


def _cut_part(
    recording: Recording,
    part: Part,
    span: Span,
    path: Path,
    *,
    muted: Sequence[Span] | None,
    blur: Blur | None,
) -> float:
    if is_remote(part.uri):
        raise MediaError(
            f"{recording.source.name} is not a local file, so no clip can be cut from it"
        )
    first = recording.frames([span.start])[0] if blur and part.video else None
    cut = _CutRange(
        begin=span.start - part.shift,
        end=span.end - part.shift,
        muted=[(mute.start - part.shift, mute.end - part.shift) for mute in muted or ()],
        track=None if muted is None else recording.audio_track,
    )
    try:
        with (
            replacing(path) as scratch,
            open_media(part.uri, Meter(), version=part.version) as media,
            _open_output(scratch) as output_file,
        ):
            blurred = _BlurredVideo(output_file, first, blur, cut) if first and blur else None
            return part.shift + _cut(media.container, output_file, cut, blurred)
    except (av.FFmpegError, MediaError, OSError, ValueError) as error:
        raise MediaError(
            f"no clip can be cut from {recording.source.name} ({summarise(error)})"
        ) from error


@dataclass(frozen=True, slots=True)
class _CutRange:
    """All times are container times."""

    begin: float
    end: float
    muted: list[tuple[float, float]]
    track: int | None
    """None for a clip without sound."""

    def mutes(self, packet: Packet[Any], time: float) -> bool:
        until = time + float((packet.duration or 0) * (packet.time_base or 0))
        return any(time < end and until >= start for start, end in self.muted)


def _cut(
    container: InputContainer, output_file: Any, cut: _CutRange, blurred: _BlurredVideo | None
) -> float:
    video = find_video_stream(container)
    streams: list[Stream] = [video] if video else []
    if cut.track is not None:
        streams += container.streams.audio[cut.track : cut.track + 1]
    if not streams:
        raise ValueError("nothing is left without its sound")
    copied = streams[1:] if blurred else streams
    copies = {stream.index: _StreamCopy(output_file, stream) for stream in copied}
    zero = cut.begin if blurred else None
    for packet in read_from_key(container, streams, cut.begin):
        time = decode_time(packet)
        if time > cut.end + _MOST_INTERLEAVE:
            break
        if time > cut.end:
            continue  # packets of other streams may follow
        zero = time_shown(packet) if zero is None else zero
        if packet.stream.index not in copies:
            assert blurred, "all else is copied"
            pictures = decode_packet(packet.stream.decode, packet, Meter())
            blurred.write(pictures, packet.time_base)
        elif packet.stream == video or (time >= zero and not cut.mutes(packet, time)):
            copies[packet.stream.index].write(packet, -zero)
    if zero is None:
        raise ValueError("nothing is recorded there")
    if blurred and video:
        blurred.write(video.codec_context.decode(None), video.time_base)
        blurred.close()
    return zero


class _BlurredVideo:
    """Faces are searched for in some pictures; those between wait for the next search.

    searches  |        |        |
    pictures  ^  .  .  ^  .  .  ^       . has the faces of both neighbours blurred, and their way
    """

    def __init__(self, output_file: Any, first: Frame, blur: Blur, cut: _CutRange) -> None:
        self._output_file, self._blur, self._cut = output_file, blur.at_half_resolution(), cut
        scale = min(1.0, _LONGEST_SIDE / max(first.width, first.height))
        self._stream = _add_video(
            output_file, round(first.width * scale), round(first.height * scale)
        )
        self._faces: deque[tuple[float, list[PictureBox]]] = deque()
        self._waiting: list[Frame] = []
        self._searched = -math.inf
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
                self._add_earlier()
            self._earlier = None
            self._add(picture, time)

    def close(self) -> None:
        self._add_earlier()
        if self._waiting:
            self._search(self._waiting.pop())
        self._output_file.mux(self._stream.encode(None))

    def _add_earlier(self) -> None:
        if self._earlier:
            self._add(self._earlier, self._cut.begin)

    def _add(self, picture: VideoFrame, time: float) -> None:
        frame = convert_frame(picture, time, longest=_LONGEST_SIDE)
        if time - self._searched >= _SEARCH_INTERVAL - 1e-3:
            self._search(frame)
        else:
            self._waiting.append(frame)

    def _search(self, frame: Frame) -> None:
        while self._faces and self._faces[0][0] < frame.time - _BLUR_HOLD:
            self._faces.popleft()
        earlier_boxes = [box for _, boxes in self._faces for box in boxes]
        last_boxes = self._faces[-1][1] if self._faces else []
        blurred, boxes = self._blur(frame, earlier_boxes)
        moved = [hull for box in boxes for hull in _ways(box, last_boxes)]
        for waiting in self._waiting:
            self._encode(self._blur.hide(waiting, [*earlier_boxes, *boxes, *moved]))
        self._waiting.clear()
        self._faces.append((frame.time, boxes))
        self._searched = frame.time
        self._encode(blurred)

    def _encode(self, frame: Frame) -> None:
        rgb = frame.rgb[: self._stream.height, : self._stream.width]
        time = frame.time - self._cut.begin
        self._output_file.mux(_encode_picture(self._stream, rgb, time))


def _ways(box: PictureBox, before: Iterable[PictureBox]) -> Iterator[PictureBox]:
    """What `box` may have crossed since: the hull with each of `before` less than a side away."""
    top, bottom, left, right = box
    for above, below, west, east in before:
        if max(top, above) - min(bottom, below) < bottom - top and (
            max(left, west) - min(right, east) < right - left
        ):
            yield min(top, above), max(bottom, below), min(left, west), max(right, east)


def _add_video(output_file: Any, width: int, height: int) -> Any:
    """The size is rounded down to even numbers, which all players support."""
    stream = output_file.add_stream("libx264", 30, options={"crf": "21", "preset": "veryfast"})
    stream.width, stream.height = width // 2 * 2, height // 2 * 2
    stream.pix_fmt = "yuv420p"
    stream.codec_context.time_base = Fraction(1, _TICKS_PER_SECOND)
    return stream


def _encode_picture(stream: Any, rgb: Pixels, time: float) -> Any:
    picture = VideoFrame.from_ndarray(np.ascontiguousarray(rgb), format="rgb24")
    picture = picture.reformat(format="yuv420p", dst_colorspace=usual_colorspace(picture.height))
    _set_time(picture, time, _TICKS_PER_SECOND)
    return stream.encode(picture)


def _set_time(frame: Any, time: float, ticks_per_second: int) -> None:
    frame.pts, frame.time_base = round(time * ticks_per_second), Fraction(1, ticks_per_second)


class _StreamCopy:
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
        # The first packets of Matroska have no decode time; in MPEG-PS it may jump back.
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


def _open_output(path: Path, kind: str | None = None) -> Any:
    # An absolute path: libav takes what precedes a colon for a protocol.
    return av.open(str(path.absolute()), "w", format=kind)


@dataclass(frozen=True, slots=True)
class ClipCue:
    start: float
    end: float
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CaptionedClip:
    path: Path
    cues: tuple[ClipCue, ...] = ()


def join_clips(clips: Sequence[CaptionedClip], path: Path, *, starts: Sequence[float] = ()) -> bool:
    """Return whether streams were copied; they are re-encoded if the clips differ in format.

    Each clip begins at its time of `starts`, or without them at the end of the one before.
    """
    try:
        kinds, lengths = zip(*(_measure(clip.path) for clip in clips), strict=True)
        is_same = all(kind == kinds[0] for kind in kinds)
        starts = starts or [0.0, *accumulate(lengths)][:-1]
        with replacing(path) as scratch, _open_output(scratch, "mp4") as output_file:
            output_file.set_chapters(_chapters(clips, starts))
            (_copy if is_same else _encode)(clips, starts, output_file)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise MediaError(f"no video can be made of the clips ({summarise(error)})") from error
    return is_same


def _measure(path: Path) -> tuple[object, float]:
    with av.open(str(path)) as clip:
        kind = tuple(
            (
                stream.codec_context.name,
                stream.codec_context.extradata,
                getattr(stream, "width", None),
                getattr(stream, "height", None),
                getattr(stream, "sample_rate", None),
            )
            for stream in _main_streams(clip)
        )
        ends = [
            float((packet.pts + (packet.duration or 0)) * packet.time_base)
            for packet in clip.demux()
            if packet.pts is not None and packet.time_base is not None
        ]
    return kind, max(ends, default=0.0)


def _main_streams(clip: Any) -> tuple[Any, ...]:
    return (*clip.streams.video[:1], *clip.streams.audio[:1])


def _chapters(clips: Sequence[CaptionedClip], starts: Sequence[float]) -> list[Any]:
    cues = [(start, cue) for clip, start in zip(clips, starts, strict=True) for cue in clip.cues]
    return [
        {
            "id": number,
            "start": round((start + cue.start) * 1000),
            "end": round((start + cue.end) * 1000),
            "time_base": _MILLISECONDS,
            "metadata": {"title": cue.title},
        }
        for number, (start, cue) in enumerate(cues, start=1)
    ]


def _add_subtitles(output_file: Any) -> Any:
    stream = output_file.add_stream("mov_text")
    head = f"[Script Info]\r\nScriptType: v4.00+\r\n{_STYLE}[Events]\r\n"
    stream.codec_context.subtitle_header = head.encode()
    stream.time_base = _MILLISECONDS
    return stream


def _subtitles(clip: CaptionedClip, start: float, stream: Any) -> Iterator[Packet[Any]]:
    for cue in clip.cues:
        text = cue.text.encode("utf-8", "replace")[:4000]
        packet: Packet[Any] = Packet(len(text).to_bytes(2, "big") + text)
        packet.stream, packet.time_base = stream, _MILLISECONDS
        packet.pts = packet.dts = round((start + cue.start) * 1000)
        packet.duration = round((cue.end - cue.start) * 1000)
        yield packet


def _copy(clips: Sequence[CaptionedClip], starts: Sequence[float], output_file: Any) -> None:
    copies: dict[str, _StreamCopy] = {}
    subtitles: Any = None
    for clip, start in zip(clips, starts, strict=True):
        with av.open(str(clip.path)) as input_file:
            streams = _main_streams(input_file)
            copies = copies or {stream.type: _StreamCopy(output_file, stream) for stream in streams}
            if subtitles is None and any(each.cues for each in clips):
                subtitles = _add_subtitles(output_file)
            output_file.mux(_subtitles(clip, start, subtitles))
            for packet in input_file.demux(streams):
                if packet.size:
                    copies[packet.stream.type].write(packet, start)


def _encode(clips: Sequence[CaptionedClip], starts: Sequence[float], output_file: Any) -> None:
    with ExitStack() as stack:
        input_files = [stack.enter_context(av.open(str(clip.path))) for clip in clips]
        sizes = [file.streams.video[0] for file in input_files if file.streams.video]
        video = _add_video(output_file, sizes[0].width, sizes[0].height) if sizes else None
        has_sound = any(input_file.streams.audio for input_file in input_files)
        sound = output_file.add_stream("aac", _SAMPLE_RATE, layout="stereo") if has_sound else None
        subtitles = _add_subtitles(output_file) if any(clip.cues for clip in clips) else None
        for clip, input_file, start in zip(clips, input_files, starts, strict=True):
            output_file.mux(_subtitles(clip, start, subtitles))
            _encode_clip(input_file, start, video, sound, output_file)
        for stream in filter(None, (video, sound)):
            output_file.mux(stream.encode(None))


def _encode_clip(input_file: Any, start: float, video: Any, sound: Any, output_file: Any) -> None:
    resampler = AudioResampler("fltp", "stereo", _SAMPLE_RATE)
    for packet in input_file.demux(_main_streams(input_file)):
        for frame in decode_packet(packet.stream.decode, packet, Meter()):
            if frame.time is None:
                continue
            time = start + frame.time
            if packet.stream.type == "video":
                rgb = _fit(convert_frame(frame, time), video.width, video.height)
                output_file.mux(_encode_picture(video, rgb, time))
                continue
            for part in resampler.resample(frame):
                _set_time(part, time, _SAMPLE_RATE)
                time += part.samples / _SAMPLE_RATE
                output_file.mux(sound.encode(part))


def _fit(frame: Frame, width: int, height: int) -> Pixels:
    """As large as fits into the size, with black borders."""
    scale = min(width / frame.width, height / frame.height)
    small = frame.resized(max(1, round(frame.width * scale)), max(1, round(frame.height * scale)))
    top, left = (height - small.height) // 2, (width - small.width) // 2
    canvas = np.zeros((height, width, 3), np.uint8)
    canvas[top : top + small.height, left : left + small.width] = small.rgb
    return canvas
