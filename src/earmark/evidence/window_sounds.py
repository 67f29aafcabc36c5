"""What is heard in one window, as words."""

from __future__ import annotations

from dataclasses import dataclass


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
