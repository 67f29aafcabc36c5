"""The activity an answer names, in a field of its own, and whether two activities are the same.

A server that supports schemas is held to one. The plain text of any other is parsed: a line
`activity: …`, or else the whole sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from earmark.captioning.prompt import Prompt
from earmark.evidence.word_stems import stems

SCHEMA_TITLE = "caption_and_activity"
"""Title of the schema with earmark's own fields only: its answers can be read from plain text."""

FIELDS: Mapping[str, Any] = {
    "activity": {
        "type": "string",
        "description": "what is being done, in two to five words; empty if nothing is",
    },
    "active": {"type": "boolean", "description": "whether anything is being done"},
}

SCHEMA: Mapping[str, Any] = {
    "title": SCHEMA_TITLE,
    "type": "object",
    "properties": {"caption": {"type": "string"}, **FIELDS},
    "required": ["caption", *FIELDS],
    "additionalProperties": False,
}

NO_ACTIVITY = re.compile(
    r"\b(?:nothing (?:is|else|much|being|happen\w*|appears|seems)|no (?:activity|action|one is)"
    r"|not (?:doing|performing|engaged)|(?:is|are|stands?|sits?) still|idle|inactive)\b"
    r"|^\W*(?:nothing|none|n/a|no)\W*$",
    re.IGNORECASE,
)
"""Phrases which say that nothing is being done."""

ACTIVITY_LINE = re.compile(r"^\W*activity\W*[:=]\W*(.*?)\W*$", re.IGNORECASE | re.MULTILINE)

WORD = re.compile(r"[^\W\d_]+")

STOP_WORDS = frozenset(
    WORD.findall(
        "a an and are at being by camera currently for from he her his in into is it its of off on "
        "one onto out over person she some the their then they to up user wearer while who with"
    )
)
"""Words that do not tell one activity from another."""

LEAST_SHARED = 0.5
"""Share of common words (intersection over union) from which two activities are the same."""


def with_activity(prompt: Prompt) -> Prompt:
    """The prompt with the activity fields added to its schema.

    Keys are sorted, as a run stores them, so that a question read back is equal to this one.
    """
    schema = dict(prompt.schema or SCHEMA)
    schema["properties"] = {**schema.get("properties", {}), **FIELDS}
    required = [name for name in schema.get("required", ()) if name not in FIELDS]
    schema["required"] = [*required, *FIELDS]
    return replace(prompt, schema=json.loads(json.dumps(schema, sort_keys=True)))


def read_activity(words: str) -> dict[str, Any]:
    """The fields of `SCHEMA`, from an answer in plain text."""
    line = ACTIVITY_LINE.search(words)
    activity = line[1] if line else words
    active = not NO_ACTIVITY.search(activity)
    caption = ACTIVITY_LINE.sub("", words).strip() if line else words
    return {"caption": caption or words, "activity": activity if active else "", "active": active}


def activity_of(data: Any) -> str | None:
    """The activity in the JSON of an answer.

    Empty if nothing is being done, None if the answer does not say.
    """
    if not isinstance(data, Mapping):
        return None
    activity, active = data.get("activity"), data.get("active")
    if active is False:
        return ""
    if isinstance(activity, str):
        return "" if active is not True and NO_ACTIVITY.search(activity) else activity.strip()
    return None


def same_activity(first: str, last: str) -> bool:
    """Whether two activities share half of their words or more, without endings and stop words.

    >>> same_activity("chopping the onions", "chops an onion")
    True
    >>> same_activity("chopping onions", "washing a pan")
    False
    """
    one, other = content_words(first), content_words(last)
    if not one or not other:
        return first.strip().lower() == last.strip().lower()
    return len(one & other) >= LEAST_SHARED * len(one | other)


@lru_cache(maxsize=1 << 14)
def content_words(activity: str) -> frozenset[str]:
    """The stems of an activity's words, without stop words."""
    words = WORD.findall(activity.lower())
    return frozenset(stems(" ".join(word for word in words if word not in STOP_WORDS)))
