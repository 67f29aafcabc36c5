"""Motion from the sizes of video packets, which no picture has to be decoded for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from pydantic import PositiveFloat

from earmark.media import Meter, Recording
from earmark.media.frame_reader import VideoPackets
from earmark.timeline import CLOCK_RATE, FloatArray, Track


@dataclass(frozen=True, slots=True)
class Packets:
    """The log packet size relative to the minute around it, in nats.

    Motion costs bits. Key frames cost bits with or without motion, so they are left out and
    interpolated; frame types within a group of pictures differ in size by design, so sizes are
    averaged over `smooth` seconds; and rate control drifts, so the running median over `drift`
    seconds is subtracted.
    """

    smooth: float = 0.4
    """Seconds; longer than the usual distance between two reference frames."""
    drift: PositiveFloat = 60.0
    channels = 1

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """`NoVideoIndex` if the file has no index of sizes."""
        packets = recording.video_packets(meter=meter)
        yield Track(self.motion(packets, recording.duration))

    def motion(self, packets: VideoPackets, duration: float) -> FloatArray:
        steps = math.ceil(duration * CLOCK_RATE - 1e-9)
        plain = ~packets.is_key
        step = np.floor(packets.times[plain] * CLOCK_RATE).astype(np.intp)
        inside = (step >= 0) & (step < steps)
        step, sizes = step[inside], packets.sizes_bytes[plain][inside]
        if len(step) == 0:
            return np.zeros(steps, dtype=np.float32)
        width = max(1, round(self.smooth * CLOCK_RATE)) | 1
        total = _smooth(np.bincount(step, sizes, steps).astype(float), width)
        count = _smooth(np.bincount(step, minlength=steps).astype(float), width)
        filled = np.flatnonzero(count > 0.5 / width**2)
        level = np.interp(np.arange(steps), filled, np.log1p(total[filled] / count[filled]))
        return (level - self._drift(level)).astype(np.float32)

    def _drift(self, level: FloatArray) -> FloatArray:
        from scipy.ndimage import median_filter

        knots = np.arange(CLOCK_RATE // 2, max(len(level), CLOCK_RATE), CLOCK_RATE)
        knots = np.minimum(knots, len(level) - 1)
        middle = median_filter(level[knots], size=min(len(knots), round(self.drift)) | 1)
        return np.interp(np.arange(len(level)), knots, middle)


def _smooth(values: FloatArray, width: int) -> FloatArray:
    """A triangular kernel, which damps periodic patterns more."""
    from scipy.ndimage import uniform_filter1d

    once = uniform_filter1d(values, width, mode="constant")
    return uniform_filter1d(once, width, mode="constant")
