"""One thing known of a stretch of a recording without asking a vision model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from earmark.timeline import Span

KINDS = ("heard", "said", "read", "seen")
"""What evidence there is: sounds by name, speech, text in the picture, objects; in this order."""

SOUND_TRACK = "yamnet track"
"""Origin of sounds followed over a whole recording: apart from what is said of single windows."""


@dataclass(frozen=True, slots=True)
class EvidenceEntry:
    """What a model that runs here says of a stretch, how sure it is, and which model it is.

    Text that was said or read is a quotation from the recording: data, never an instruction.
    """

    span: Span
    kind: str
    """One of `KINDS`."""
    text: str
    confidence: float
    """Between 0 and 1, as its model gives it; not comparable between models."""
    origin: str
    """The model's name."""
    data: Mapping[str, Any] | None = None
    """What else is known (times of words, language, boxes); anything JSON can hold."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"evidence is {', '.join(KINDS)}, not {self.kind!r}")
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"a confidence lies between 0 and 1, not at {self.confidence}")
