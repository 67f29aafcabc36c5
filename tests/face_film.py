"""A recording of a real face, and who finds faces in what was sent or written.

The picture is scikit-image's `astronaut`: Eileen Collins, by NASA, in the public domain.
"""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from earmark.evidence.face_blur import FaceBlur
from earmark.media import Frame
from earmark.models import ModelStore
from making import make_video

SIDE = 256
STEP = 4
"""Pixels the picture moves to the right each second."""


def require_faces() -> None:
    """Skip the test where no face can be shown or found."""
    pytest.importorskip("skimage")
    if ModelStore().state("centerface") != "here":
        pytest.skip("needs `earmark models get centerface`")


@cache
def portrait(side: int = SIDE) -> Frame:
    """A person to the hip, facing the camera."""
    from skimage.data import astronaut

    return Frame(0.0, np.ascontiguousarray(astronaut())).resized(side, side)


def film_face(path: Path, *, duration: float = 16.0, fps: float = 4, **plan: Any) -> Path:
    """A recording in which that person stands in every picture, and clicks are heard."""

    def draw(time: float) -> NDArray[np.uint8]:
        return np.roll(portrait().rgb, round(time * STEP), axis=1)

    clicks = [2.0, 9.0]
    how = {"duration": duration, "fps": fps, "clicks": clicks, "group": 4, "size": (SIDE, SIDE)}
    return make_video(path, draw=draw, **how, **plan)


def faces_in(picture: bytes) -> int:
    """Faces found in a JPEG."""
    return len(FaceBlur(least=0.5).find(Frame.from_jpeg(picture)))


def faces_in_video(path: Path) -> list[int]:
    """Faces found in each picture of a video."""
    with av.open(str(path)) as video:
        shown = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    return [len(FaceBlur(least=0.5).find(Frame(0.0, rgb))) for rgb in shown]


def pictures_in(bodies: list[dict[str, Any]]) -> list[bytes]:
    """The pictures in the bodies of chat requests."""
    parts = [part for body in bodies for message in body["messages"] for part in message["content"]]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition(",")[2]) for url in urls]
