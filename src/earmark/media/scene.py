"""Makes small recordings whose actions are known: a workbench that moves and sounds.

    script   quiet          busy                 quiet        busier
    actions  ────────────── ▇▇ ▇ ▇▇▇ ▇ ▇▇ ───────────── ▇▇▇▇ ▇▇ ▇▇ ▇▇
    sound        voice      ▒▒ ▒     ▒ ▒▒       knock   ▒▒▒▒    ▒▒ ▒▒      room noise beneath

Listening helps and is not perfect: some actions are silent, some sounds belong to no action. The
same seed makes the same script, the same samples and the same pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.container import OutputContainer
from numpy.typing import NDArray
from scipy.signal import lfilter

from earmark.timeline import FloatArray, Span

Picture = NDArray[np.uint8]

STARTS_A_SECOND = (0.0, 0.5, 0.08, 1.2)
"""How busy the stretches of a script are, in turn: nothing, some work, little, much."""

SILENT_SHARE = 0.12
"""Share of the audible kinds of action that make no sound."""

DISTRACTORS_A_SECOND = 0.08
"""Sounds that belong to no action, wherever they fall."""

SAMPLE_RATE = 16_000
"""Of the sound that is written."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something done in a scene, and known to be done."""

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
    """All that happens in a scene, before any of it is drawn or sounded."""

    seed: int
    duration: float
    actions: tuple[Action, ...]
    """In order; no two overlap."""
    noises: tuple[Noise, ...]

    @classmethod
    def compose(cls, *, seed: int = 0, duration: float = 120.0) -> Script:
        """A script of quiet and busy stretches; a short one may hold no action at all."""
        if not duration > 0:
            raise ValueError(f"a scene lasts more than 0 s, not {duration}")
        rng = np.random.default_rng(seed)
        actions = tuple(_act(rng, duration))
        heard = [action for action in actions if action.is_heard]
        noises = [
            Noise(action.label, action.start, action.span.duration, 0.35 * _distance(rng))
            for action in heard
        ]
        for _ in range(rng.poisson(DISTRACTORS_A_SECOND * duration)):
            kind = str(rng.choice(["voice", "knock", "beep"]))
            start, length = rng.uniform(0, duration), rng.uniform(0.2, 2.5)
            noises.append(Noise(kind, start, length, 0.2 * _distance(rng)))
        return cls(seed, duration, actions, tuple(noises))

    def sound(self, *, sample_rate: int = SAMPLE_RATE) -> FloatArray:
        """The whole sound, one channel, float32 within [-1, 1]."""
        rng = np.random.default_rng([self.seed, 1])
        mixture = _room(rng, round(self.duration * sample_rate), sample_rate)
        for noise in self.noises:
            first = round(noise.start * sample_rate)
            count = min(round(noise.duration * sample_rate), len(mixture) - first)
            if count > 0:
                voice = NOISES[noise.kind](rng, count, sample_rate)
                mixture[first : first + count] += noise.gain * _faded(voice, sample_rate)
        return np.clip(mixture, -1.0, 1.0)

    def pictures(self, *, width: int = 320, height: int = 240, fps: int = 15) -> Iterator[Picture]:
        """The frames in order, `(height, width, 3)`; nothing moves outside an action."""
        bench = _bench(width, height)
        worked = dict.fromkeys(DRAWINGS, 0.0)
        going = iter(self.actions)
        action = next(going, None)
        for index in range(round(self.duration * fps)):
            time = index / fps
            while action and action.end <= time:
                action = next(going, None)
            active = action.label if action and action.start <= time else None
            if active:
                worked[active] += 1 / fps
            picture = bench.copy()
            for label, draw in DRAWINGS.items():
                if label == active or label in SEEN_AT_REST:
                    draw(picture, worked[label])
            yield picture


@dataclass(frozen=True, slots=True)
class Scene:
    """A recording on disk, and what happens in it."""

    path: Path
    actions: list[Action]
    duration: float


def make_scene(
    path: Path,
    *,
    seed: int = 0,
    duration: float = 120.0,
    size: tuple[int, int] = (320, 240),
    fps: int = 15,
    grain: int = 0,
    has_audio: bool = True,
    has_video: bool = True,
) -> Scene:
    """Write a scene to `path` as H.264 and AAC; the suffix (`.mp4`, `.mkv`) names the container.

    Args:
        path: The file to write.
        seed: Names the scene; the same seed writes the same bytes.
        duration: Seconds of the recording.
        size: Width and height in pixels, both even.
        fps: Frames a second; a key frame comes every two seconds.
        grain: Noise of the pictures in levels of grey, which is what costs bytes in real ones.
        has_audio: Without it the file has no audio stream.
        has_video: Without it the file has no video stream.
    """
    script = Script.compose(seed=seed, duration=duration)
    with av.open(str(path), "w") as container:
        # Both streams exist before the first packet: the header is written then.
        film = _Film(container, script, size, fps, grain) if has_video else None
        tape = _Tape(container, script) if has_audio else None
        # Second by second, so that the two streams lie side by side in the file.
        for _ in range(math.ceil(duration)):
            for reel in (film, tape):
                if reel:
                    container.mux(reel.next_second())
        for reel in (film, tape):
            if reel:
                container.mux(reel.stream.encode(None))
    return Scene(path, list(script.actions), duration)


