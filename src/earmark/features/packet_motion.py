"""Motion estimated from the sizes of video packets, without reading any video."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from earmark.media import Meter, Recording
from earmark.media.video_packets import VideoPackets
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
    drift: float = 60.0
    """Seconds of the running median."""

    @property
    def channels(self) -> int:
        """One: the motion."""
        return 1

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """The packet motion of `recording`; `NoVideoIndex` if the file has no index of sizes."""
        packets = recording.video_packets(meter=meter)
        yield Track(self.motion(packets, recording.duration))

    def motion(self, packets: VideoPackets, duration: float) -> FloatArray:
        """Motion on the 25 Hz clock; all 0 if there are no packets besides key frames."""
        steps = math.ceil(duration * CLOCK_RATE - 1e-9)
        plain = ~packets.is_key
        place = np.floor(packets.times[plain] * CLOCK_RATE).astype(np.intp)
        inside = (place >= 0) & (place < steps)
        place, sizes = place[inside], packets.sizes_bytes[plain][inside]
        if len(place) == 0:
            return np.zeros(steps, dtype=np.float32)
        width = max(1, round(self.smooth * CLOCK_RATE)) | 1
        total = _smooth(np.bincount(place, sizes, steps).astype(float), width)
        count = _smooth(np.bincount(place, minlength=steps).astype(float), width)
        seen = np.flatnonzero(count > 0.5 / width**2)
        level = np.interp(np.arange(steps), seen, np.log1p(total[seen] / count[seen]))
        return (level - self._drift(level)).astype(np.float32)

    def _drift(self, level: FloatArray) -> FloatArray:
        """The running median, computed once a second and interpolated linearly."""
        from scipy.ndimage import median_filter

        knots = np.arange(CLOCK_RATE // 2, max(len(level), CLOCK_RATE), CLOCK_RATE)
        knots = np.minimum(knots, len(level) - 1)
        middle = median_filter(level[knots], size=min(len(knots), round(self.drift)) | 1)
        return np.interp(np.arange(len(level)), knots, middle)


def _smooth(values: FloatArray, width: int) -> FloatArray:
    """The running mean applied twice: a triangular kernel, which damps periodic patterns more."""
    from scipy.ndimage import uniform_filter1d

    once = uniform_filter1d(values, width, mode="constant")
    return uniform_filter1d(once, width, mode="constant")
