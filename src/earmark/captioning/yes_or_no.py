"""Questions that are answered yes or no: the schema of their answers, and how these are read.

A server that supports schemas is held to this one. The plain text of any other is read, if it
begins with yes or no; so are the words `"yes"` and `"no"` in place of true and false.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seen": {"type": "boolean"},
        "when": {"type": "string", "description": "when in the window, in words"},
        "what": {"type": "string", "description": "what is seen, in a sentence"},
    },
    "required": ["seen"],
}

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
