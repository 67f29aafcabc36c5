"""How a made scene sounds and looks: a noise and a drawing for every kind of action."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from earmark.timeline import FloatArray

Picture = NDArray[np.uint8]
"""`(height, width, 3)`, red, green and blue."""


def room(rng: np.random.Generator, count: int, sample_rate: int) -> FloatArray:
    """Low noise whose level drifts by several decibels over a minute."""
    rumble = lfilter([0.1], [1.0, -0.9], rng.standard_normal(count, dtype=np.float32))
    knots = np.clip(np.cumsum(rng.normal(0, 2.0, size=count // (5 * sample_rate) + 2)), -8, 8)
    places = np.arange(len(knots)) * 5 * sample_rate
    decibels = np.interp(np.arange(count), places, knots) - 34
    return np.asarray(rumble * 10 ** (decibels / 20), dtype=np.float32)


def faded(sound: FloatArray, sample_rate: int) -> FloatArray:
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
    "hammer": partial(_blows, every=0.45),
    "rub": _rub,
    "rinse": _rinse,
    "voice": _voice,
    "knock": partial(_blows, every=0.3),
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


def bench(width: int, height: int) -> Picture:
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
