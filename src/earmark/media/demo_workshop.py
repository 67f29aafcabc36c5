"""A made scene that published models recognise: sounds they name, a clock they see, a sign.

The plain scene of `demo_rendering` is enough for a gate, and to a network that knows sounds its
hammer is a drum machine. Here a blow is a burst of noise over the modes of a steel bar, water is
filtered noise with drops in it, and a voice is a pulse train through the formants of vowels
(Peterson and Barney, 1952): heard as what they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.signal import butter, lfilter, sosfilt

from earmark.media.demo_rendering import NOISES, Picture, bench
from earmark.timeline import FloatArray

STEEL = ((1100, 0.6, 25), (2350, 0.8, 30), (3900, 0.6, 35), (5200, 0.5, 40), (6700, 0.3, 50))
"""Hertz, amplitude and decay a second of the modes of a bar."""

VOWELS = (
    *((730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240)),
    *((530, 1840, 2480), (570, 840, 2410), (660, 1720, 2410)),
)
"""Hertz of the first three formants."""

SIGN = "WORKSHOP 7"
"""What is written on the wall."""

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


def _hammer(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Blows on steel, about two a second."""
    sound, first = np.zeros(count), 0.02
    while first * sample_rate < count:
        place = int(first * sample_rate)
        time = np.arange(min(count - place, sample_rate // 2)) / sample_rate
        ring = sum(
            loud
            * np.sin(2 * np.pi * pitch * time + rng.uniform(0, 2 * np.pi))
            * np.exp(-fade * time)
            for pitch, loud, fade in STEEL
        )
        burst = 2.0 * rng.standard_normal(len(time)) * np.exp(-time / 0.02)
        sound[place : place + len(time)] += (ring + burst) * rng.uniform(0.8, 1.0)
        first += 0.42 * rng.uniform(0.92, 1.08)
    return sound


def _water(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """A tap: a steady rush with drops in it."""
    band = butter(2, [1000, 7500], "band", fs=sample_rate, output="sos")
    rush = sosfilt(band, rng.standard_normal(count))
    sound = np.asarray(rush / max(float(np.std(rush)), 1e-9))
    for _ in range(rng.poisson(30 * count / sample_rate)):
        place = int(rng.integers(count))
        time = np.arange(min(count - place, sample_rate // 10)) / sample_rate
        drop = np.sin(2 * np.pi * rng.uniform(400, 2500) * time * (1 + 2 * time))
        fade = np.exp(-rng.uniform(20, 80) * time)
        sound[place : place + len(time)] += rng.uniform(0.3, 1.5) * drop * fade
    return sound


def _voice(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Somebody who talks in vowels, four or five a second."""
    time = np.arange(count) / sample_rate
    pitch = 115 * (1 + 0.12 * np.sin(np.pi * time) + 0.05 * np.sin(3.4 * np.pi * time))
    pulses = np.diff(np.floor(np.cumsum(pitch) / sample_rate), prepend=0.0)
    source = lfilter([1.0], [1.0, -0.95], pulses) + 0.02 * rng.standard_normal(count)
    sound, place = np.zeros(count), 0
    while place < count:
        piece = source[place : place + int(sample_rate * rng.uniform(0.7, 1.3) / 4.5)]
        vowel = VOWELS[rng.integers(len(VOWELS))]
        spoken = sum(
            loud * _resonate(piece, pitch, 60.0 + 40.0 * place_, sample_rate)
            for place_, (pitch, loud) in enumerate(zip(vowel, (1.0, 0.6, 0.3), strict=True))
        )
        swell = np.sqrt(np.sin(np.pi * np.linspace(0, 1, len(piece))).clip(0))
        sound[place : place + len(piece)] = spoken * swell * rng.uniform(0.6, 1.0)
        place += len(piece)
    return sound


def _resonate(sound: FloatArray, pitch: float, width: float, sample_rate: int) -> FloatArray:
    """`sound` through one formant."""
    radius = np.exp(-np.pi * width / sample_rate)
    turn = -2 * radius * np.cos(2 * np.pi * pitch / sample_rate)
    return np.asarray(lfilter([1 - radius], [1.0, turn, radius**2], sound))


WORKSHOP_NOISES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    **NOISES,
    "hammer": _hammer,
    "rinse": _water,
    "voice": _voice,
}
"""The noises of a scene, those replaced that networks take for something else."""


def workshop(width: int, height: int) -> Picture:
    """The bench with a clock and a sign on the wall, and a cup on the table."""
    picture = bench(width, height)
    _draw_clock(picture)
    _draw_cup(picture)
    _draw_sign(picture)
    return picture


def _grid(picture: Picture) -> tuple[FloatArray, FloatArray]:
    """The place of every pixel in heights of the picture, across and down."""
    height, width = picture.shape[:2]
    down, across = np.mgrid[0:height, 0:width] / height
    return across, down


def _draw_clock(picture: Picture, *, at: tuple[float, float] = (0.93, 0.19)) -> None:
    across, down = _grid(picture)
    right, below, radius = across - at[0], down - at[1], 0.115
    away = np.hypot(right, below)
    picture[away < radius] = (40, 40, 40)
    picture[away < 0.89 * radius] = (245, 245, 240)
    hands = [(hour * np.pi / 6, 0.68, 0.84, 0.03) for hour in range(12)]
    hands += [(0.9, -0.06, 0.52, 0.042), (3.6, -0.06, 0.72, 0.03)]
    for angle, first, last, half in hands:
        along = (right * np.sin(angle) - below * np.cos(angle)) / radius
        aside = (right * np.cos(angle) + below * np.sin(angle)) / radius
        picture[(along > first) & (along < last) & (np.abs(aside) < half)] = (20, 20, 20)


def _draw_cup(picture: Picture, *, at: tuple[float, float] = (0.22, 0.83)) -> None:
    across, down = _grid(picture)
    right, below = across - at[0], down - at[1]
    handle = np.hypot((right - 0.135) / 0.0625, below / 0.0875)
    inner = np.hypot((right - 0.135) / 0.035, below / 0.056)
    picture[(handle < 1) & (inner > 1) & (right > 0.1)] = (190, 192, 198)
    body = (np.abs(right) < 0.104) & (np.abs(below) < 0.145)
    shade = 0.6 + 0.4 * np.cos(right[body] / 0.104 * np.pi / 2)
    picture[body] = (np.array([230, 232, 238]) * shade[:, None]).astype(np.uint8)
    picture[np.hypot(right / 0.104, (below + 0.145) / 0.03) < 1] = (120, 80, 50)


def _draw_sign(picture: Picture, *, at: tuple[float, float] = (0.48, 0.37)) -> None:
    height, width = picture.shape[:2]
    dot = max(1, height // 120)
    rows = ["".join(f".{row}" for row in line) for line in zip(*_split(), strict=True)]
    inked = np.array([[mark == "#" for mark in f"{row}."] for row in rows])
    inked = np.pad(inked, ((1, 1), (1, 1))).repeat(dot, axis=0).repeat(dot, axis=1)
    top, left = round(at[1] * height), round(at[0] * height)
    inked = inked[: height - top, : width - left]
    board = picture[top : top + inked.shape[0], left : left + inked.shape[1]]
    board[:] = np.where(inked[..., None], (28, 36, 70), (238, 234, 220))


def _split() -> list[list[str]]:
    return [_LETTERS[letter].split("/") for letter in SIGN]
