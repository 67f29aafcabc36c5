"""The captioner protocol, and the captioner that calls no model: tags alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from earmark.captioning.request import TAGS_MODEL, Answer, Request
from earmark.media import Frame

FrameTagger = Callable[[Sequence[Frame]], tuple[str, ...]]
"""Names what frames show, such as `earmark.evidence.object_detector.ObjectTagger`."""


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

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`."""
        ...


@dataclass(frozen=True, slots=True)
class TagsCaptioner:
    """Returns the tags of the window as its answer, of the kind `tags`.

    No model is called, so a schema is ignored and `data` is None. Frames are looked at only with a
    `look`. The names it gives, and objects among the request's evidence, follow those of the
    sounds. The text is empty if there are no names.
    """

    model: str = TAGS_MODEL
    look: FrameTagger | None = None

    @property
    def at_once(self) -> int | None:
        """0, at once, for the tags alone; None where a `look` takes time."""
        return 0 if self.look is None else None

    def check(self) -> None:
        """Always ready."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        """The tags of `request`, joined by commas; `kind` is `tags`, never `caption`."""
        seen = self.look(request.frames) if self.look else ()
        seen += tuple(entry.text for entry in request.evidence if entry.kind == "seen")
        return Answer(
            text=", ".join(dict.fromkeys((*request.tags, *seen))),
            model=self.model,
            kind="tags",
            prompt_tokens=0,
            completion_tokens=0,
            form="images" if self.look and request.frames else "none",
        )
