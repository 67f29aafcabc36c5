"""Blurs faces in frames before they leave the machine: CenterFace, by ONNX Runtime.

    frame ──▶ RGB, sides of 32 pixels times n ──▶ cells ──▶ faces ──▶ four by four colours each

Each cell of the network's output grid, four pixels apart, gives the confidence of a face around it,
its size and the offset of its centre. A blurred face keeps only 16 mean colours, so no filter can
restore it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from earmark.errors import ModelMissing
from earmark.media import Frame
from earmark.media.frame import PictureBox, Pixels
from earmark.models import ModelStore
from earmark.timeline import FloatArray

STRIDE = 4
SIDE_MULTIPLE = 32
_SHAPE = re.compile(rb"\n\x02\x08\n(\n\x02\x08.)\n\x02\x08([\x20\x08])\n\x02\x08\2", re.DOTALL)
_FREE = b"\n\x02\x12\x00"


@dataclass(frozen=True, slots=True)
class FaceBlur:
    """May be called from several threads, and pickled."""

    name: ClassVar[str] = "faces"

    store: ModelStore = field(default_factory=ModelStore, compare=False, repr=False)
    least: float = 0.2
    """Low, because a missed face is worse than a needless blur."""
    most_pixels: int = 1280
    """Longer side of the network's input; larger frames are scaled down for the search."""
    around: float = 1.3

    def check(self) -> None:
        self._network()

    def at_half_resolution(self) -> FaceBlur:
        return replace(self, most_pixels=self.most_pixels // 2)

    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        faces = self.find(frame)
        return self.hide(frame, (*also, *faces)), faces

    def hide(self, frame: Frame, boxes: Sequence[PictureBox]) -> Frame:
        """The frame with only `boxes` blurred."""
        if not boxes:
            return frame
        rgb = frame.rgb.copy()
        for top, bottom, left, right in boxes:
            rgb[top:bottom, left:right] = _mosaic(rgb[top:bottom, left:right])
        return Frame(frame.time, rgb)

    def jpeg(self, picture: bytes) -> bytes:
        if not picture:
            return picture
        blurred, faces = self(Frame.from_jpeg(picture))
        return blurred.thumbnail() if faces else picture

    def find(self, frame: Frame) -> list[PictureBox]:
        scale = min(1.0, self.most_pixels / max(frame.width, frame.height))
        width, height = (
            max(1, round(side * scale / SIDE_MULTIPLE)) * SIDE_MULTIPLE
            for side in (frame.width, frame.height)
        )
        pixels = frame.resized(width, height).rgb.astype(np.float32)
        batch = pixels.transpose(2, 0, 1)[None]  # (1, 3, height, width)
        heat, size, offset, _ = self._network().run(None, {"input.1": batch})
        boxes = decode(heat[0, 0], size[0], offset[0], self.least)
        back = np.tile([frame.height / height, frame.width / width], 2)
        return [enlarge_box(box * back, frame, self.around) for box in boxes]

    def _network(self) -> Any:
        try:
            return _open_network(self.store.find("centerface"))
        except ModelMissing as error:
            raise ModelMissing(f"faces cannot be blurred, so nothing is sent: {error}") from error


def decode(
    heat: FloatArray, size: FloatArray, offset: FloatArray, least: float
) -> list[FloatArray]:
    """Top, left, bottom and right of each face by decreasing confidence, overlapping boxes removed.

    Each is `(…, rows, columns)`: confidence `heat` at each cell, logarithm of height and width in
    cells, and offset of the centre, down and right of the cell.
    """
    cells = np.argwhere(heat >= least)
    confidence = heat[tuple(cells.T)]
    ordered = cells[np.argsort(-confidence, kind="stable")].T
    at = (slice(None), *ordered)
    middles = (ordered + offset[at] + 0.5) * STRIDE
    halves = np.exp(np.clip(size[at], -5, 8)) * STRIDE / 2
    return without_overlaps(np.concatenate([middles - halves, middles + halves]).T)


def without_overlaps(boxes: FloatArray) -> list[FloatArray]:
    distinct: list[FloatArray] = []
    for box in boxes:
        if all(box_iou(box, other) < 0.3 for other in distinct):
            distinct.append(box)
    return distinct


def box_iou(box: FloatArray, other: FloatArray) -> float:
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    whole = float(np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - shared)
    return shared / whole if whole else 0.0


def enlarge_box(box: FloatArray, frame: Frame, around: float) -> PictureBox:
    middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * around
    shape = np.array([frame.height, frame.width])
    first = np.clip(np.floor(middle - half), 0, shape - 1).astype(int)
    last = np.clip(np.ceil(middle + half), first + 1, shape).astype(int)
    return int(first[0]), int(last[0]), int(first[1]), int(last[1])


def _mosaic(face: Pixels) -> Pixels:
    rows, columns = (np.linspace(0, side, min(4, side) + 1).astype(int) for side in face.shape[:2])
    blurred = np.empty_like(face)
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            blurred[top:bottom, left:right] = face[top:bottom, left:right].mean(axis=(0, 1))
    return blurred


@cache
def _open_network(path: Path) -> Any:
    from earmark.models.sessions import open_session

    return open_session(_with_free_shapes(path.read_bytes()))


def _with_free_shapes(model: bytes) -> bytes:
    """The model with free input shapes: it is published for a batch of ten, 32 by 32 pixels.

    Its weights are no longer listed as inputs, which makes the network twice as fast. Both edits
    keep every byte in its place: a size `08 20` becomes an empty name, `12 00`, and an input of the
    graph (field 11) becomes a value info (field 13).
    """
    patched = bytearray(_SHAPE.sub(lambda match: _FREE + match[1] + _FREE * 2, model))
    offset = patched.rfind(b"\n\x07input.1") - 2  # minus its tag and length
    offset += 2 + patched[offset + 1]
    while offset < len(patched) and patched[offset] == 11 << 3 | 2:
        patched[offset] = 13 << 3 | 2
        offset += 2 + patched[offset + 1]
    return bytes(patched)
