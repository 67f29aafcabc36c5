"""One piece of evidence about a stretch of a recording, found without a vision model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from earmark.timeline import Span

KINDS = ("heard", "said", "read", "seen")
"""Kinds of evidence, in the order shown: named sounds, speech, text in the picture, objects."""

SOUND_TRACK = "yamnet track"
"""Origin of sounds tracked over a whole recording, as opposed to those of single windows."""


@dataclass(frozen=True, slots=True)
class EvidenceEntry:
    """What a model on this machine says about a stretch, with its confidence and the model's name.

    Speech and read text are quotations from the recording: data, never instructions.
    """

    span: Span
    kind: str
    """One of `KINDS`."""
    text: str
    confidence: float
    """Between 0 and 1, as its model gives it; not comparable between models."""
    origin: str
    """The model's name, or `SOUND_TRACK`."""
    data: Mapping[str, Any] | None = None
    """Further values (times of words, language, boxes); anything JSON can hold."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"evidence is {', '.join(KINDS)}, not {self.kind!r}")
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"a confidence lies between 0 and 1, not at {self.confidence}")

    @property
    def model(self) -> str:
        """The model's name, also of sounds tracked over a whole recording."""
        return self.origin.removesuffix(" track")
