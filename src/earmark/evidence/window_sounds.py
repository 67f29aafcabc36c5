"""The sounds of one window in words: names of sounds, and words for its level.

Words for the level need no model, and do not name things: enough to search for `loud` or `sudden`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.timeline import FloatArray, Span, Track

STEADY_DB = 3.0
"""Largest interquartile range, in dB, of a steady level."""

SUDDEN_DB = 12.0
"""Least rise, in dB from one value to the next, of a sudden sound."""


@dataclass(frozen=True, slots=True)
class WindowSounds:
    """The sounds of a window: names from a model, words from the level, and speech."""

    names: tuple[str, ...] = ()
    """Put into the prompt of the vision model."""
    words: tuple[str, ...] = ()
    """For searching the run only."""
    said: tuple[str, ...] = ()
    """Sentences spoken in it; put into the prompt as a quotation."""

    @property
    def tags(self) -> tuple[str, ...]:
        """Names and words."""
        return (*self.names, *self.words)


def sounds_in(
    spans: Iterable[Span],
    *,
    level: Track | None,
    names: Mapping[Span, tuple[str, ...]],
    said: Iterable[EvidenceEntry] = (),
) -> dict[Span, WindowSounds]:
    """The names, level words and speech of each of `spans`."""
    sentences = SpokenSentences(said)
    return {
        span: WindowSounds(
            names.get(span, ()),
            level_words(level, span) if level else (),
            sentences.within(span),
        )
        for span in spans
    }


class SpokenSentences:
    """The sentences of a recording in order of time; finds those in a span without reading all."""

    def __init__(self, said: Iterable[EvidenceEntry] = ()) -> None:
        self._said = sorted(said, key=lambda entry: entry.span.start)
        self._starts = [entry.span.start for entry in self._said]
        # The latest end so far never falls, so that what has ended before a span is a beginning.
        self._ended = list(accumulate((entry.span.end for entry in self._said), max))

    def within(self, span: Span) -> tuple[str, ...]:
        """The sentences that overlap `span`."""
        first, last = bisect_right(self._ended, span.start), bisect_left(self._starts, span.end)
        return tuple(entry.text for entry in self._said[first:last] if entry.span.overlaps(span))


@lru_cache(maxsize=2)
def _quiet_and_loud(level: Track) -> FloatArray:
    """The lowest and the highest tenth of `level`; cached, because every window asks for them."""
    return np.quantile(level.values, [0.1, 0.9])


def level_words(level: Track, span: Span) -> tuple[str, ...]:
    """Words for `span`, relative to the whole of `level` (dB); none outside it.

    `loud` is above nine tenths of the recording, `quiet` below one tenth; `sudden` has a sharp
    rise, `steady` hardly any change.
    """
    first = max(0, round((span.start - level.start) / level.hop))
    last = round((span.end - level.start) / level.hop)
    inside = level.values[first:last]
    if len(inside) == 0:
        return ()
    quiet, loud = _quiet_and_loud(level)
    peak, spread = inside.max(), np.subtract(*np.quantile(inside, [0.75, 0.25]))
    rise = np.diff(inside).max(initial=0.0)
    words = {
        "loud": loud > quiet and peak >= loud,
        "quiet": loud > quiet and peak <= quiet,
        "sudden": rise >= SUDDEN_DB,
        "steady": spread <= STEADY_DB and rise < SUDDEN_DB,
    }
    return tuple(word for word, applies in words.items() if applies)
