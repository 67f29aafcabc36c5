"""What a captioner is, and the one that asks nobody: tags alone."""

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

    Called from several threads at once, and pickled to be called elsewhere. Returns a whole answer
    within about `timeout` seconds, or raises: `CallTimeout` when asking again may help (too slow,
    too busy, cut off), `CallRejected` when it will not, `UnreadableAnswer` when there is an answer
    but not one that can be used: blank, or not the JSON that was asked for; `MediaError` where it
    decodes the pictures itself and cannot. It asks once; retries are the caller's. A caption is
    never blank and has `data` exactly when the request has a schema; `form` says how the frames
    travelled, and `kind` whether a model looked at all. The request is not written to.
    """

    @property
    def model(self) -> str:
        """The name that goes into a request's identity."""
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
    """Passes on the tags of the window, and says that is what they are.

    Nothing is asked of anyone, so a schema is not followed and `data` is None. No picture is looked
    at here unless there is a `look`; its names, and what the request says is seen, follow those of
    the sounds. A window without named sounds or things has the empty text.
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
