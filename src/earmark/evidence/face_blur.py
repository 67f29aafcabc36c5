"""Blurs faces in frames before they leave the machine: CenterFace, by ONNX Runtime.

    frame ──▶ RGB, sides of 32 pixels times n ──▶ places ──▶ faces ──▶ four by four colours each

Each place of the network's grid, four pixels apart, says how sure it is of a face around it, how
large that is and how far off its middle lies. What a face is blurred to keeps nothing of it but 16
mean colours, so no filter brings it back.
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
"""Pixels between two places of the network's grid."""

SIDE_MULTIPLE = 32
"""The network takes pictures whose sides are so many pixels times a whole number."""

_SHAPE = re.compile(rb"\n\x02\x08\n(\n\x02\x08.)\n\x02\x08([\x20\x08])\n\x02\x08\2", re.DOTALL)
_FREE = b"\n\x02\x12\x00"


@dataclass(frozen=True, slots=True)
class FaceBlur:
    """Blurs the faces it finds in a frame; may be called from several threads, and pickled."""

    name: ClassVar[str] = "faces"
    """As the command line says it, and as it is part of a request's identity."""

    store: ModelStore = field(default_factory=ModelStore, compare=False, repr=False)
    least: float = 0.2
    """Confidence from which a place is a face; low, for a face missed is worse than a blur."""
    most_pixels: int = 1280
    """Along the longer side of what the network sees; a larger frame is searched smaller."""
    around: float = 1.3
    """How many times as wide and high as the face found what is blurred is."""

    def check(self) -> None:
        """Raises `ModelMissing` if no face could be found: then nothing may be sent."""
        self._network()

    def at_half_resolution(self) -> FaceBlur:
        """For videos, of which every picture is searched: half as fine."""
        return replace(self, most_pixels=self.most_pixels // 2)

    def __call__(
        self, frame: Frame, also: Sequence[PictureBox] = ()
    ) -> tuple[Frame, list[PictureBox]]:
        """The frame with its faces blurred, and where they are; blurred too is what is in `also`.

        The frame given is not written to.
        """
        found = self.find(frame)
        if not found and not also:
            return frame, found
        rgb = frame.rgb.copy()
        for top, bottom, left, right in (*also, *found):
            rgb[top:bottom, left:right] = _mosaic(rgb[top:bottom, left:right])
        return Frame(frame.time, rgb), found

    def jpeg(self, picture: bytes) -> bytes:
        """A small JPEG with its faces blurred; itself where there is none, or nothing in it."""
        if not picture:
            return picture
        shown, found = self(Frame.from_jpeg(picture))
        return shown.thumbnail() if found else picture

    def find(self, frame: Frame) -> list[PictureBox]:
        """The faces in `frame`, the surest first, with what is around them."""
        scale = min(1.0, self.most_pixels / max(frame.width, frame.height))
        width, height = (_round_to_unit(side * scale) for side in (frame.width, frame.height))
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
    """Top, left, bottom and right of each face, the surest first, none on top of a surer one.

    Args:
        heat: `(rows, columns)`: how sure each place is of a face.
        size: `(2, rows, columns)`: logarithm of its height and width in places.
        offset: `(2, rows, columns)`: how far below and right of the place its middle is.
        least: Confidence from which a place counts.
    """
    places = np.argwhere(heat >= least)
    sure = heat[tuple(places.T)]
    kept: list[FloatArray] = []
    for place in places[np.argsort(-sure, kind="stable")]:
        at = (slice(None), *place)
        middle = (place + offset[at] + 0.5) * STRIDE
        half = np.exp(np.clip(size[at], -5, 8)) * STRIDE / 2
        box = np.concatenate([middle - half, middle + half])
        if all(box_iou(box, other) < 0.3 for other in kept):
            kept.append(box)
    return kept


def box_iou(box: FloatArray, other: FloatArray) -> float:
    """Shared pixels of two boxes over those of both together; 0 where neither has any."""
    sides = np.minimum(box[2:], other[2:]) - np.maximum(box[:2], other[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    whole = float(np.prod(box[2:] - box[:2]) + np.prod(other[2:] - other[:2]) - shared)
    return shared / whole if whole else 0.0


def enlarge_box(box: FloatArray, frame: Frame, around: float) -> PictureBox:
    """A box so many times as large, as far as the frame goes; at least a pixel of it."""
    middle, half = (box[:2] + box[2:]) / 2, (box[2:] - box[:2]) / 2 * around
    shape = np.array([frame.height, frame.width])
    first = np.clip(np.floor(middle - half), 0, shape - 1).astype(int)
    last = np.clip(np.ceil(middle + half), first + 1, shape).astype(int)
    return int(first[0]), int(last[0]), int(first[1]), int(last[1])


def _mosaic(face: Pixels, cells: int = 4) -> Pixels:
    """A part of a picture as its mean colours in `cells` rows of as many."""
    rows, columns = (
        np.linspace(0, side, min(cells, side) + 1).astype(int) for side in face.shape[:2]
    )
    blurred = np.empty_like(face)
    for top, bottom in pairwise(rows):
        for left, right in pairwise(columns):
            blurred[top:bottom, left:right] = face[top:bottom, left:right].mean(axis=(0, 1))
    return blurred


def _round_to_unit(side: float) -> int:
    return max(1, round(side / SIDE_MULTIPLE)) * SIDE_MULTIPLE


@cache
def _open_network(path: Path) -> Any:
    from earmark.models.onnx_session import open_session

    return open_session(_with_free_shapes(path.read_bytes()))


def _with_free_shapes(model: bytes) -> bytes:
    """The model for pictures of any size: it is published for ten of 32 by 32 pixels.

    Its shapes are made free, and its weights are no longer said to be inputs, which twice as fast
    a network comes of. Both leave every byte in its place: a size `08 20` becomes a name without
    letters, `12 00`, and an input of the graph (field 11) a note on a value (field 13).
    """
    patched = bytearray(_SHAPE.sub(lambda found: _FREE + found[1] + _FREE * 2, model))
    place = patched.rfind(b"\n\x07input.1") - 2  # its tag and its length stand before it
    place += 2 + patched[place + 1]
    while place < len(patched) and patched[place] == 11 << 3 | 2:
        patched[place] = 13 << 3 | 2
        place += 2 + patched[place + 1]
    return bytes(patched)
