"""Draws a hand that a palm detector takes for one: no photograph of anybody is needed."""

from __future__ import annotations

import numpy as np

from earmark.media import Frame

FINGERS = (
    ((-45, -30), (-70, -120), 24),
    ((-15, -45), (-25, -155), 26),
    ((18, -45), (22, -150), 25),
    ((48, -30), (68, -115), 21),
    ((-55, 30), (-115, -25), 27),
)
SKIN, EDGE, GROUND = (224, 172, 140), (170, 115, 90), (90, 100, 110)


def drawn_hand(*, across: int, down: int, size: float = 1.0) -> Frame:
    """A frame of 640 x 480 with an open hand whose palm is 130 pixels wide at size 1."""
    import cv2

    picture = np.full((480, 640, 3), GROUND, np.uint8)

    def place(spot: tuple[int, int]) -> tuple[int, int]:
        return int(across + spot[0] * size), int(down + spot[1] * size)

    for colour, more in ((EDGE, 4), (SKIN, 0)):
        for root, tip, thick in FINGERS:
            cv2.line(picture, place(root), place(tip), colour, int(thick * size) + more)
        palm = (int(64 * size) + more // 2, int(70 * size) + more // 2)
        cv2.ellipse(picture, place((0, 15)), palm, 0, 0, 360, colour, -1)
        cv2.rectangle(picture, place((-38, 60)), place((38, 200)), colour, -1)
    return Frame(0.0, cv2.GaussianBlur(picture, (0, 0), 1.2))
