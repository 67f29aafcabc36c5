"""How small a face may be and still be found, and what looking for one takes.

    OMP_NUM_THREADS=1 python benchmarks/faces.py

A face of each size is laid somewhere on noise of 1280 by 720 pixels, ten times. It looks into the
camera in even light: what faces in the wild come to is less. Times are of the processor.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from earmark.evidence.face_blur import FaceBlur
from earmark.media import Frame

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from face_film import portrait

TALL = 0.234
"""Of the picture that is the face; its middle is at 23 % from above and 44 % from the left."""

WAYS = {"a frame": FaceBlur(), "a picture of a clip": FaceBlur().at_half_resolution()}


def count_found(blur: FaceBlur, side: int, rng: np.random.Generator, times: int = 10) -> int:
    """How often the face is found in a picture of `side` pixels."""
    found = 0
    for _ in range(times):
        ground = rng.integers(110, 140, (720, 1280, 3)).astype(np.uint8)
        top, left = rng.integers(0, 720 - side), rng.integers(0, 1280 - side)
        ground[top : top + side, left : left + side] = portrait(side).rgb
        row, column = top + 0.23 * side, left + 0.44 * side
        boxes = blur.find(Frame(0.0, ground))
        found += any(a <= row <= b and c <= column <= d for a, b, c, d in boxes)
    return found


def main() -> None:
    """Print a line a size and a way."""
    rng = np.random.default_rng(0)
    for way, blur in WAYS.items():
        for side in (24, 32, 40, 48, 64, 96, 128):
            found = count_found(blur, side, rng)
            print(f"{way}: {TALL * side:.0f} pixels tall, found {found} times of 10")
        frame = portrait(512).resized(1920, 1080)
        took = []
        for _ in range(3):
            begun = time.process_time()
            blur(frame)
            took.append(time.process_time() - begun)
        print(f"{way} of 1920 x 1080: {min(took):.3f} s")


if __name__ == "__main__":
    main()
