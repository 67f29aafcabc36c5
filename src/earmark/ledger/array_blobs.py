"""Arrays as bytes: one blob a recording instead of a row a window."""

from __future__ import annotations

import numpy as np

from earmark.timeline import FloatArray

EXACT = "<f8"
"""What selection reads again must be what it read before, to the last bit."""


def pack(values: FloatArray, kind: str = EXACT) -> bytes:
    """The numbers as little-endian bytes."""
    return np.ascontiguousarray(values, dtype=kind).tobytes()


def unpack(blob: bytes, kind: str = EXACT) -> FloatArray:
    """The numbers `pack` was given; read-only."""
    return np.frombuffer(blob, dtype=kind)
