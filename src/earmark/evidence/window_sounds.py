"""What is heard in one window, as words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.level_words import describe
from earmark.timeline import Span, Track


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
            names.get(span, ()), describe(level, span) if level else (), said_in(span, said)
        )
        for span in spans
    }


def said_in(span: Span, said: Iterable[EvidenceEntry]) -> tuple[str, ...]:
    """The sentences of `said` of which some is in `span`."""
    return tuple(entry.text for entry in said if entry.span.overlaps(span))
