"""Films a drawn hand that comes and goes over a bench, with whatever sound is given."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from drawn_hand import GROUND, drawn_hand

FPS = 5
SAMPLE_RATE = 16_000


def film_hand(path: Path, sound: np.ndarray, *, away: tuple[float, float]) -> Path:
    """A recording as long as `sound`, 16 kHz mono; between the two times of `away` no hand is seen.

    640 x 480 at five pictures a second, H.264 and AAC.
    """
    with av.open(str(path), "w") as out:
        video = out.add_stream("libx264", FPS, options={"preset": "ultrafast", "crf": "20"})
        video.width, video.height, video.pix_fmt = 640, 480, "yuv420p"
        audio = out.add_stream("aac", SAMPLE_RATE, layout="mono")
        for number in range(len(sound) * FPS // SAMPLE_RATE):
            picture = _picture(number / FPS, away)
            frame = av.VideoFrame.from_ndarray(picture, "rgb24")
            frame.pts, frame.time_base = number, Fraction(1, FPS)
            out.mux(video.encode(frame))
        out.mux(video.encode(None))
        for first in range(0, len(sound), SAMPLE_RATE):
            piece = np.ascontiguousarray(sound[None, first : first + SAMPLE_RATE], np.float32)
            block = av.AudioFrame.from_ndarray(piece, "fltp", "mono")
            block.sample_rate, block.pts = SAMPLE_RATE, first
            out.mux(audio.encode(block))
        out.mux(audio.encode(None))
    return path


def _picture(time: float, away: tuple[float, float]) -> np.ndarray:
    if away[0] <= time < away[1]:
        return np.full((480, 640, 3), GROUND, np.uint8)
    return drawn_hand(across=round(320 + 120 * np.sin(time)), down=240, size=0.7).rgb
