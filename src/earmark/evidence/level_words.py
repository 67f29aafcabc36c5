"""What a stretch sounds like, in plain words, from its level alone.

Not names of things: no model is asked. Enough to search a run for `loud` or `sudden`.
"""

from __future__ import annotations

import numpy as np

from earmark.timeline import Span, Track

STEADY_DB = 3.0
"""A level that keeps within this of its own middle (quarter to three quarters) is steady."""

SUDDEN_DB = 12.0
"""A rise of this much from one value to the next is sudden."""


def describe(level: Track, span: Span) -> tuple[str, ...]:
    """Words for `span`, held against the whole of `level` (dB); none outside it.

    `loud` is above nine tenths of the recording, `quiet` below one tenth; `sudden` holds a sharp
    rise, `steady` hardly any change.
    """
    first = max(0, round((span.start - level.start) / level.hop))
    last = round((span.end - level.start) / level.hop)
    inside = level.values[first:last]
    if len(inside) == 0:
        return ()
    quiet, loud = np.quantile(level.values, [0.1, 0.9])
    peak, spread = inside.max(), np.subtract(*np.quantile(inside, [0.75, 0.25]))
    rise = np.diff(inside).max(initial=0.0)
    words = {
        "loud": loud > quiet and peak >= loud,
        "quiet": loud > quiet and peak <= quiet,
        "sudden": rise >= SUDDEN_DB,
        "steady": spread <= STEADY_DB and rise < SUDDEN_DB,
    }
    return tuple(word for word, holds in words.items() if holds)
