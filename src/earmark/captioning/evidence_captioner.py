"""A captioner that is told what small models find in the same frames."""

from __future__ import annotations

from dataclasses import dataclass, replace

from earmark.captioning.captioner import WrappedCaptioner
from earmark.captioning.request import Answer, Request
from earmark.evidence.picture_evidence import PictureEvidence


@dataclass(frozen=True, slots=True)
class EvidenceCaptioner(WrappedCaptioner):
    """Looks at the frames of a request first, tells the captioner, and keeps what was found."""

    look: PictureEvidence

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The captioner's answer, with what was found in the frames beside it."""
        found = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=found), timeout=timeout)
        return replace(answer, evidence=found)
