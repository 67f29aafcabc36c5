"""What is heard in one window, as words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from earmark.evidence.level_words import describe
from earmark.timeline import Span, Track


@dataclass(frozen=True, slots=True)
class WindowSounds:
    """What is heard in a window: names from a model that knows sounds, words from its level."""

    names: tuple[str, ...] = ()
    """Put into the prompt of the vision model."""
    words: tuple[str, ...] = ()
    """For searching the run only."""

    @property
    def tags(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.names, *self.words)


def sounds_in(
    spans: Iterable[Span], *, level: Track | None, names: Mapping[Span, tuple[str, ...]]
) -> dict[Span, WindowSounds]:
    """What is heard in each of `spans`, from the names of its sounds and from the level."""
    return {
        span: WindowSounds(names.get(span, ()), describe(level, span) if level else ())
        for span in spans
    }
