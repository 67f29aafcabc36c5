"""What an answer says is being done, in a field of its own; and whether two answers say the same.

A server that can is held to the schema; of one that cannot, the words are read: a line
`activity: …`, or the sentence itself.
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
"""Names a schema that holds no more than earmark's own fields: an answer without it can be read."""

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
"""Words for that nothing is being done."""

ACTIVITY_LINE = re.compile(r"^\W*activity\W*[:=]\W*(.*?)\W*$", re.IGNORECASE | re.MULTILINE)

WORD = re.compile(r"[^\W\d_]+")

STOP_WORDS = frozenset(
    WORD.findall(
        "a an and are at being by camera currently for from he her his in into is it its of off on "
        "one onto out over person she some the their then they to up user wearer while who with"
    )
)
"""Words that say nothing about what is being done."""

LEAST_SHARED = 0.5
"""Of the words of two activities together, to be the same."""


def with_activity(prompt: Prompt) -> Prompt:
    """The prompt, asking also what is being done, in fields of their own.

    Names are in order of the alphabet, as a run keeps them: a question read back is the same one.
    """
    schema = dict(prompt.schema or SCHEMA)
    schema["properties"] = {**schema.get("properties", {}), **FIELDS}
    required = [name for name in schema.get("required", ()) if name not in FIELDS]
    schema["required"] = [*required, *FIELDS]
    return replace(prompt, schema=json.loads(json.dumps(schema, sort_keys=True)))


def read_activity(words: str) -> dict[str, Any]:
    """The fields of `SCHEMA`, of an answer that does not follow it."""
    line = ACTIVITY_LINE.search(words)
    activity = line[1] if line else words
    active = not NO_ACTIVITY.search(activity)
    caption = ACTIVITY_LINE.sub("", words).strip() if line else words
    return {"caption": caption or words, "activity": activity if active else "", "active": active}


def activity_of(data: Any) -> str | None:
    """What the JSON of an answer says is being done.

    Empty where nothing is, None where it does not say.
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
    """Whether two activities share most of their words, but for endings and small words.

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
    """The words of an activity that say something, each without its ending."""
    words = WORD.findall(activity.lower())
    return frozenset(stems(" ".join(word for word in words if word not in STOP_WORDS)))
