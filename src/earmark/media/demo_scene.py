"""Makes small recordings with known actions: a workbench with movement and sound.

    script   quiet          busy                 quiet        busier
    actions  ────────────── ▇▇ ▇ ▇▇▇ ▇ ▇▇ ───────────── ▇▇▇▇ ▇▇ ▇▇ ▇▇
    sound        voice      ▒▒ ▒     ▒ ▒▒       knock   ▒▒▒▒    ▒▒ ▒▒      room noise beneath

Listening helps and is not perfect: some actions are silent, some sounds belong to no action. The
same seed makes the same script, the same samples and the same pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.audio.stream import AudioStream
from av.packet import Packet
from av.video.stream import VideoStream

from earmark.media.demo_rendering import (
    DRAWINGS,
    NOISES,
    SEEN_AT_REST,
    draw_bench,
    normalise_and_fade,
    room_noise,
)
from earmark.media.frame import Pixels
from earmark.timeline import FloatArray, Span

STARTS_A_SECOND = (0.0, 0.5, 0.08, 1.2)
"""Rate of action starts in successive stretches of a script: none, some, few, many."""

SILENT_SHARE = 0.12
"""Share of the audible kinds of action that make no sound."""

DISTRACTORS_A_SECOND = 0.08
"""Rate of sounds that belong to no action, at random times."""

SAMPLE_RATE = 16_000
"""Of the recording, in Hz."""


@dataclass(frozen=True, slots=True)
class ScriptedAction:
    """An action in a scene."""

    label: str
    """`hammer`, `rub`, `rinse` or `carry`."""
    start: float
    end: float
    is_heard: bool
    """Whether it makes a sound."""

    @property
    def span(self) -> Span:
        """When it happens."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Noise:
    """A sound in a scene, with or without an action behind it."""

    kind: str
    start: float
    duration: float
    gain: float
    """Peak amplitude."""


@dataclass(frozen=True, slots=True)
class Script:
    """The actions and sounds of a scene, before rendering."""

    seed: int
    duration: float
    actions: tuple[ScriptedAction, ...]
    """In order; no two overlap."""
    noises: tuple[Noise, ...]

    @classmethod
    def compose(cls, *, seed: int = 0, duration: float = 120.0) -> Script:
        """A script of quiet and busy stretches; a short one may hold no action at all."""
        if not duration > 0:
            raise ValueError(f"a scene lasts more than 0 s, not {duration}")
        rng = np.random.default_rng(seed)
        actions = tuple(_draw_actions(rng, duration))
        noises = [  # loud enough to be recognised
            Noise(action.label, action.start, action.span.duration, 0.4)
            for action in actions
            if action.is_heard
        ]
        for _ in range(rng.poisson(DISTRACTORS_A_SECOND * duration)):
            kind = str(rng.choice(["voice", "knock", "beep"]))
            start, length = rng.uniform(0, duration), rng.uniform(0.2, 2.5)
            # Some come from farther away.
            gain = 0.2 * float(min(1.0, rng.lognormal(-0.6, 0.6)))
            noises.append(Noise(kind, start, length, gain))
        return cls(seed, duration, actions, tuple(noises))

    def sound(self, *, sample_rate: int = SAMPLE_RATE) -> FloatArray:
        """The whole sound, one channel, float32 within [-1, 1]."""
        rng = np.random.default_rng([self.seed, 1])
        mixture = room_noise(rng, round(self.duration * sample_rate), sample_rate)
        for noise in self.noises:
            first = round(noise.start * sample_rate)
            count = min(round(noise.duration * sample_rate), len(mixture) - first)
            if count > 0:
                voice = NOISES[noise.kind](rng, count, sample_rate)
                mixture[first : first + count] += noise.gain * normalise_and_fade(
                    voice, sample_rate
                )
        return np.clip(mixture, -1.0, 1.0)

    def pictures(self, *, width: int = 320, height: int = 240, fps: int = 15) -> Iterator[Pixels]:
        """The frames in order, `(height, width, 3)`; nothing moves outside an action."""
        empty = draw_bench(width, height)
        elapsed = dict.fromkeys(DRAWINGS, 0.0)
        remaining = iter(self.actions)
        action = next(remaining, None)
        for index in range(round(self.duration * fps)):
            time = index / fps
            while action and action.end <= time:
                action = next(remaining, None)
            active = action.label if action and action.start <= time else None
            if active:
                elapsed[active] += 1 / fps
            picture = empty.copy()
            for label, draw in DRAWINGS.items():
                if label == active or label in SEEN_AT_REST:
                    draw(picture, elapsed[label])
            yield picture


