"""Makes small media files whose every click and picture is known, with PyAV.

>>> make_video(folder / "a.mp4", duration=4.0, clicks=[1.0, 2.5])           # doctest: +SKIP
>>> make_audio(folder / "a.flac", duration=4.0, clicks=[1.0])               # doctest: +SKIP

A picture carries its number as black and white cells, so a test can read back which one it got.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.container import InputContainer, OutputContainer
from av.packet import Packet
from av.video.frame import VideoFrame
from numpy.typing import NDArray

from earmark import Recording

WIDTH, HEIGHT, CELL = 160, 120, 20
CLICK = 0.004
"""Seconds one click lasts."""

_AUDIO_CODECS = {
    ".mp4": "aac",
    ".m4a": "aac",
    ".mov": "aac",
    ".mkv": "aac",
    ".ts": "aac",
    ".aac": "aac",
    ".webm": "libopus",
    ".opus": "libopus",
    ".ogg": "libopus",
    ".wav": "pcm_s16le",
    ".flac": "flac",
    ".mp3": "libmp3lame",
    ".avi": "libmp3lame",
    ".flv": "aac",
}
_VIDEO_CODECS = {".webm": "libvpx"}
_LAYOUTS = {
    "last": {},
    "first": {"movflags": "faststart"},
    "fragmented": {"movflags": "frag_keyframe+empty_moov+delay_moov"},
}


@dataclass(frozen=True)
class AudioPlan:
    """What one audio track holds."""

    clicks: Sequence[float] = ()
    """When the clicks begin, in seconds."""
    codec: str | None = None
    """libav's name of the encoder; None for the usual one of the container."""
    sample_rate: int = 48_000
    channels: int = 1
    start: float = 0.0
    """Packets before this time are left out: the sound starts late."""
    end: float = float("inf")
    """Packets after this time are left out: the sound ends early."""
    hole: tuple[float, float] | None = None
    """Packets between these times are left out."""
    noise: float = 0.0
    """Amplitude of white noise beneath the clicks."""
    language: str | None = None

    def keeps(self, time: float) -> bool:
        """Whether a packet at `time` goes into the file."""
        in_hole = self.hole is not None and self.hole[0] <= time < self.hole[1]
        return self.start <= time < self.end and not in_hole


def make_video(
    path: Path,
    *,
    duration: float = 4.0,
    clicks: Sequence[float] = (),
    audio: AudioPlan | Sequence[AudioPlan] | None = None,
    has_audio: bool = True,
    fps: float = 10,
    frame_times: Sequence[float] | None = None,
    video_end: float | None = None,
    group: int = 10,
    b_frames: int = 0,
    layout: str = "last",
    offset: float = 0.0,
    rotation: int = 0,
    codec: str | None = None,
    pixel_format: str = "yuv420p",
    size: tuple[int, int] = (WIDTH, HEIGHT),
    draw: Callable[[float], NDArray[np.uint8]] | None = None,
    matrix: str = "bt601",
) -> Path:
    """A video of `duration` seconds with numbered pictures and clicks at known times.

    Args:
        path: Its suffix chooses the container: mp4, mov, mkv, webm, ts.
        duration: Seconds of picture and sound.
        clicks: When the clicks of a single plain audio track begin.
        audio: The audio track or tracks in full, instead of `clicks`.
        has_audio: False for pictures alone.
        fps: Pictures a second.
        frame_times: When each picture is shown, instead of `fps`: a variable frame rate.
        video_end: When the last picture ends, where that is not at `duration`.
        group: Pictures from one key frame to the next.
        b_frames: Pictures that are stored out of order.
        layout: Of MP4 and MOV: index `last`, `first`, or `fragmented`.
        offset: Seconds added to every timestamp in the file.
        rotation: Degrees clockwise by which a player is told to turn the pictures (MP4, MOV).
        codec: libav's name of the video encoder; None for the container's usual one.
        pixel_format: Of the encoded pictures.
        size: Width and height in pixels; the numbers need at least 160 x 40.
        draw: Time to picture, `(height, width, 3)` uint8; None for numbered pictures.
        matrix: How colours are encoded, `bt601` or `bt709`; the file does not say.
    """
    times = list(frame_times if frame_times is not None else np.arange(round(duration * fps)) / fps)
    plans = _plans(clicks, audio) if has_audio else []
    options = _LAYOUTS[layout] if path.suffix in (".mp4", ".mov") else {}
    with av.open(str(path), "w", options=options) as container:
        video = container.add_stream(codec or _VIDEO_CODECS.get(path.suffix, "libx264"), round(fps))
        video.width, video.height = size
        video.pix_fmt = pixel_format
        if rotation:
            video.set_display_rotation(-rotation)
        video.codec_context.thread_count = 1
        video.codec_context.gop_size = group
        video.codec_context.time_base = Fraction(1, 90_000)
        video.codec_context.max_b_frames = b_frames
        video.options = _video_options(video.codec_context.name, group, b_frames)
        sounds = [_add_sound(container, path, plan) for plan in plans]
        packets = _pictures(video, [*times, video_end or duration], size, draw, matrix)
        for plan, stream in zip(plans, sounds, strict=True):
            packets += _sound_packets(stream, plan, duration)
        _mux(container, packets, offset)
    if codec == "libsvtav1":  # as root it gives the whole process real-time priority, for good
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    return path


