"""Finds hands in a frame and cuts the frame to what they reach (extra `vision`).

A negative result of the paper, kept runnable: a detector finds the hand, not what it holds. The
palm detector is MediaPipe's, run in LiteRT:

    frame ──▶ 192 x 192, shape kept, rest black ──▶ 2,016 places ──▶ palms ──▶ crop around them

Each place of the network's grids says how far off its palm lies, how large and how sure it is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from earmark.media import Frame
from earmark.models import ModelStore
from earmark.timeline import FloatArray

SIDE = 192
"""Pixels along each side of what the network sees."""

GRIDS = ((24, 2), (12, 6))
"""Places along each side of the network's two grids, and how many share one spot."""


@dataclass(frozen=True, slots=True)
class PalmBox:
    """A rectangle in a frame, in pixels; may reach past its edges."""

    left: float
    top: float
    right: float
    bottom: float
    score: float = 1.0
    """How sure it is, 0 to 1."""

    @property
    def area(self) -> float:
        """Pixels inside."""
        return max(0.0, self.right - self.left) * max(0.0, self.bottom - self.top)

    def overlap(self, other: PalmBox) -> float:
        """Shared pixels over the pixels of both together; 0 where they are apart."""
        shared = PalmBox(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        ).area
        whole = self.area + other.area - shared
        return shared / whole if whole else 0.0


@dataclass(slots=True)
class HandFinder:
    """Finds palms; may be called from several threads."""

    least: float = 0.5
    """Confidence below which nothing is a palm."""
    weights: Path | None = None
    """`palm_detection_full.tflite`; None takes it from the user's model store."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _network: Any = field(default=None, repr=False, compare=False)

    def __call__(self, frame: Frame) -> list[PalmBox]:
        """The palms in `frame`, the surest first."""
        canvas, scale, left, top = letterbox(frame)
        with self._lock:
            network = self._open()
            network.set_tensor(0, canvas[None])
            network.invoke()
            places, scores = (
                network.get_tensor(each["index"])[0] for each in network.get_output_details()
            )
        palms = decode(places, scores[:, 0], self.least)
        return [
            PalmBox(
                (palm.left - left) / scale,
                (palm.top - top) / scale,
                (palm.right - left) / scale,
                (palm.bottom - top) / scale,
                palm.score,
            )
            for palm in palms
        ]

    def _open(self) -> Any:
        from earmark.models.litert import open_network

        if self._network is None:
            path = self.weights if self.weights is not None else ModelStore().find("hands")
            self._network = open_network("hands", path)
        return self._network


@dataclass(slots=True)
class HandCrop:
    """Cuts a frame to its hands and what is around them."""

    find: HandFinder = field(default_factory=HandFinder)
    around: float = 2.6
    """How many times as large as the palms the crop is; MediaPipe's own factor for a whole hand."""

    def __call__(self, frame: Frame) -> Frame | None:
        """The crop; None where no hand is found."""
        palms = self.find(frame)
        return crop(frame, palms, around=self.around) if palms else None


def crop(frame: Frame, boxes: Sequence[PalmBox], *, around: float) -> Frame:
    """`frame` cut to the rectangle of all `boxes`, `around` times as large, as far as it goes."""
    left, right = min(box.left for box in boxes), max(box.right for box in boxes)
    top, bottom = min(box.top for box in boxes), max(box.bottom for box in boxes)
    wide, high = (right - left) * around / 2, (bottom - top) * around / 2
    across, down = (left + right) / 2, (top + bottom) / 2
    first_column = int(np.clip(across - wide, 0, frame.width - 1))
    last_column = int(np.clip(np.ceil(across + wide), first_column + 1, frame.width))
    first_row = int(np.clip(down - high, 0, frame.height - 1))
    last_row = int(np.clip(np.ceil(down + high), first_row + 1, frame.height))
    cut = frame.rgb[first_row:last_row, first_column:last_column]
    return Frame(frame.time, np.ascontiguousarray(cut))


def letterbox(frame: Frame) -> tuple[FloatArray, float, int, int]:
    """The frame in a black square as the network wants it; its scale and where it begins there."""
    scale = SIDE / max(frame.width, frame.height)
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    left, top = (SIDE - width) // 2, (SIDE - height) // 2
    canvas = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
    canvas[top : top + height, left : left + width] = frame.resized(width, height).rgb / 255
    return canvas, scale, left, top


def decode(places: FloatArray, scores: FloatArray, least: float) -> list[PalmBox]:
    """Palms in pixels of the network's square, the surest first, none on top of a surer one.

    Args:
        places: `(2016, 18)`: middle from the place, width and height, then joints that are not
            used here.
        scores: `(2016,)`, in logit space.
        least: Confidence from which a place counts.
    """
    sure = 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
    kept: list[PalmBox] = []
    for number in np.argsort(-sure, kind="stable"):
        if sure[number] < least:
            break
        across, down = anchors()[number] * SIDE + places[number, :2]
        wide, high = places[number, 2:4] / 2
        box = PalmBox(
            float(across - wide),
            float(down - high),
            float(across + wide),
            float(down + high),
            float(sure[number]),
        )
        if all(box.overlap(other) < 0.3 for other in kept):
            kept.append(box)
    return kept


@cache
def anchors() -> FloatArray:
    """The middle of each place, `(2016, 2)`, as shares of the square: across and down."""
    spots = []
    for side, shared in GRIDS:
        middles = (np.arange(side) + 0.5) / side
        down, across = np.meshgrid(middles, middles, indexing="ij")
        spots.append(np.stack([across, down], axis=-1).reshape(-1, 2).repeat(shared, axis=0))
    places: FloatArray = np.concatenate(spots)
    return places
