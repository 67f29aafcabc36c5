"""Motion in the video: the visual frontlines the paper compares with. All video is decoded.

Each pair of consecutive frames gives one amount of motion for the steps between them, scaled so
that it does not depend on the frame rate:

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

from earmark.errors import MissingExtra
from earmark.media import Meter, Recording
from earmark.media.frame import Pixels
from earmark.media.video_scan import GreyFrame, scan_video
from earmark.timeline import CLOCK_RATE, HOP, Track

TRACK_STEPS = 30 * CLOCK_RATE
"""Steps of one track."""


class Motion(ABC):
    """An encoder of the video: one value per step, 0 where nothing moves."""

    __slots__ = ()

    width_pixels: int

    @property
    def channels(self) -> int:
        """One: the motion."""
        return 1

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """The motion in `recording`; `MediaError` without a video stream."""
        steps = math.ceil(recording.duration * CLOCK_RATE - 1e-9)
        shown = scan_video(recording, width_pixels=self.width_pixels, meter=meter)
        return place_on_clock(self._changes(shown), steps)

    def _changes(self, shown: Iterable[GreyFrame]) -> Iterator[Change]:
        for before, after in pairwise(shown):
            if after.grey.shape == before.grey.shape:
                gap = after.time - before.time
                amount = self.measure_motion(before.grey, after.grey) * HOP / gap
                yield Change(before.time, after.time, amount)

    @abstractmethod
    def measure_motion(self, before: Pixels, after: Pixels) -> float:
        """The amount of motion from one grey frame to the next."""


@dataclass(frozen=True, slots=True)
class Change:
    """Motion between two frames, at `start` and `end` seconds."""

    start: float
    end: float
    amount: float
    """For one step of the clock."""


def place_on_clock(changes: Iterable[Change], steps: int) -> Iterator[Track]:
    """Tracks of `steps` steps from `changes` in order of time; 0 before the first and after all."""
    amounts = _amounts(changes, steps)
    for first in range(0, steps, TRACK_STEPS):
        values = np.fromiter(islice(amounts, TRACK_STEPS), np.float32)
        yield Track(values, start=first / CLOCK_RATE)


def _amounts(changes: Iterable[Change], steps: int) -> Iterator[float]:
    """The amount at the middle of each step."""
    step = 0
    for change in changes:
        while step < steps and (middle := (step + 0.5) * HOP) < change.end:
            yield change.amount if middle >= change.start else 0.0
            step += 1
    yield from repeat(0.0, steps - step)


@dataclass(frozen=True, slots=True)
class FrameDifference(Motion):
    """The mean absolute change of grey values over the frame; white to black is 1."""

    width_pixels: int = 160

    def measure_motion(self, before: Pixels, after: Pixels) -> float:
        """The mean absolute difference."""
        return float(np.abs(after.astype(np.int16) - before).mean()) / 255


@dataclass(frozen=True, slots=True)
class OpticalFlow(Motion):
    """The mean length of the optical flow over the pixels, in frame widths.

    Dense flow by polynomial expansion (Farnebäck, SCIA 2003), as OpenCV computes it.
    """

    width_pixels: int = 160
    is_compensated: bool = False
    """Whether the median flow is subtracted first, to remove the wearer's own motion."""

    def measure_motion(self, before: Pixels, after: Pixels) -> float:
        """The mean length of the flow vectors."""
        # Pyramid of 3 halvings, 15-pixel windows, 3 rounds, neighbourhoods of 5 and 1.2: the
        # values of OpenCV's own examples.
        flow = _opencv().calcOpticalFlowFarneback(before, after, None, 0.5, 3, 15, 3, 5, 1.2, 0)
        if self.is_compensated:
            flow = flow - np.median(flow, axis=(0, 1))  # (height, width, 2), medians by axis
        lengths = np.hypot(flow[..., 0], flow[..., 1])
        return float(lengths.mean()) / int(before.shape[1])


@dataclass(frozen=True, slots=True)
class CompensatedFlow(OpticalFlow):
    """Optical flow without the wearer's own motion."""

    is_compensated: bool = True


def _opencv() -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtra("optical flow needs OpenCV: pip install 'earmark[vision]'") from error
    return cv2
