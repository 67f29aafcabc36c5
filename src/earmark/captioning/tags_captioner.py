"""What is heard, as words: the embedded default when no vision model is configured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from earmark.captioning.request import Answer, Request
from earmark.media import Frame

Look = Callable[[Sequence[Frame]], tuple[str, ...]]
"""Names what frames show, such as `earmark.evidence.object_detector.ObjectTagger`."""


@dataclass(frozen=True, slots=True)
class TagsCaptioner:
    """Passes on the tags of the window, and says that is what they are.

    Nothing is asked of anyone, so a schema is not followed and `data` is None. No picture is looked
    at here unless there is a `look`; its names, and what the request says is seen, follow those of
    the sounds. A window without named sounds or things has the empty text.
    """

    model: str = "tags"
    at_once: int | None = None
    look: Look | None = None

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
