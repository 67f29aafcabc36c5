"""A captioner that is told what small models find in the same frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request
from earmark.evidence.picture_evidence import PictureEvidence


@dataclass(frozen=True, slots=True)
class EvidenceCaptioner:
    """Looks at the frames of a request first, tells `captioner`, and keeps what was found."""

    captioner: Captioner
    look: PictureEvidence

    @property
    def model(self) -> str:
        """The captioner's own."""
        return self.captioner.model

    @property
    def at_once(self) -> int | None:
        """As many as the captioner can."""
        return self.captioner.at_once

    def check(self) -> None:
        """Raises if no call could succeed."""
        self.captioner.check()

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The captioner's answer, with what was found in the frames beside it."""
        found = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=found), timeout=timeout)
        return replace(answer, evidence=found)