@dataclass(frozen=True, slots=True)
class Scene:
    """A recording on disk, and what happens in it."""

    path: Path
    actions: list[ScriptedAction]
    duration: float


def make_scene(path: Path, *, seed: int = 0, duration: float = 120.0, **shape: Any) -> Scene:
    """Write a scene of `duration` seconds to `path`; `shape` are options of `write_scene`."""
    return write_scene(path, Script.compose(seed=seed, duration=duration), **shape)


def write_scene(
    path: Path,
    script: Script,
    *,
    size: tuple[int, int] = (320, 240),
    fps: int = 15,
    grain: int = 0,
) -> Scene:
    """Write a scene to `path` as H.264 and AAC; the suffix (`.mp4`, `.mkv`) names the container.

    The same seed writes the same bytes. `size` is in pixels, both even; a key frame comes every two
    seconds; `grain` is noise in levels of grey, which is what costs bytes in real pictures.
    """
    with av.open(str(path), "w") as container:
        # One thread: the same bytes on every machine.
        options = {"preset": "ultrafast", "crf": "26", "g": str(2 * fps), "threads": "1"}
        video = container.add_stream("libx264", rate=fps, options=options)
        video.width, video.height = size
        video.pix_fmt = "yuv420p"
        audio = container.add_stream("aac", rate=SAMPLE_RATE)
        audio.layout = "mono"
        # Second by second, so that the streams lie side by side in the file.
        streams = _encode_video(video, script, grain), _encode_audio(audio, script)
        for packets in chain.from_iterable(zip(*streams, strict=True)):
            container.mux(packets)
    return Scene(path, list(script.actions), script.duration)


def _encode_video(stream: VideoStream, script: Script, grain: int) -> Iterator[list[Packet[Any]]]:
    """The packets that each second of pictures gives, and those left at the end."""
    fps = round(stream.codec_context.framerate)
    pictures = script.pictures(width=stream.width, height=stream.height, fps=fps)
    numbered, rng = enumerate(pictures), np.random.default_rng(0)
    for _ in range(math.ceil(script.duration)):
        packets: list[Packet[Any]] = []
        for number, picture in islice(numbered, fps):
            if grain:
                noise = rng.integers(-grain, grain, (*picture.shape[:2], 1), np.int16, True)
                picture = np.clip(picture + noise, 0, 255).astype(np.uint8)  # noqa: PLW2901
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, fps)
            packets += stream.encode(frame)
        yield packets
    yield stream.encode(None)


def _encode_audio(stream: AudioStream, script: Script) -> Iterator[list[Packet[Any]]]:
    """The packets that each second of sound gives, and those left at the end."""
    sound = script.sound(sample_rate=SAMPLE_RATE)
    for start in range(0, math.ceil(script.duration) * SAMPLE_RATE, SAMPLE_RATE):
        samples = sound[start : start + SAMPLE_RATE]
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = SAMPLE_RATE, start
        yield stream.encode(frame)
    yield stream.encode(None)


def _draw_actions(rng: np.random.Generator, duration: float) -> Iterator[ScriptedAction]:
    """Actions one after another, stretch by stretch, none past the end."""
    time = edge = 0.0
    for starts_a_second in cycle(STARTS_A_SECOND):
        # Seven to twenty seconds of a two-minute scene, one to four minutes of a long one.
        edge += rng.uniform(0.06, 0.18) * min(duration, 1200.0)
        while starts_a_second:
            time += rng.exponential(1 / starts_a_second)
            length = float(np.clip(rng.lognormal(np.log(2.0), 0.7), 0.5, 12.0))
            if time >= edge or time + length > duration:
                break
            label = str(rng.choice(list(DRAWINGS), p=[0.35, 0.3, 0.25, 0.1]))
            is_heard = label != "carry" and rng.random() >= SILENT_SHARE
            yield ScriptedAction(label, time, time + length, is_heard)
            time += length + 0.2
        time = max(time, edge)
        if time >= duration:
            return
