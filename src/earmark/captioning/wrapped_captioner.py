"""Captioners that wrap another: to look at the frames first, or to change the answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request

if TYPE_CHECKING:
    from earmark.evidence.picture_evidence import PictureEvidence


@dataclass(frozen=True, slots=True)
class WrappedCaptioner:
    """A captioner around another; subclasses override what they change."""

    captioner: Captioner

    @property
    def model(self) -> str:
        """The inner captioner's: wrapping does not change a request's identity."""
        return self.captioner.model

    @property
    def at_once(self) -> int | None:
        """As many calls as the inner one can; never 0, since the wrapping does work of its own."""
        return self.captioner.at_once or None

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        self.captioner.check()


@dataclass(frozen=True, slots=True)
class EvidenceCaptioner(WrappedCaptioner):
    """Adds evidence from small models that look at the frames to the request and the answer."""

    look: PictureEvidence

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The inner captioner's answer, with the evidence found in the frames."""
        found = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=found), timeout=timeout)
        return replace(answer, evidence=found)