def make_archive(folder: Path) -> Path:
    """Three recordings of 24 seconds in `folder`, which is given back."""
    for number in range(3):
        clicks = [3.0 + 4 * number, 17.0]
        make_video(folder / f"{number}.mp4", duration=24.0, clicks=clicks, fps=5, group=10)
    return folder


def make_audio(
    path: Path,
    *,
    duration: float = 4.0,
    clicks: Sequence[float] = (),
    audio: AudioPlan | None = None,
) -> Path:
    """A file of sound alone; its suffix chooses the format."""
    plan = audio or AudioPlan(clicks=clicks)
    with av.open(str(path), "w") as container:
        stream = _add_sound(container, path, plan)
        _mux(container, _sound_packets(stream, plan, duration), 0.0)
    return path


def click_track(
    clicks: Iterable[float], *, duration: float, sample_rate: int, noise: float = 0.0
) -> NDArray[np.float32]:
    """Mono sound, silent but for loud bursts of 1 kHz that begin at `clicks`."""
    generator = np.random.default_rng(0)
    values = noise * generator.standard_normal(round(duration * sample_rate))
    burst = 0.8 * np.sin(2 * np.pi * 1000 * np.arange(round(CLICK * sample_rate)) / sample_rate)
    for click in clicks:
        first = round(click * sample_rate)
        room = values[first : first + len(burst)]
        room += burst[: len(room)]
    return values.astype(np.float32)


def click_times(
    values: NDArray[np.float32], sample_rate: int, *, apart: float = 0.1
) -> list[float]:
    """When the clicks in `values` begin: first loud samples after at least `apart` of quiet."""
    loud = np.flatnonzero(np.abs(values) > 0.25)
    if not len(loud):
        return []
    begins = np.concatenate([[True], np.diff(loud) > apart * sample_rate])
    return [float(place) / sample_rate for place in loud[begins]]


def whole_sound(recording: Recording, **options: Any) -> NDArray[np.float32]:
    """All blocks of a recording's sound end to end, after making sure that they touch."""
    blocks = list(recording.sound(**options))
    for before, after in itertools.pairwise(blocks):
        assert after.start == before.start + len(before) / before.sample_rate
    assert not blocks or blocks[0].start == 0.0
    return np.concatenate([block.values for block in blocks])


def numbered_picture(number: int, size: tuple[int, int] = (WIDTH, HEIGHT)) -> NDArray[np.uint8]:
    """A picture with `number` in 16 cells of black and white, and a bar that moves."""
    width, height = size
    picture = np.full((height, width, 3), 90, np.uint8)
    for bit in range(16):
        row, column = divmod(bit, 8)
        shade = 235 if number >> bit & 1 else 16
        picture[row * CELL : (row + 1) * CELL, column * CELL : (column + 1) * CELL] = shade
    bar = (number * 7) % (width - 8)
    picture[2 * CELL :, bar : bar + 8] = (200, 60, 40)
    return picture


