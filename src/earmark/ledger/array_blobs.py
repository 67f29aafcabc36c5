"""Arrays as bytes: one blob a recording instead of a row a window."""

from __future__ import annotations

import math

import numpy as np

from earmark.timeline import FloatArray, Track

EXACT = "<f8"
"""What selection reads again must be what it read before, to the last bit."""


def pack(values: FloatArray, kind: str = EXACT) -> bytes:
    """The numbers as little-endian bytes."""
    return np.ascontiguousarray(values, dtype=kind).tobytes()


def unpack(blob: bytes, kind: str = EXACT) -> FloatArray:
    """The numbers `pack` was given; read-only."""
    return np.frombuffer(blob, dtype=kind)


def thin(track: Track, *, hop: float = 1.0) -> Track:
    """The largest value in each stretch of about `hop` seconds; a coarser track is left alone.

    ▁▂▇▁ ▁▁▁▁ ▂▂▁▂ ▃    four steps a second
    ▇    ▁    ▂    ▃    one
    """
    steps = max(1, math.floor(hop / track.hop + 1e-9))
    if steps == 1 or len(track) == 0:
        return track
    values = np.maximum.reduceat(track.values, np.arange(0, len(track), steps))
    return Track(values, hop=track.hop * steps, start=track.start)


def sketch(track: Track) -> Track:
    """Enough of a track to draw it: one value a second, or some two thousand of a short one."""
    return thin(track, hop=min(1.0, max(track.duration / 2000, track.hop)))
