"""Makes small recordings with known actions: a workbench with movement and sound.

    script   quiet          busy                 quiet        busier
    actions  ────────────── ▇▇ ▇ ▇▇▇ ▇ ▇▇ ───────────── ▇▇▇▇ ▇▇ ▇▇ ▇▇
    sound        voice      ▒▒ ▒     ▒ ▒▒       knock   ▒▒▒▒    ▒▒ ▒▒      room noise beneath

Some actions are silent, some sounds belong to no action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
from scipy.signal import butter, lfilter, sosfilt

from earmark.media.frame import Pixels
from earmark.timeline import FloatArray
from earmark_lab.annotations.actions import Action

STARTS_A_SECOND = (0.0, 0.5, 0.08, 1.2)
"""In successive stretches of a script."""

SILENT_SHARE = 0.12
DISTRACTORS_A_SECOND = 0.08
SAMPLE_RATE = 16_000
"""Hertz."""


@dataclass(frozen=True, slots=True)
class ScriptedAction(Action):
    """Labelled `hammer`, `rub`, `rinse` or `carry`."""

    is_heard: bool = True


@dataclass(frozen=True, slots=True)
class Noise:
    kind: str
    start: float
    duration: float
    gain: float
    """Peak amplitude."""


@dataclass(frozen=True, slots=True)
class Script:
    seed: int
    duration: float
    actions: tuple[ScriptedAction, ...]
    """In order; no two overlap."""
    noises: tuple[Noise, ...]

    @classmethod
    def compose(cls, *, seed: int = 0, duration: float = 120.0) -> Script:
        """A short one may hold no action at all."""
        if not duration > 0:
            raise ValueError(f"a scene lasts more than 0 s, not {duration}")
        rng = np.random.default_rng(seed)
        actions = tuple(_draw_actions(rng, duration))
        noises = [  # loud enough to be recognised
            Noise(action.label, action.start, action.duration, 0.4)
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
        """One channel, float32 within [-1, 1]."""
        rng = np.random.default_rng([self.seed, 1])
        mixture = room_noise(rng, round(self.duration * sample_rate), sample_rate)
        for noise in self.noises:
            first = round(noise.start * sample_rate)
            count = min(round(noise.duration * sample_rate), len(mixture) - first)
            if count > 0:
                sound = normalise_and_fade(NOISES[noise.kind](rng, count, sample_rate), sample_rate)
                mixture[first : first + count] += noise.gain * sound
        return np.clip(mixture, -1.0, 1.0)

    def pictures(self, *, width: int = 320, height: int = 240, fps: int = 15) -> Iterator[Pixels]:
        """`(height, width, 3)`; nothing moves outside an action."""
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
    path: Path
    actions: list[ScriptedAction]
    duration: float


def make_scene(path: Path, *, seed: int = 0, duration: float = 120.0, **shape: Any) -> Scene:
    return write_scene(path, Script.compose(seed=seed, duration=duration), **shape)


def write_scene(
    path: Path, script: Script, *, size: tuple[int, int] = (320, 240), fps: int = 15, grain: int = 0
) -> Scene:
    """H.264 and AAC; the suffix (`.mp4`, `.mkv`) names the container.

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
    sound = script.sound(sample_rate=SAMPLE_RATE)
    for start in range(0, math.ceil(script.duration) * SAMPLE_RATE, SAMPLE_RATE):
        samples = sound[start : start + SAMPLE_RATE]
        frame = av.AudioFrame.from_ndarray(samples[None, :], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = SAMPLE_RATE, start
        yield stream.encode(frame)
    yield stream.encode(None)


def _draw_actions(rng: np.random.Generator, duration: float) -> Iterator[ScriptedAction]:
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
            yield ScriptedAction(time, time + length, label, is_heard)
            time += length + 0.2
        time = max(time, edge)
        if time >= duration:
            return


STEEL = ((1380, 0.6, 15), (2950, 0.8, 18), (4900, 0.6, 21), (6500, 0.5, 24), (7600, 0.3, 30))
"""Frequency in Hz, amplitude and decay rate per second of the modes of a steel bar."""

VOWELS = (
    *((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240)),
    *((530, 1840, 2480), (570, 840, 2410), (660, 1720, 2410)),
)
"""Frequencies in Hz of the first three formants."""

SIGN = "WORKSHOP 7"

_LETTERS = {
    "W": "#...#/#...#/#...#/#.#.#/#.#.#/##.##/#...#",
    "O": ".###./#...#/#...#/#...#/#...#/#...#/.###.",
    "R": "####./#...#/#...#/####./#.#../#..#./#...#",
    "K": "#...#/#..#./#.#../##.../#.#../#..#./#...#",
    "S": ".####/#..../#..../.###./....#/....#/####.",
    "H": "#...#/#...#/#...#/#####/#...#/#...#/#...#",
    "P": "####./#...#/#...#/####./#..../#..../#....",
    "7": "#####/....#/...#./..#../..#../.#.../.#...",
    " ": "...../...../...../...../...../...../.....",
}


def room_noise(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """The level drifts by several decibels over a minute."""
    rumble = lfilter([0.1], [1.0, -0.9], rng.standard_normal(count, dtype=np.float32))
    knots = np.clip(np.cumsum(rng.normal(0, 2.0, size=count // (5 * sample_rate) + 2)), -8, 8)
    places = np.arange(len(knots)) * 5 * sample_rate
    decibels = np.interp(np.arange(count), places, knots) - 34
    return np.asarray(rumble * 10 ** (decibels / 20), dtype=np.float32)


def normalise_and_fade(sound: FloatArray, sample_rate: int) -> FloatArray:
    """A peak of 1, faded over 10 ms so that its ends do not click."""
    ramp = np.minimum(1.0, (np.arange(len(sound)) + 1) / (0.01 * sample_rate))
    return sound / max(float(np.abs(sound).max()), 1e-9) * ramp * ramp[::-1]


def _knock(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    sound = np.zeros(count)
    first = 0.0
    while first * sample_rate < count:
        index = int(first * sample_rate)
        time = np.arange(count - index)[: sample_rate // 2] / sample_rate
        pitch, decay = rng.uniform(250, 900), rng.uniform(18, 40)
        ring = np.sin(2 * np.pi * pitch * time) + 0.6 * rng.standard_normal(len(time))
        sound[index : index + len(time)] += ring * np.exp(-decay * time)
        first += 0.3 * rng.uniform(0.8, 1.2)
    return sound


def _rub(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    hiss = np.diff(rng.standard_normal(count + 1))
    strokes = np.abs(np.sin(np.pi * rng.uniform(1.5, 2.5) * np.arange(count) / sample_rate))
    return np.asarray(hiss * strokes**2)


def _beep(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """YAMNet takes lower and slower beeps for a telephone."""
    time = np.arange(count) / sample_rate
    return np.asarray(np.sin(2 * np.pi * rng.uniform(2000, 3000) * time) * (time % 0.25 < 0.12))


def _hammer(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    sound, first = np.zeros(count), 0.02
    while first * sample_rate < count:
        index = int(first * sample_rate)
        time = np.arange(min(count - index, sample_rate // 2)) / sample_rate
        ring = sum(
            loud
            * np.sin(2 * np.pi * pitch * time + rng.uniform(0, 2 * np.pi))
            * np.exp(-fade * time)
            for pitch, loud, fade in STEEL
        )
        burst = rng.standard_normal(len(time)) * np.exp(-time / 0.04)
        sound[index : index + len(time)] += (ring + burst) * rng.uniform(0.6, 1.0)
        first += 0.65 * rng.uniform(0.85, 1.15)
    return sound


def _water(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    band = butter(2, [1000, 7500], "band", fs=sample_rate, output="sos")
    rush = sosfilt(band, rng.standard_normal(count))
    sound = np.asarray(rush / max(float(np.std(rush)), 1e-9))
    for _ in range(rng.poisson(30 * count / sample_rate)):
        index = int(rng.integers(count))
        time = np.arange(min(count - index, sample_rate // 10)) / sample_rate
        drop = np.sin(2 * np.pi * rng.uniform(400, 2500) * time * (1 + 2 * time))
        fade = np.exp(-rng.uniform(20, 80) * time)
        sound[index : index + len(time)] += rng.uniform(0.3, 1.5) * drop * fade
    return sound


def _voice(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    time = np.arange(count) / sample_rate
    pitch = 115 * (1 + 0.12 * np.sin(np.pi * time) + 0.05 * np.sin(3.4 * np.pi * time))
    pulses = np.diff(np.floor(np.cumsum(pitch) / sample_rate), prepend=0.0)
    source = lfilter([1.0], [1.0, -0.95], pulses) + 0.02 * rng.standard_normal(count)
    sound, index = np.zeros(count), 0
    while index < count:
        piece = source[index : index + int(sample_rate * rng.uniform(0.7, 1.3) / 4.5)]
        vowel = VOWELS[rng.integers(len(VOWELS))]
        spoken = sum(
            loud * _resonate(piece, pitch, 60.0 + 40.0 * number, sample_rate)
            for number, (pitch, loud) in enumerate(zip(vowel, (1.0, 0.6, 0.3), strict=True))
        )
        swell = np.sqrt(np.sin(np.pi * np.linspace(0, 1, len(piece))).clip(0))
        sound[index : index + len(piece)] = spoken * swell * rng.uniform(0.6, 1.0)
        index += len(piece)
    return sound


def _resonate(sound: FloatArray, pitch: float, width: float, sample_rate: int) -> FloatArray:
    radius = np.exp(-np.pi * width / sample_rate)
    turn = -2 * radius * np.cos(2 * np.pi * pitch / sample_rate)
    return np.asarray(lfilter([1 - radius], [1.0, turn, radius**2], sound))


NOISES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "hammer": _hammer,
    "rub": _rub,
    "rinse": _water,
    "voice": _voice,
    "knock": _knock,
    "beep": _beep,
}
"""Take the number of samples and the sample rate."""


def _fill(
    picture: Pixels, box: tuple[float, float, float, float], colour: tuple[int, int, int]
) -> None:
    """Left, top, right, bottom as shares of width and height."""
    height, width = picture.shape[:2]
    left, top, right, bottom = box
    rows = slice(round(top * height), round(bottom * height))
    picture[rows, round(left * width) : round(right * width)] = colour


def draw_bench(width: int, height: int) -> Pixels:
    shade = np.linspace(205, 150, height)[:, None, None] * np.array([1.0, 0.97, 0.9])
    picture = np.broadcast_to(shade, (height, width, 3)).astype(np.uint8)
    _fill(picture, (0.0, 0.62, 1.0, 1.0), (112, 84, 60))
    _fill(picture, (0.0, 0.62, 1.0, 0.64), (136, 104, 76))
    _fill(picture, (0.05, 0.20, 0.60, 0.23), (96, 72, 52))
    _fill(picture, (0.10, 0.56, 0.30, 0.66), (170, 132, 84))
    _fill(picture, (0.80, 0.22, 0.84, 0.34), (90, 96, 104))
    _fill(picture, (0.70, 0.66, 0.94, 0.80), (70, 76, 84))
    _draw_clock(picture)
    _draw_cup(picture)
    _draw_sign(picture)
    return picture


def _draw_hammer(picture: Pixels, elapsed: float) -> None:
    lift = 0.2 * abs(np.cos(2 * np.pi * elapsed))
    _fill(picture, (0.19, 0.34 - lift + 0.04, 0.21, 0.52 - lift), (120, 84, 44))
    _fill(picture, (0.13, 0.50 - lift, 0.27, 0.57 - lift), (200, 44, 40))


def _draw_cloth(picture: Pixels, elapsed: float) -> None:
    shift = 0.1 * np.sin(2 * np.pi * elapsed)
    _fill(picture, (0.40 + shift, 0.74, 0.54 + shift, 0.88), (48, 92, 196))


def _draw_water(picture: Pixels, elapsed: float) -> None:
    _fill(picture, (0.805, 0.34, 0.835, 0.70), (150, 206, 232))
    for drop in range(4):
        top = 0.34 + (elapsed * 1.3 + drop * 0.09) % 0.33
        _fill(picture, (0.795, top, 0.845, top + 0.03), (226, 246, 255))


def _draw_box(picture: Pixels, elapsed: float) -> None:
    shift = 0.22 * (1 - np.cos(0.8 * np.pi * elapsed))
    _fill(picture, (0.07 + shift, 0.10, 0.16 + shift, 0.20), (232, 186, 52))


DRAWINGS: dict[str, Callable[[Pixels, float], None]] = {
    "hammer": _draw_hammer,
    "rub": _draw_cloth,
    "rinse": _draw_water,
    "carry": _draw_box,
}
"""Take the seconds that the action has lasted in all."""

SEEN_AT_REST = ("hammer", "rub", "carry")
"""Water is there only while it runs."""


def _places_from(picture: Pixels, x: float, y: float) -> tuple[FloatArray, FloatArray]:
    """Right of and below a point, in units of the picture's height."""
    height, width = picture.shape[:2]
    down, across = np.mgrid[0:height, 0:width] / height
    return across - x, down - y


def _draw_clock(picture: Pixels) -> None:
    right, below = _places_from(picture, 0.93, 0.19)
    radius = 0.115
    away = np.hypot(right, below)
    picture[away < radius] = (40, 40, 40)
    picture[away < 0.89 * radius] = (245, 245, 240)
    hands = [(hour * np.pi / 6, 0.68, 0.84, 0.03) for hour in range(12)]
    hands += [(0.9, -0.06, 0.52, 0.042), (3.6, -0.06, 0.72, 0.03)]
    for angle, first, last, half in hands:
        along = (right * np.sin(angle) - below * np.cos(angle)) / radius
        aside = (right * np.cos(angle) + below * np.sin(angle)) / radius
        picture[(along > first) & (along < last) & (np.abs(aside) < half)] = (20, 20, 20)


def _draw_cup(picture: Pixels) -> None:
    right, below = _places_from(picture, 0.22, 0.83)
    handle = np.hypot((right - 0.135) / 0.0625, below / 0.0875)
    inner = np.hypot((right - 0.135) / 0.035, below / 0.056)
    picture[(handle < 1) & (inner > 1) & (right > 0.1)] = (190, 192, 198)
    body = (np.abs(right) < 0.104) & (np.abs(below) < 0.145)
    shade = 0.6 + 0.4 * np.cos(right[body] / 0.104 * np.pi / 2)
    picture[body] = (np.array([230, 232, 238]) * shade[:, None]).astype(np.uint8)
    picture[np.hypot(right / 0.104, (below + 0.145) / 0.03) < 1] = (120, 80, 50)


def _draw_sign(picture: Pixels) -> None:
    height, width = picture.shape[:2]
    dot = max(1, height // 120)
    letters = [_LETTERS[letter].split("/") for letter in SIGN]
    rows = ["".join(f".{row}" for row in line) for line in zip(*letters, strict=True)]
    inked = np.array([[mark == "#" for mark in f"{row}."] for row in rows])
    inked = np.pad(inked, ((1, 1), (1, 1))).repeat(dot, axis=0).repeat(dot, axis=1)
    top, left = round(0.37 * height), round(0.48 * height)
    inked = inked[: height - top, : width - left]
    board = picture[top : top + inked.shape[0], left : left + inked.shape[1]]
    board[:] = np.where(inked[..., None], (28, 36, 70), (238, 234, 220))
