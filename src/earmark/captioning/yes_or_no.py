"""Questions that are answered yes or no: the schema of their answers, and how these are read.

A server that supports schemas is held to this one. The plain text of any other is read, if it
begins with yes or no; so are the words `"yes"` and `"no"` in place of true and false.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from earmark.captioning.request import Answer

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seen": {"type": "boolean"},
        "when": {"type": "string", "description": "when in the window, in words"},
        "what": {"type": "string", "description": "what is seen, in a sentence"},
    },
    "required": ["seen"],
}

YES, NO = "Yes.", "No."
"""How the text of an answer begins. What a no says ("there is no drill") is not part of its text: a
search for drills would find it."""

YES_OR_NO = re.compile(r"\W*(?:(yes|true)|no|false)\b[\s,.:;!–-]*", re.IGNORECASE)


def read_yes_or_no(value: object) -> tuple[bool, str] | None:
    """Whether `value` says yes, and what else it says; None if it says neither yes nor no.

    >>> read_yes_or_no("Yes, a drill turns."), read_yes_or_no("no"), read_yes_or_no("nothing")
    ((True, 'a drill turns.'), (False, ''), None)
    """
    if isinstance(value, bool | int):
        return bool(value), ""
    found = YES_OR_NO.match(value) if isinstance(value, str) else None
    return (bool(found[1]), str(value)[found.end() :].strip()) if found else None


def tell_yes_or_no(data: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The text of an answer with these data, and its data with `seen` as a boolean.

    None if it says neither yes nor no.

    >>> tell_yes_or_no({"seen": "yes", "what": "A hand turns a drill"})
    ('Yes. A hand turns a drill', {'seen': True, 'what': 'A hand turns a drill'})
    """
    told = read_yes_or_no(data.get("seen"))
    if told is None:
        return None
    text = f"{YES} {data.get('what') or ''}".strip() if told[0] else NO
    return text, {**data, "seen": told[0]}


def is_yes_or_no(text: str) -> bool:
    """Whether `text` is that of an answer to such a question."""
    return text.startswith((YES, NO))


def is_seen(answer: Answer | None) -> bool | None:
    """Whether the answer is yes; None for an answer to another question, or for none."""
    if answer is None or not isinstance(answer.data, dict) or not is_yes_or_no(answer.text):
        return None
    told = read_yes_or_no(answer.data.get("seen"))
    return told[0] if told else None
