"""Crops a frame to its hands, by MediaPipe's palm detector in LiteRT (extra `vision`).

    frame ──▶ 192 x 192, letterboxed in black ──▶ 2,016 anchors ──▶ palms ──▶ crop around them

A negative result of the paper, kept runnable: a detector finds the hand, not what it holds.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from earmark.evidence.face_blur import enlarge_box, without_overlaps
from earmark.media import Frame
from earmark.models import ModelStore
from earmark.timeline import FloatArray

SIDE = 192
"""Pixels of the network's input."""

GRIDS = ((24, 2), (12, 6))
"""Cells along each side, and anchors in each cell."""


@dataclass(slots=True)
class HandFinder:
    """Thread-safe."""

    least: float = 0.5
    weights: Path | None = None
    """`palm_detection_full.tflite`; None takes it from the user's model store."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    _network: Any = field(default=None, repr=False, compare=False)

    def __call__(self, frame: Frame) -> list[FloatArray]:
        """Top, left, bottom and right in pixels, by falling confidence."""
        from earmark.models.sessions import open_network

        canvas, scale, left, top = letterbox(frame)
        with self._lock:
            if self._network is None:
                path = self.weights if self.weights is not None else ModelStore().find("hands")
                self._network = open_network("hands", path)
            network = self._network
            network.set_tensor(0, canvas[None])
            network.invoke()
            places, scores = (
                network.get_tensor(each["index"])[0] for each in network.get_output_details()
            )
        corner = np.array([top, left, top, left])
        return [(palm - corner) / scale for palm in decode(places, scores[:, 0], self.least)]


@dataclass(slots=True)
class HandCrop:
    find: HandFinder = field(default_factory=HandFinder)
    around: float = 2.6
    """Size relative to the palms; 2.6 is MediaPipe's factor for a whole hand."""

    def __call__(self, frame: Frame) -> Frame | None:
        palms = self.find(frame)
        return crop(frame, palms, around=self.around) if palms else None


def crop(frame: Frame, boxes: Sequence[FloatArray], *, around: float) -> Frame:
    """Scaled by `around`, clipped to the frame."""
    edges = np.stack(boxes)  # (boxes, 4): top, left, bottom, right
    whole = np.concatenate([edges[:, :2].min(axis=0), edges[:, 2:].max(axis=0)])
    top, bottom, left, right = enlarge_box(whole, frame, around)
    return Frame(frame.time, np.ascontiguousarray(frame.rgb[top:bottom, left:right]))


def letterbox(frame: Frame) -> tuple[FloatArray, float, int, int]:
    """A black square, the frame's scale in it, and its left and top pixel."""
    scale = SIDE / max(frame.width, frame.height)
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    left, top = (SIDE - width) // 2, (SIDE - height) // 2
    canvas = np.zeros((SIDE, SIDE, 3), dtype=np.float32)
    canvas[top : top + height, left : left + width] = frame.resized(width, height).rgb / 255
    return canvas, scale, left, top


def decode(places: FloatArray, scores: FloatArray, least: float) -> list[FloatArray]:
    """In pixels of the network's input, by falling confidence, overlaps suppressed.

    `places`, `(2016, 18)`: the centre's offset from the anchor, width and height, then joints;
    `scores` are logits.
    """
    sure = 1 / (1 + np.exp(-np.clip(scores, -50, 50)))
    found = np.argsort(-sure, kind="stable")[: int((sure >= least).sum())]
    middles = (anchors()[found] * SIDE + places[found, :2])[:, ::-1]  # down and across
    halves = np.maximum(places[found, 2:4], 0)[:, ::-1] / 2
    return without_overlaps(np.concatenate([middles - halves, middles + halves], axis=1))


@cache
def anchors() -> FloatArray:
    """Centres, `(2016, 2)`: x and y as shares of the input's side."""
    spots = []
    for side, shared in GRIDS:
        middles = (np.arange(side) + 0.5) / side
        down, across = np.meshgrid(middles, middles, indexing="ij")
        spots.append(np.stack([across, down], axis=-1).reshape(-1, 2).repeat(shared, axis=0))
    places: FloatArray = np.concatenate(spots)
    return places
