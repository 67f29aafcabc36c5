"""Reads many small pieces of a file in as few reads as are worth it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from earmark.media.storage import ByteRange, Storage

_PADDING = bytes(64)
"""Decoders may look this far past the end of a packet, so that much memory must follow it."""


def gather(
    storage: Storage, positions: NDArray[np.int64], sizes: NDArray[np.int32]
) -> Iterator[memoryview]:
    """The bytes of each piece, in order.

    Pieces that touch, or lie closer than the storage's `spare_bytes`, come in one read.
    """
    ends = positions + sizes
    run_of = np.concatenate([[0], np.cumsum(_breaks(positions, ends, storage.spare_bytes))])
    firsts = np.flatnonzero(np.diff(run_of, prepend=-1))
    starts = positions[firsts]
    stops = np.maximum.reduceat(ends, firsts)
    stretches = [ByteRange(*pair) for pair in zip(starts.tolist(), stops.tolist(), strict=True)]
    runs = [memoryview(data + _PADDING) for data in storage.read_all(stretches)]
    offsets = (positions - starts[run_of]).tolist()
    for run, offset, size in zip(run_of.tolist(), offsets, sizes.tolist(), strict=True):
        yield runs[run][offset : offset + size]


def _breaks(
    positions: NDArray[np.int64], ends: NDArray[np.int64], spare_bytes: int
) -> NDArray[np.bool_]:
    """Between which neighbours a new read begins: going back, or over more than the spare."""
    gaps = positions[1:] - ends[:-1]
    broken: NDArray[np.bool_] = (gaps < 0) | (gaps > spare_bytes)
    return broken
