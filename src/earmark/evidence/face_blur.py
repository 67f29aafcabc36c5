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
"""Pixels between two cells of the network's output grid."""

SIDE_MULTIPLE = 32
"""The sides of the network's input are multiples of this many pixels."""

_SHAPE = re.compile(rb"\n\x02\x08\n(\n\x02\x08.)\n\x02\x08([\x20\x08])\n\x02\x08\2", re.DOTALL)
_FREE = b"\n\x02\x12\x00"


@dataclass(frozen=True, slots=True)
class FaceBlur:
    """Blurs the faces it finds in a frame; may be called from several threads, and pickled."""

    name: ClassVar[str] = "faces"
    """Its name on the command line and in the identity of a request."""

    store: ModelStore = field(default_factory=ModelStore, compare=False, repr=False)
    least: float = 0.2
    """Least confidence of a face; low, because a missed face is worse than a needless blur."""
    most_pixels: int = 1280
    """Longer side of the network's input; larger frames are scaled down for the search."""
    around: float = 1.3
    """Width and height of the blurred box relative to the face found."""

    def check(self) -> None:
        """Raises `ModelMissing` if the model is not there: then nothing may be sent."""
        self._network()

    def at_half_resolution(self) -> FaceBlur:
        """A copy that searches at half the resolution: for videos, which have many frames."""
        return replace(self, most_pixels=self.most_pixels // 2)

    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame with its faces and the boxes in `also` blurred, and the boxes of the faces.

        The given frame is not modified.
        """
        found = self.find(frame)
        if not found and not also:
            return frame, found
        rgb = frame.rgb.copy()
        for top, bottom, left, right in (*also, *found):
            rgb[top:bottom, left:right] = _mosaic(rgb[top:bottom, left:right])
        return Frame(frame.time, rgb), found

    def jpeg(self, picture: bytes) -> bytes:
        """A small JPEG with its faces blurred; unchanged if it has none, or is empty."""
        if not picture:
            return picture
        shown, found = self(Frame.from_jpeg(picture))
        return shown.thumbnail() if found else picture

    def find(self, frame: Frame) -> list[PictureBox]:
        """The boxes to blur in `frame`, in order of decreasing confidence."""
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

    Args:
        heat: `(rows, columns)`: confidence of a face at each cell.
        size: `(2, rows, columns)`: logarithm of its height and width in cells.
        offset: `(2, rows, columns)`: offset of its centre, down and right of the cell.
        least: Least confidence of a face.
    """
    places = np.argwhere(heat >= least)
    sure = heat[tuple(places.T)]
    ordered = places[np.argsort(-sure, kind="stable")].T
    at = (slice(None), *ordered)
    middles = (ordered + offset[at] + 0.5) * STRIDE
    halves = np.exp(np.clip(size[at], -5, 8)) * STRIDE / 2
    return without_overlaps(np.concatenate([middles - halves, middles + halves]).T)


def without_overlaps(boxes: FloatArray) -> list[FloatArray]:
    """`boxes` in their order, `(boxes, 4)`, without those that overlap an earlier one by much."""
    kept: list[FloatArray] = []
    for box in boxes:
        if all(box_iou(box, other) < 0.3 for other in kept):
            kept.append(box)
    return kept


def box_iou(box: FloatArray, other: FloatArray) -> float:
    """Intersection over union of two boxes; 0 where both are empty."""
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    whole = float(np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - shared)
    return shared / whole if whole else 0.0


def enlarge_box(box: FloatArray, frame: Frame, around: float) -> PictureBox:
    """`box` scaled by `around` about its centre, clipped to the frame; at least one pixel."""
    middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * around
    shape = np.array([frame.height, frame.width])
    first = np.clip(np.floor(middle - half), 0, shape - 1).astype(int)
    last = np.clip(np.ceil(middle + half), first + 1, shape).astype(int)
    return int(first[0]), int(last[0]), int(first[1]), int(last[1])


def _mosaic(face: Pixels) -> Pixels:
    """A part of a picture as its mean colours in four by four blocks."""
    rows, columns = (np.linspace(0, side, min(4, side) + 1).astype(int) for side in face.shape[:2])
    blurred = np.empty_like(face)
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            blurred[top:bottom, left:right] = face[top:bottom, left:right].mean(axis=(0, 1))
    return blurred


@cache
def _open_network(path: Path) -> Any:
    from earmark.models.onnx_session import open_session

    return open_session(_with_free_shapes(path.read_bytes()))


def _with_free_shapes(model: bytes) -> bytes:
    """The model with free input shapes: it is published for a batch of ten, 32 by 32 pixels.

    Its shapes are made free, and its weights are no longer listed as inputs, which makes the
    network twice as fast. Both edits keep every byte in its place: a size `08 20` becomes an empty
    name, `12 00`, and an input of the graph (field 11) becomes a value info (field 13).
    """
    patched = bytearray(_SHAPE.sub(lambda found: _FREE + found[1] + _FREE * 2, model))
    place = patched.rfind(b"\n\x07input.1") - 2  # minus its tag and length
    place += 2 + patched[place + 1]
    while place < len(patched) and patched[place] == 11 << 3 | 2:
        patched[place] = 13 << 3 | 2
        place += 2 + patched[place + 1]
    return bytes(patched)
