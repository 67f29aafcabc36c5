"""A window on its way to a model."""

from __future__ import annotations

from dataclasses import dataclass

from earmark.captioning.request import Request
from earmark.media import Recording


@dataclass(frozen=True, slots=True)
class Task:
    """One picked window on its way to a model."""

    recording: Recording
    request: Request

    def __str__(self) -> str:
        span = self.request.span
        return f"{self.recording.source.name} at {span.start:g}-{span.end:g} s"
