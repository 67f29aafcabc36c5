"""Recordings for the goldens: seeded sound, stored without loss to be alike on all machines."""

from __future__ import annotations

import wave
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
FRAME_RATE = 4
SIZE = 64

Event = tuple[float, float, str]
"""Start and length in seconds, and `clatter`, `scrape` or `hum`."""


def make_sound(seconds: float, events: list[Event], *, seed: int) -> NDArray[np.int16]:
    """Faint noise with events."""
    generator = np.random.default_rng(seed)
    samples = generator.normal(0, 0.004, round(seconds * SAMPLE_RATE))
    for start, length, kind in events:
        time = np.arange(round(length * SAMPLE_RATE)) / SAMPLE_RATE
        if kind == "hum":
            event = 0.05 * np.sin(2 * np.pi * 120 * time)
        elif kind == "scrape":
            event = generator.normal(0, 0.15, len(time))
        else:
            event = np.zeros(len(time))
            for _ in range(max(2, round(3 * length))):
                age = time - generator.uniform(0, 0.9 * length)
                pitch = generator.uniform(400, 4000)
                decay = np.exp(-25 * np.clip(age, 0, None))
                event += (age >= 0) * 0.4 * decay * np.sin(2 * np.pi * pitch * age)
        first = round(start * SAMPLE_RATE)
        stretch = samples[first : first + len(event)]
        stretch += event[: len(stretch)]
    return (np.clip(samples * _swell(samples, generator), -1, 1) * 32767).astype(np.int16)


def _swell(samples: NDArray[np.float64], generator: np.random.Generator) -> NDArray[np.float64]:
    """A gain with one peak in every window of 4 s, so that its loudest moment is beyond doubt."""
    time = np.arange(len(samples)) / SAMPLE_RATE
    peaks = 0.1 + 0.2 * generator.integers(4, 16, len(samples) // (4 * SAMPLE_RATE) + 1)
    distance = time % 4 - peaks[(time // 4).astype(int)]
    gain: NDArray[np.float64] = 0.6 + 0.6 * np.exp(-((distance / 0.25) ** 2))
    return gain


def write_wave(path: Path, samples: NDArray[np.int16], sample_rate: int = SAMPLE_RATE) -> Path:
    """A WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())
    return path


def write_video(path: Path, samples: NDArray[np.int16], *, codec: str = "alac") -> Path:
    """A video whose sound is `samples` exactly; a white square moves over a changing colour."""
    with av.open(str(path), "w") as container:
        video = container.add_stream("mpeg4", FRAME_RATE)
        video.width, video.height, video.pix_fmt = SIZE, SIZE, "yuv420p"
        audio = container.add_stream(codec, SAMPLE_RATE)
        audio.layout = "mono"
        sample_format = "s16p" if codec == "alac" else "s16"
        audio.codec_context.format = sample_format
        for index in range(round(len(samples) / SAMPLE_RATE * FRAME_RATE)):
            picture = np.full((SIZE, SIZE, 3), (index * 3 % 256, 60, 100), np.uint8)
            picture[8:24, index % 40 : index % 40 + 16] = 255
            frame = VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, FRAME_RATE)
            container.mux(video.encode(frame))
        container.mux(video.encode(None))
        for first in range(0, len(samples), 4096):
            block = samples[None, first : first + 4096]
            sound = AudioFrame.from_ndarray(block, format=sample_format, layout="mono")
            sound.sample_rate, sound.pts = SAMPLE_RATE, first
            sound.time_base = Fraction(1, SAMPLE_RATE)
            container.mux(audio.encode(sound))
        container.mux(audio.encode(None))
    return path