def read_number(picture: NDArray[np.uint8]) -> int:
    """The number in a numbered picture, read from the middle of its cells."""
    number = 0
    for bit in range(16):
        row, column = divmod(bit, 8)
        middle = picture[row * CELL + 5 : row * CELL + 15, column * CELL + 5 : column * CELL + 15]
        number |= int(middle.mean() > 125) << bit
    return number


def _plans(
    clicks: Sequence[float], audio: AudioPlan | Sequence[AudioPlan] | None
) -> list[AudioPlan]:
    if audio is None:
        return [AudioPlan(clicks=clicks)]
    return [audio] if isinstance(audio, AudioPlan) else list(audio)


def _video_options(codec: str, group: int, b_frames: int) -> dict[str, str]:
    if codec == "libx264":
        exact = f"scenecut=0:keyint={group}:min-keyint={group}:bframes={b_frames}"
        return {"preset": "ultrafast", "crf": "28", "x264-params": exact}
    if codec == "libx265":
        return {"preset": "ultrafast", "x265-params": f"keyint={group}:bframes=0:log-level=none"}
    return {"deadline": "realtime", "cpu-used": "8"} if codec.startswith("libvpx") else {}


def _pictures(video, times, size, draw, matrix) -> list[Packet]:
    """Packets of the pictures at all `times` but the last, which is when the last one ends."""
    ends = {round(time * 90_000): round(end * 90_000) for time, end in itertools.pairwise(times)}
    packets: list[Packet] = []
    for number, time in enumerate(times[:-1]):
        picture = draw(time) if draw else numbered_picture(number, size)
        frame = VideoFrame.from_ndarray(picture, format="rgb24").reformat(
            format=video.pix_fmt, dst_colorspace={"bt601": "ITU601", "bt709": "ITU709"}[matrix]
        )
        frame.colorspace = 2
        frame.pts = round(time * 90_000)
        frame.time_base = Fraction(1, 90_000)
        packets += video.encode(frame)
    packets += video.encode(None)
    for packet in packets:
        packet.duration = ends[packet.pts] - packet.pts
    return packets


def _add_sound(container: OutputContainer, path: Path, plan: AudioPlan):
    stream = container.add_stream(plan.codec or _AUDIO_CODECS[path.suffix], plan.sample_rate)
    stream.layout = {1: "mono", 2: "stereo", 4: "quad", 6: "5.1"}[plan.channels]
    if plan.language:
        stream.metadata["language"] = plan.language
    return stream


def _sound_packets(stream, plan: AudioPlan, duration: float) -> list[Packet]:
    """All packets of a track, but for those the plan leaves out."""
    values = click_track(
        plan.clicks, duration=duration, sample_rate=plan.sample_rate, noise=plan.noise
    )
    planes = np.repeat(values[None, :], plan.channels, axis=0)
    packets: list[Packet] = []
    for first in range(0, planes.shape[1], 48_000):
        piece = np.ascontiguousarray(planes[:, first : first + 48_000])
        frame = AudioFrame.from_ndarray(piece, format="fltp", layout=stream.layout.name)
        frame.sample_rate = plan.sample_rate
        frame.pts = first
        frame.time_base = Fraction(1, plan.sample_rate)
        packets += stream.encode(frame)
    packets += stream.encode(None)
    return [packet for packet in packets if plan.keeps(_time(packet))]


def _time(packet: Packet) -> float:
    # AAC priming comes before 0; it belongs to what starts at 0.
    return max(0.0, float(packet.pts * packet.time_base))


def _mux(container: OutputContainer, packets: Iterable[Packet], offset: float) -> None:
    for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
        shift = round(offset / packet.time_base)
        packet.pts += shift
        packet.dts += shift
        container.mux(packet)


def chapters_of(video: InputContainer) -> list[tuple[float, float, str]]:
    """The chapters of a video: when each begins and ends, and its title."""
    return [
        (
            float(one["start"] * one["time_base"]),
            float(one["end"] * one["time_base"]),
            one["metadata"]["title"],
        )
        for one in video.chapters()
    ]
