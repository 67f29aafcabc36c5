"""What a captioner is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from earmark.captioning.activity import TITLE, read_activity
from earmark.captioning.request import Answer, Request
from earmark.errors import UnreadableAnswer

DEEPEST = 64
"""Levels of nesting in an answer, or in a reply: nobody asks for more."""


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
        """Calls it can work on side by side; None where that is for the limits to say."""
        ...

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        ...

    def __call__(self, request: Request, *, timeout: float) -> Answer:
        """The answer to `request`."""
        ...


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
        """As many calls as the inner one can."""
        return self.captioner.at_once

    def check(self) -> None:
        """Raises, in one line, if no call could succeed; costs no call."""
        self.captioner.check()


def read_text(text: str, request: Request, *, finish: str = "stop") -> tuple[str, Any]:
    """A model's words and, where `request` has a schema, the same as JSON.

    A fence of backquotes around the JSON is taken off. Of the schema only the type `object` and
    the required names are checked.
    """
    words = text.strip()
    if not words:
        raise UnreadableAnswer(f"the model answered nothing{_cut(finish)}")
    if request.schema is None:
        return words, None
    try:
        data = json.loads(_unfenced(words))
    except (ValueError, RecursionError) as error:  # not JSON, or a number of thousands of digits
        if request.schema.get("title") == TITLE:  # asked for, and not in this server's power
            data = read_activity(words)
            return data["caption"], data
        raise UnreadableAnswer(
            f"the answer is not JSON, as the schema asks{_cut(finish)}: {words[:60]!r}"
        ) from error
    _check_shape(data, request)
    caption = data.get("caption") if request.schema.get("title") == TITLE else None
    return caption.strip() or words if isinstance(caption, str) else words, data


def _check_shape(data: Any, request: Request) -> None:
    schema = request.schema or {}
    if schema.get("type", "object") == "object" and not isinstance(data, dict):
        raise UnreadableAnswer("the answer is JSON but not an object")
    if _depth(data) > DEEPEST:
        raise UnreadableAnswer(f"the answer is JSON nested more than {DEEPEST} deep")
    names = schema.get("required", ()) if isinstance(data, dict) else ()
    missing = [name for name in names if name not in data]
    if missing:
        raise UnreadableAnswer(f"the answer lacks {', '.join(missing)}")


def _depth(value: Any) -> int:
    """How many lists and objects lie in one another in a JSON value, itself counted."""
    depth, level = 0, [value]
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        level = [
            inner for one in level for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def _unfenced(words: str) -> str:
    if words.startswith("```") and words.endswith("```"):
        return words[3:-3].removeprefix("json")
    return words


def _cut(finish: str) -> str:
    return " (cut off: allow a longer one with --answer-tokens)" if finish == "length" else ""
