"""What is heard in one window, as words: names of sounds, and what its level alone tells.

The latter are not names of things, for no model is asked: enough to search for `loud` or `sudden`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.timeline import Span, Track

STEADY_DB = 3.0
"""A level that keeps within this of its own middle (quarter to three quarters) is steady."""

SUDDEN_DB = 12.0
"""A rise of this much from one value to the next is sudden."""


@dataclass(frozen=True, slots=True)
class WindowSounds:
    """What is heard in a window: names from a model that knows sounds, words from its level."""

    names: tuple[str, ...] = ()
    """Put into the prompt of the vision model."""
    words: tuple[str, ...] = ()
    """For searching the run only."""
    said: tuple[str, ...] = ()
    """What is said in it, a sentence each; put into the prompt as a quotation."""

    @property
    def tags(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.names, *self.words)


def sounds_in(
    spans: Iterable[Span],
    *,
    level: Track | None,
    names: Mapping[Span, tuple[str, ...]],
    said: Sequence[EvidenceEntry] = (),
) -> dict[Span, WindowSounds]:
    """What is heard in each of `spans`: the names of its sounds, its level, and what is said."""
    return {
        span: WindowSounds(
            names.get(span, ()),
            level_words(level, span) if level else (),
            sentences_in(span, said) if said else (),
        )
        for span in spans
    }


def sentences_in(span: Span, said: Iterable[EvidenceEntry]) -> tuple[str, ...]:
    """The sentences of `said` of which some is in `span`."""
    return tuple(entry.text for entry in said if entry.span.overlaps(span))


def level_words(level: Track, span: Span) -> tuple[str, ...]:
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
    return tuple(word for word, applies in words.items() if applies)
