"""Motion from the sizes of packets: drawn by hand."""

from __future__ import annotations

import numpy as np

from earmark.features.packets import Packets
from earmark.media.frame_reader import VideoPackets


def packets(sizes: np.ndarray, *, fps: float = 25.0, key_every: int = 50) -> VideoPackets:
    count = len(sizes)
    return VideoPackets(
        times=np.arange(count) / fps,
        sizes_bytes=sizes.astype(np.int64),
        is_key=np.arange(count) % key_every == 0,
    )


def test_a_stretch_that_moves_stands_out():
    sizes = np.full(250, 1_000.0)
    sizes[100:150] = 4_000
    motion = Packets().motion(packets(sizes), 10.0)
    assert len(motion) == 250
    assert motion[110:140].min() > 1.0
    assert abs(motion[:80]).max() < 0.1


def test_key_frames_are_not_motion():
    sizes = np.full(500, 1_000.0)
    sizes[::50] = 40_000
    assert np.ptp(Packets().motion(packets(sizes), 20.0)) < 1e-6


def test_slow_drift_of_rate_control_is_not_motion():
    sizes = np.geomspace(500, 5_000, 25 * 600)
    motion = Packets().motion(packets(sizes), 600.0)
    assert abs(motion[25 * 60 : -25 * 60]).max() < 0.05


def test_alternating_frame_types_are_not_motion():
    sizes = np.tile([3_000.0, 600, 300, 600], 200)
    motion = Packets().motion(packets(sizes), 32.0)
    assert np.ptp(motion[25:-25]) < 0.35


def test_only_key_frames_say_nothing():
    assert not Packets().motion(packets(np.full(20, 900.0), key_every=1), 0.8).any()
