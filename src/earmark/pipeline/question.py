"""The question put about a picked window: what is shown, what is said, and whom it is for."""

from __future__ import annotations

from dataclasses import dataclass

from earmark.captioning import Question, Request
from earmark.evidence.window_sounds import WindowSounds
from earmark.ledger import CallRow
from earmark.media import Recording

Ask = Question
Sounds = WindowSounds


@dataclass(frozen=True, slots=True)
class Task:
    """One picked window on its way to a model."""

    recording: Recording
    window: int
    request: Request

    def __str__(self) -> str:
        span = self.request.span
        return f"{self.recording.source.name} at {span.start:g}-{span.end:g} s"

    @property
    def row(self) -> CallRow:
        """The call as the ledger knows it."""
        return CallRow.of(self.request)
