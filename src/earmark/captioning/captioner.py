from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from earmark.captioning.request import TAGS_MODEL, Answer, Request

if TYPE_CHECKING:
    from earmark.evidence.picture_evidence import PictureEvidence


class Captioner(Protocol):
    """Answers one request about one window.

    It is called from several threads at once, and pickled to run in other processes. It returns a
    whole answer within about `timeout` seconds, or raises: `CallTimeout` if a retry may help (too
    slow, too busy, cut off), `CallRejected` if not, `UnreadableAnswer` if the answer cannot be used
    (blank, or not the JSON that was asked for), `MediaError` if it decodes the pictures itself and
    cannot. It makes one attempt; the caller retries. A caption is never blank and has `data`
    exactly when the request has a schema; `form` says how the frames were sent, and `kind` whether
    a model looked at all. The request is not modified.
    """

    @property
    def model(self) -> str:
        """The model's name, part of a request's identity."""
        ...

    @property
    def at_once(self) -> int | None:
        """Calls it can work on side by side; None leaves it to the limits.

        0 means that it answers at once, asks nobody and costs nothing: it is called in the calling
        thread, one request after another.
        """
        ...

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        ...

    def __call__(self, request: Request, *, timeout: float) -> Answer: ...


@dataclass(frozen=True, slots=True)
class TagsCaptioner:
    """Returns the tags of the window as its answer; a schema is ignored.

    Objects among the request's evidence follow the names of the sounds.
    """

    model: str = TAGS_MODEL
    at_once: int | None = 0

    def check(self) -> None: ...

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        seen = (entry.text for entry in request.evidence if entry.kind == "seen")
        return Answer(
            text=", ".join(dict.fromkeys((*request.tags, *seen))),
            model=self.model,
            kind="tags",
            prompt_tokens=0,
            completion_tokens=0,
            form="none",
        )


@dataclass(frozen=True, slots=True)
class WrappedCaptioner:
    captioner: Captioner

    @property
    def model(self) -> str:
        return self.captioner.model

    @property
    def at_once(self) -> int | None:
        """Never 0, since the wrapping does work of its own."""
        return self.captioner.at_once or None

    def check(self) -> None:
        self.captioner.check()


@dataclass(frozen=True, slots=True)
class EvidenceCaptioner(WrappedCaptioner):
    look: PictureEvidence

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        evidence = self.look(request.frames, request.span)
        answer = self.captioner(replace(request, evidence=evidence), timeout=timeout)
        return replace(answer, evidence=evidence)
