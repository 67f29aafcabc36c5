"""One pass of listening, and what it notes on the way."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.gate.listener import measure_power
from earmark.media import Sound


@pytest.mark.parametrize("size", [1_000, 3_200, 48_000])
def test_the_level_is_that_of_the_sound_however_it_is_cut(size):
    samples = np.concatenate([np.full(6_400, 0.1), np.full(6_400, 1.0)]).astype(np.float32)
    blocks = [
        Sound(samples[start : start + size], start / 16_000, 16_000)
        for start in range(0, len(samples), size)
    ]
    powers: list[np.ndarray] = []
    passed = np.concatenate([block.values for block in measure_power(blocks, powers)])
    np.testing.assert_array_equal(passed, samples)
    np.testing.assert_allclose(np.concatenate(powers), [0.01, 0.01, 1, 1], rtol=1e-4)
