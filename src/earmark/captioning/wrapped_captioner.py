"""Captioners around another: those that look at the frames first, or change what comes back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from earmark.captioning.captioner import Captioner
from earmark.captioning.request import Answer, Request

if TYPE_CHECKING:
    from earmark.evidence.picture_evidence import PictureEvidence


@dataclass(frozen=True, slots=True)
class WrappedCaptioner:
    """One captioner around another: all that a subclass does not change is the inner one's."""

    captioner: Captioner

    @property
    def model(self) -> str:
        """The inner one's: the wrapping changes no request's identity."""
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
    """Looks at the frames of a request first, tells the captioner, and keeps what was found."""

    look: PictureEvidence

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The captioner's answer, with what was found in the frames beside it."""
        found = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=found), timeout=timeout)
        return replace(answer, evidence=found)