class _Film:
    """Encodes a script's pictures."""

    def __init__(
        self,
        container: OutputContainer,
        script: Script,
        size: tuple[int, int],
        fps: int,
        grain: int,
    ) -> None:
        # One thread: the same bytes on every machine.
        options = {"preset": "ultrafast", "crf": "26", "g": str(2 * fps), "threads": "1"}
        self.stream = container.add_stream("libx264", rate=fps, options=options)
        self.stream.width, self.stream.height = size
        self.stream.pix_fmt = "yuv420p"
        self.fps, self.grain, self.rng = fps, grain, np.random.default_rng(0)
        pictures = script.pictures(width=size[0], height=size[1], fps=fps)
        self.numbered = enumerate(pictures)

    def next_second(self) -> list[av.packet.Packet[Any]]:
        """The packets that one second more of pictures gives."""
        packets: list[av.packet.Packet[Any]] = []
        for index, picture in islice(self.numbered, self.fps):
            frame = av.VideoFrame.from_ndarray(self._grained(picture), format="rgb24")
            frame.pts, frame.time_base = index, Fraction(1, self.fps)
            packets += self.stream.encode(frame)
        return packets

    def _grained(self, picture: Picture) -> Picture:
        if not self.grain:
            return picture
        noise = self.rng.integers(-self.grain, self.grain, (*picture.shape[:2], 1), np.int16, True)
        grained: Picture = np.clip(picture + noise, 0, 255).astype(np.uint8)
        return grained


class _Tape:
    """Encodes a script's sound."""

    def __init__(self, container: OutputContainer, script: Script) -> None:
        self.stream = container.add_stream("aac", rate=SAMPLE_RATE)
        self.stream.layout = "mono"
        self.samples = script.sound(sample_rate=SAMPLE_RATE)
        self.played = 0

    def next_second(self) -> list[av.packet.Packet[Any]]:
        """The packets that one second more of sound gives."""
        samples = self.samples[self.played : self.played + SAMPLE_RATE]
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = SAMPLE_RATE, self.played
        self.played += len(samples)
        return self.stream.encode(frame)


def _act(rng: np.random.Generator, duration: float) -> Iterator[Action]:
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
            yield Action(label, time, time + length, is_heard)
            time += length + 0.2
        time = max(time, edge)
        if time >= duration:
            return


def _distance(rng: np.random.Generator) -> float:
    """A gain in (0, 1]: some sounds come from farther away."""
    return float(min(1.0, rng.lognormal(-0.6, 0.6)))


