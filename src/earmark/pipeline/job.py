"""Everything a run is made by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from earmark.captioning import Captioner, Limits
from earmark.evidence.sound_names import Namer
from earmark.gate.score_cache import ScoreCache
from earmark.pipeline.question import Ask
from earmark.pipeline.triage import Plan


@dataclass(frozen=True, slots=True)
class Job:
    """Everything a run is made by."""

    plan: Plan
    captioner: Captioner
    ask: Ask = field(default_factory=Ask)
    limits: Limits = field(default_factory=Limits)
    cache: ScoreCache | None = None
    """Where to keep what was heard, beside the run."""
    namer: Namer | None = None
    """Who names the sounds in a window; None says nothing about them."""

    def to_json(self) -> dict[str, Any]:
        """All that can change an answer, as plain values."""
        names = {
            "model": self.captioner.model,
            "sounds": self.namer.model if self.namer else None,
        }
        return {**self.plan.to_json(), **names, "ask": self.ask.to_json()}
