"""What is heard, as words: the embedded default when no vision model is configured."""

from __future__ import annotations

from dataclasses import dataclass

from earmark.call.request import Answer, Request


@dataclass(frozen=True, slots=True)
class TagsCaptioner:
    """Passes on the tags of the window, and says that is what they are.

    No picture is looked at and nothing is asked of anyone, so a schema is not followed and
    `data` is None. A window without named sounds has the empty text.
    """

    model: str = "tags"
    at_once: int | None = 1

    def check(self) -> None:
        """Always ready."""

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        """The tags of `request`, joined by commas; `kind` is `tags`, never `caption`."""
        return Answer(
            text=", ".join(request.tags),
            model=self.model,
            kind="tags",
            prompt_tokens=0,
            completion_tokens=0,
            form="none",
        )
