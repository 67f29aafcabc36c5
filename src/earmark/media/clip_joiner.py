from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import av
from av.audio.resampler import AudioResampler
from av.filter import Graph
from av.packet import Packet

from earmark.errors import MediaError, summarise
from earmark.media.atomic_file import replacing
from earmark.media.clip_writer import (
    TICKS_A_SECOND,
    StreamCopy,
    add_video,
    open_output,
    to_ticks,
)
from earmark.media.container import decode_packet
from earmark.media.storage import Meter

MILLISECONDS = Fraction(1, 1000)

RATE = 48_000

_ROTATIONS = {
    90: "transpose=cclock",
    -90: "transpose=clock",
    180: "hflip,vflip",
    -180: "hflip,vflip",
}

_STYLE = (
    "[V4+ Styles]\r\nFormat: Name, Fontname, Fontsize, PrimaryColour, SecondaryColour, "
    "OutlineColour, BackColour, Bold, Italic, Underline, StrikeOut, ScaleX, ScaleY, Spacing, "
    "Angle, BorderStyle, Outline, Shadow, Alignment, MarginL, MarginR, MarginV, Encoding\r\n"
    "Style: Default,Arial,16,&Hffffff,&Hffffff,&H0,&H0,0,0,0,0,100,100,0,0,1,1,0,2,10,10,10,1\r\n"
)


@dataclass(frozen=True, slots=True)
class ClipCue:
    start: float
    end: float
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class CaptionedClip:
    path: Path
    cues: tuple[ClipCue, ...]


def join_clips(clips: Sequence[CaptionedClip], path: Path) -> bool:
    """Whether streams were copied; they are re-encoded if the formats of the clips differ."""
    try:
        kinds, lengths = zip(*(_measure(clip.path) for clip in clips), strict=True)
        is_same = all(kind == kinds[0] for kind in kinds)
        starts = [0.0, *accumulate(lengths)][:-1]
        with replacing(path) as scratch, open_output(scratch, "mp4") as output_file:
            output_file.set_chapters(_chapters(clips, starts))
            write = _copy if is_same else _encode
            write(clips, starts, output_file)
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
            "time_base": MILLISECONDS,
            "metadata": {"title": cue.title},
        }
        for number, (start, cue) in enumerate(cues, start=1)
    ]


def _add_subtitles(output_file: Any) -> Any:
    stream = output_file.add_stream("mov_text")
    head = f"[Script Info]\r\nScriptType: v4.00+\r\n{_STYLE}[Events]\r\n"
    stream.codec_context.subtitle_header = head.encode()
    stream.time_base = MILLISECONDS
    return stream


def _subtitles(clip: CaptionedClip, start: float, stream: Any) -> Iterator[Packet[Any]]:
    for cue in clip.cues:
        text = cue.text.encode("utf-8", "replace")[:4000]
        packet: Packet[Any] = Packet(len(text).to_bytes(2, "big") + text)
        packet.stream, packet.time_base = stream, MILLISECONDS
        packet.pts = packet.dts = round((start + cue.start) * 1000)
        packet.duration = round((cue.end - cue.start) * 1000)
        yield packet


def _copy(clips: Sequence[CaptionedClip], starts: Sequence[float], output_file: Any) -> None:
    copies: dict[str, StreamCopy] = {}
    subtitles: Any = None
    for clip, start in zip(clips, starts, strict=True):
        with av.open(str(clip.path)) as input_file:
            streams = _main_streams(input_file)
            copies = copies or {stream.type: StreamCopy(output_file, stream) for stream in streams}
            subtitles = subtitles or _add_subtitles(output_file)
            output_file.mux(_subtitles(clip, start, subtitles))
            for packet in input_file.demux(streams):
                if packet.size:
                    copies[packet.stream.type].write(packet, start)


def _encode(clips: Sequence[CaptionedClip], starts: Sequence[float], output_file: Any) -> None:
    with ExitStack() as stack:
        input_files = [stack.enter_context(av.open(str(clip.path))) for clip in clips]
        size = input_files[0].streams.video[0]
        video = add_video(output_file, size.width, size.height)
        has_sound = any(input_file.streams.audio for input_file in input_files)
        sound = output_file.add_stream("aac", RATE, layout="stereo") if has_sound else None
        subtitles = _add_subtitles(output_file)
        for clip, input_file, start in zip(clips, input_files, starts, strict=True):
            output_file.mux(_subtitles(clip, start, subtitles))
            _encode_clip(input_file, start, video, sound, output_file)
        for stream in filter(None, (video, sound)):
            output_file.mux(stream.encode(None))


def _encode_clip(input_file: Any, start: float, video: Any, sound: Any, output_file: Any) -> None:
    resampler = AudioResampler("fltp", "stereo", RATE)
    graph: Any = None
    for packet in input_file.demux(_main_streams(input_file)):
        for frame in decode_packet(packet.stream.decode, packet, Meter()):
            if frame.time is None:
                continue
            if packet.stream.type == "video":
                graph = graph or _open_fit_filter(packet.stream, frame, video)
                graph.push(frame)
                picture = graph.pull()
                picture.pts, picture.time_base = to_ticks(start + frame.time, TICKS_A_SECOND)
                output_file.mux(video.encode(picture))
            else:
                time = start + frame.time
                for part in resampler.resample(frame):
                    part.pts, part.time_base = to_ticks(time, RATE)
                    time += part.samples / RATE
                    output_file.mux(sound.encode(part))


def _open_fit_filter(stream: Any, frame: Any, video: Any) -> Graph:
    graph = Graph()
    size = f"{video.width}:{video.height}"
    rotation = [_ROTATIONS[frame.rotation]] if frame.rotation in _ROTATIONS else []
    steps = [
        *rotation,
        f"scale={size}:force_original_aspect_ratio=decrease",
        f"pad={size}:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p",
    ]
    links = [graph.add_buffer(template=stream)]
    for step in ",".join(steps).split(","):
        name, _, words = step.partition("=")
        links.append(graph.add(name, words or None))
    links.append(graph.add("buffersink"))
    graph.link_nodes(*links).configure()
    return graph
