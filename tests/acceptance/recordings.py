"""Small recordings for the acceptance tests, made with PyAV.

    make_recording(folder / "shift.mp4", duration=40.0, work=[(8.0, 16.0)])

Pictures differ from one second to the next. The sound is faint noise, with knocks and scraping
during `work`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.packet import Packet
from av.video.frame import VideoFrame
from numpy.typing import NDArray

WIDTH, HEIGHT = 160, 120
SAMPLE_RATE = 16_000
FRAME_RATE = 2
CLOCK = 90_000
"""Ticks per second of the pictures' timestamps."""

Work = Sequence[tuple[float, float]]


def make_recording(
    path: Path,
    *,
    duration: float = 40.0,
    work: Work = ((8.0, 16.0), (28.0, 32.0)),
    has_audio: bool = True,
    has_video: bool = True,
    silent: bool = False,
    noisy_pictures: bool = False,
    seed: int = 0,
) -> Path:
    """A recording; the suffix chooses the container.

    Args:
        path: Where it is written.
        duration: Seconds.
        work: When there is something to hear, in seconds.
        has_audio: Whether it has an audio track.
        has_video: Whether it has pictures.
        silent: Whether every sample of the sound is zero.
        noisy_pictures: Whether pictures are noise, which makes the file large.
        seed: Recordings with different seeds differ in sound and picture.
    """
    with av.open(str(path), "w") as container:
        packets: list[Packet] = []
        video = audio = None
        if has_video:
            video = container.add_stream("libx264", FRAME_RATE)
            video.width, video.height, video.pix_fmt = WIDTH, HEIGHT, "yuv420p"
            video.codec_context.thread_count = 1
            video.codec_context.time_base = Fraction(1, CLOCK)
            video.options = {"preset": "ultrafast", "x264-params": "keyint=4:bframes=0"}
        if has_audio:
            codec = "pcm_s16le" if path.suffix == ".wav" else "aac"
            audio = container.add_stream(codec, SAMPLE_RATE)
            audio.layout = "mono"
        if video is not None:
            packets += _picture_packets(video, duration, seed, noisy_pictures)
        if audio is not None:
            samples = make_sound(duration, () if silent else work, seed=seed)
            packets += _sound_packets(audio, samples * (not silent))
        for packet in sorted(packets, key=lambda packet: packet.dts * packet.time_base):
            container.mux(packet)
    return path


def make_sound(duration: float, work: Work, *, seed: int = 0) -> NDArray[np.float32]:
    """Mono samples in [-1, 1]."""
    generator = np.random.default_rng(seed)
    samples = 0.001 * generator.standard_normal(round(duration * SAMPLE_RATE))
    for start, end in work:
        if start >= duration:
            continue
        first, last = round(start * SAMPLE_RATE), round(min(end, duration) * SAMPLE_RATE)
        samples[first:last] += 0.03 * generator.standard_normal(last - first)
        for knock in np.arange(start + 0.2, end - 0.1, 0.8):
            first = round(knock * SAMPLE_RATE)
            times = np.arange(round(0.08 * SAMPLE_RATE)) / SAMPLE_RATE
            knocking = np.exp(-times / 0.02) * generator.standard_normal(len(times))
            samples[first : first + len(times)] += 0.3 * knocking
    return np.clip(samples, -1, 1).astype(np.float32)


def _picture_packets(stream, duration: float, seed: int, noisy: bool) -> list[Packet]:
    packets: list[Packet] = []
    frame_count = round(duration * FRAME_RATE)
    generator = np.random.default_rng(seed)
    for number in range(frame_count):
        picture = np.full((HEIGHT, WIDTH, 3), (40 + 13 * seed) % 200, np.uint8)
        if noisy:
            picture = generator.integers(0, 256, picture.shape, np.uint8)
        bar = (number * 11) % (WIDTH - 20)
        picture[:, bar : bar + 20] = (200, number * 7 % 256, number * 29 % 256)
        frame = VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
        frame.pts, frame.time_base = number * CLOCK // FRAME_RATE, Fraction(1, CLOCK)
        packets += stream.encode(frame)
    packets += stream.encode(None)
    for packet in packets:
        packet.duration = CLOCK // FRAME_RATE
    return packets


def _sound_packets(stream, samples: NDArray[np.float32]) -> list[Packet]:
    pcm = stream.codec_context.name == "pcm_s16le"
    packets: list[Packet] = []
    for first in range(0, len(samples), SAMPLE_RATE):
        piece = samples[None, first : first + SAMPLE_RATE]
        values = np.round(piece * 32_767).astype(np.int16) if pcm else piece.astype(np.float32)
        frame = AudioFrame.from_ndarray(
            np.ascontiguousarray(values), format="s16" if pcm else "fltp", layout="mono"
        )
        frame.sample_rate, frame.pts = SAMPLE_RATE, first
        frame.time_base = Fraction(1, SAMPLE_RATE)
        packets += stream.encode(frame)
    return packets + stream.encode(None)
