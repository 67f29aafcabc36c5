"""Motion in the video: the visual frontlines the paper compares with.

Each pair of consecutive frames gives one amount of motion, independent of the frame rate:

    pictures   P0      P1      P2        P3
    motion     |--0-1--|--1-2--|---2-3---|
    clock      | . | . | . | . | . | . | . |       a step takes the value at its middle
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise, repeat
from typing import Any

import numpy as np
from pydantic import PositiveInt

from earmark.errors import MissingExtra
from earmark.media import Meter, Recording
from earmark.media.frame import Pixels
from earmark.media.frame_reader import GreyFrame, scan_video
from earmark.timeline import CLOCK_RATE, HOP, Track

TRACK_STEPS = 30 * CLOCK_RATE


class Motion(ABC):
    __slots__ = ()

    channels = 1
    width_pixels: int

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """`MediaError` without a video stream."""
        steps = math.ceil(recording.duration * CLOCK_RATE - 1e-9)
        frames = scan_video(recording, width_pixels=self.width_pixels, meter=meter)
        return place_on_clock(self._changes(frames), steps)

    def _changes(self, frames: Iterable[GreyFrame]) -> Iterator[Change]:
        for before, after in pairwise(frames):
            if after.grey.shape == before.grey.shape:
                gap = after.time - before.time
                amount = self.measure_motion(before.grey, after.grey) * HOP / gap
                yield before.time, after.time, amount

    @abstractmethod
    def measure_motion(self, before: Pixels, after: Pixels) -> float: ...


Change = tuple[float, float, float]  # start, end, and the amount for one step of the clock


def place_on_clock(changes: Iterable[Change], steps: int) -> Iterator[Track]:
    """`changes` are in order of time; 0 before the first and after all."""
    amounts = _step_amounts(changes, steps)
    for first in range(0, steps, TRACK_STEPS):
        values = np.fromiter(islice(amounts, TRACK_STEPS), np.float32)
        yield Track(values, start=first / CLOCK_RATE)


def _step_amounts(changes: Iterable[Change], steps: int) -> Iterator[float]:
    step = 0
    for start, end, amount in changes:
        while step < steps and (middle := (step + 0.5) * HOP) < end:
            yield amount if middle >= start else 0.0
            step += 1
    yield from repeat(0.0, steps - step)


@dataclass(frozen=True, slots=True)
class FrameDifference(Motion):
    """The mean absolute change of grey values over the frame; white to black is 1."""

    width_pixels: PositiveInt = 160

    def measure_motion(self, before: Pixels, after: Pixels) -> float:
        return float(np.abs(after.astype(np.int16) - before).mean()) / 255


@dataclass(frozen=True, slots=True)
class OpticalFlow(Motion):
    """The mean length of the optical flow over the pixels, in frame widths.

    Dense flow by polynomial expansion (Farnebäck, SCIA 2003), as OpenCV computes it.
    """

    width_pixels: PositiveInt = 160
    is_compensated: bool = False
    """Subtract the median flow first, to remove the wearer's own motion."""

    def measure_motion(self, before: Pixels, after: Pixels) -> float:
        try:
            from cv2 import calcOpticalFlowFarneback
        except ImportError as error:
            raise MissingExtra(
                "optical flow needs OpenCV: pip install 'earmark[vision]'"
            ) from error
        # Pyramid of 3 halvings, 15-pixel windows, 3 rounds, neighbourhoods of 5 and 1.2: the
        # values of OpenCV's own examples.
        measure_flow: Any = calcOpticalFlowFarneback
        flow = measure_flow(before, after, None, 0.5, 3, 15, 3, 5, 1.2, 0)
        if self.is_compensated:
            flow = flow - np.median(flow, axis=(0, 1))  # (height, width, 2), medians by axis
        lengths = np.hypot(flow[..., 0], flow[..., 1])
        return float(lengths.mean()) / int(before.shape[1])


@dataclass(frozen=True, slots=True)
class CompensatedFlow(OpticalFlow):
    """Optical flow without the wearer's own motion."""

    is_compensated: bool = True