def _room(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Low noise whose level drifts by several decibels over a minute."""
    rumble = lfilter([0.1], [1.0, -0.9], rng.standard_normal(count, dtype=np.float32))
    knots = np.clip(np.cumsum(rng.normal(0, 2.0, size=count // (5 * sample_rate) + 2)), -8, 8)
    places = np.arange(len(knots)) * 5 * sample_rate
    decibels = np.interp(np.arange(count), places, knots) - 34
    return np.asarray(rumble * 10 ** (decibels / 20), dtype=np.float32)


def _faded(sound: FloatArray, sample_rate: int) -> FloatArray:
    """The sound at a peak of 1, faded over 10 ms so that its ends do not click."""
    ramp = np.minimum(1.0, (np.arange(len(sound)) + 1) / (0.01 * sample_rate))
    return sound / max(float(np.abs(sound).max()), 1e-9) * ramp * ramp[::-1]


def _blows(rng: np.random.Generator, count: int, sample_rate: int, every: float) -> FloatArray:
    """Sharp attacks that ring and die away, one about `every` seconds."""
    sound = np.zeros(count)
    first = 0.0
    while first * sample_rate < count:
        place = int(first * sample_rate)
        time = np.arange(count - place)[: sample_rate // 2] / sample_rate
        pitch, decay = rng.uniform(250, 900), rng.uniform(18, 40)
        ring = np.sin(2 * np.pi * pitch * time) + 0.6 * rng.standard_normal(len(time))
        sound[place : place + len(time)] += ring * np.exp(-decay * time)
        first += every * rng.uniform(0.8, 1.2)
    return sound


def _hammer(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    return _blows(rng, count, sample_rate, 0.45)


def _knock(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    return _blows(rng, count, sample_rate, 0.3)


def _rub(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Hiss that comes and goes with each stroke."""
    hiss = np.diff(rng.standard_normal(count + 1))
    strokes = np.abs(np.sin(np.pi * rng.uniform(1.5, 2.5) * np.arange(count) / sample_rate))
    return np.asarray(hiss * strokes**2)


def _rinse(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Steady band noise with bubbles in it."""
    flow = lfilter([0.3, 0.0, -0.3], [1.0, -0.9, 0.4], rng.standard_normal(count))
    turn = -1.95 * np.cos(2 * np.pi * 500 / sample_rate)
    bubbles = lfilter([1.0], [1.0, turn, 0.95], rng.standard_normal(count) ** 5 / 40)
    return np.asarray(flow + 0.1 * bubbles)


def _voice(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Harmonics of a wandering pitch, four syllables a second."""
    time = np.arange(count) / sample_rate
    pitch = rng.uniform(100, 220)
    phase = 2 * np.pi * pitch * (time + 0.02 * np.sin(2 * np.pi * 0.7 * time))
    harmonics = sum(np.sin(order * phase) / order for order in range(1, 9))
    return np.asarray(harmonics * np.sin(2 * np.pi * 2 * time) ** 2)


def _beep(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    time = np.arange(count) / sample_rate
    return np.asarray(np.sin(2 * np.pi * rng.uniform(800, 2000) * time) * (time % 0.4 < 0.2))


NOISES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "hammer": _hammer,
    "rub": _rub,
    "rinse": _rinse,
    "voice": _voice,
    "knock": _knock,
    "beep": _beep,
}
"""What each kind of sound is made of, given its length in samples."""


def _fill(
    picture: Picture, box: tuple[float, float, float, float], colour: tuple[int, int, int]
) -> None:
    """Paint a box of the picture: left, top, right, bottom as shares of its width and height."""
    height, width = picture.shape[:2]
    left, top, right, bottom = box
    rows = slice(round(top * height), round(bottom * height))
    picture[rows, round(left * width) : round(right * width)] = colour


def _bench(width: int, height: int) -> Picture:
    """A wall that darkens towards the table, a shelf, a tap and a block of wood."""
    shade = np.linspace(205, 150, height)[:, None, None] * np.array([1.0, 0.97, 0.9])
    picture = np.broadcast_to(shade, (height, width, 3)).astype(np.uint8)
    _fill(picture, (0.0, 0.62, 1.0, 1.0), (112, 84, 60))
    _fill(picture, (0.0, 0.62, 1.0, 0.64), (136, 104, 76))
    _fill(picture, (0.05, 0.20, 0.60, 0.23), (96, 72, 52))
    _fill(picture, (0.10, 0.56, 0.30, 0.66), (170, 132, 84))
    _fill(picture, (0.80, 0.22, 0.84, 0.34), (90, 96, 104))
    _fill(picture, (0.70, 0.66, 0.94, 0.80), (70, 76, 84))
    return picture


def _draw_hammer(picture: Picture, worked: float) -> None:
    """A red hammer above the block; it falls twice a second."""
    lift = 0.2 * abs(np.cos(2 * np.pi * worked))
    _fill(picture, (0.19, 0.34 - lift + 0.04, 0.21, 0.52 - lift), (120, 84, 44))
    _fill(picture, (0.13, 0.50 - lift, 0.27, 0.57 - lift), (200, 44, 40))


def _draw_cloth(picture: Picture, worked: float) -> None:
    """A blue cloth that slides over the table."""
    shift = 0.1 * np.sin(2 * np.pi * worked)
    _fill(picture, (0.40 + shift, 0.74, 0.54 + shift, 0.88), (48, 92, 196))


def _draw_water(picture: Picture, worked: float) -> None:
    """Water that falls from the tap."""
    _fill(picture, (0.805, 0.34, 0.835, 0.70), (150, 206, 232))
    for drop in range(4):
        top = 0.34 + (worked * 1.3 + drop * 0.09) % 0.33
        _fill(picture, (0.795, top, 0.845, top + 0.03), (226, 246, 255))


def _draw_box(picture: Picture, worked: float) -> None:
    """A yellow box carried to and fro along the shelf, without a sound."""
    place = 0.22 * (1 - np.cos(0.8 * np.pi * worked))
    _fill(picture, (0.07 + place, 0.10, 0.16 + place, 0.20), (232, 186, 52))


DRAWINGS: dict[str, Callable[[Picture, float], None]] = {
    "hammer": _draw_hammer,
    "rub": _draw_cloth,
    "rinse": _draw_water,
    "carry": _draw_box,
}
"""How each kind of action looks, given the seconds it has gone on for in all."""

SEEN_AT_REST = ("hammer", "rub", "carry")
"""Kinds whose object stays in sight when nothing is done with it; water is there while it runs."""
