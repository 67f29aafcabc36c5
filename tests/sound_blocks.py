"""Sound given to an encoder in pieces of any size, and what it makes of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

from earmark.features.encoder import SAMPLE_RATE, SoundEncoder
from earmark.media import Sound


def blocks(samples: np.ndarray, *sizes: int) -> Iterator[Sound]:
    """`samples` cut into blocks of `sizes`, over and over."""
    start = turn = 0
    while start < len(samples):
        size = sizes[turn % len(sizes)]
        yield Sound(samples[start : start + size], start / SAMPLE_RATE, SAMPLE_RATE)
        start, turn = start + size, turn + 1


def features(encoder: SoundEncoder, samples: np.ndarray, *sizes: int) -> np.ndarray:
    """What `encoder` gives, all tracks as one; whole if no sizes are given."""
    tracks = list(encoder.encode(blocks(samples.astype(np.float32), *(sizes or (len(samples),)))))
    for before, after in itertools.pairwise(tracks):
        assert after.start == pytest.approx(before.span.end)
    return np.concatenate([track.values for track in tracks]) if tracks else np.zeros(0)
