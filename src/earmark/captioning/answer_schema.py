"""The answers that earmark reads itself: the activity, and yes or no.

A server without schemas answers in plain text, which is parsed: a line `activity: …`, or else the
whole sentence; or a text that begins with yes or no.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from earmark.evidence.sound_query import stems
from earmark.models import ModelStore
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.timeline import FloatArray

if TYPE_CHECKING:
    from earmark.captioning.request import Answer

SCHEMA_TITLE = "caption_and_activity"
"""Title of the schema with earmark's own fields only: its answers can be read from plain text."""

FIELDS: Mapping[str, Any] = {
    "activity": {
        "type": "string",
        "description": "what is being done, in two to five words; empty if nothing is",
    },
    "active": {"type": "boolean", "description": "whether anything is being done"},
}

ACTIVITY_SCHEMA: Mapping[str, Any] = {
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

ACTIVITY_LINE = re.compile(
    r"^[^\w\n]*+activity[^\w:=]*+[:=]\W*+((?:\w++|[^\w\n]++(?=\w))*+)[^\w\n]*+",
    re.IGNORECASE | re.MULTILINE,
)

WORD = re.compile(r"[^\W\d_]+")

STOP_WORDS = frozenset(
    WORD.findall(
        "a an and are at being by camera currently for from he her his in into is it its of off on "
        "one onto out over person she some the their then they to up user wearer while who with"
    )
)

LEAST_SHARED = 0.5


def with_activity(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    schema = dict(schema or ACTIVITY_SCHEMA)
    schema["properties"] = {**schema.get("properties", {}), **FIELDS}
    required = [name for name in schema.get("required", ()) if name not in FIELDS]
    schema["required"] = [*required, *FIELDS]
    return dict(json.loads(json.dumps(schema, sort_keys=True)))


def read_activity(words: str) -> dict[str, Any]:
    line = ACTIVITY_LINE.search(words)
    activity = line[1] if line else words
    active = not NO_ACTIVITY.search(activity)
    rest = ACTIVITY_LINE.sub("", words).strip()
    caption = rest if re.search(r"\w", rest) else words
    return {"caption": caption, "activity": activity if active else "", "active": active}


def activity_of(data: Any) -> str | None:
    """The activity in the JSON of an answer; empty if nothing is being done, None if unknown."""
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
    first_words, last_words = content_words(first), content_words(last)
    if not first_words or not last_words:
        return first.strip().lower() == last.strip().lower()
    return len(first_words & last_words) >= LEAST_SHARED * len(first_words | last_words)


@lru_cache(maxsize=1 << 14)
def content_words(activity: str) -> frozenset[str]:
    words = WORD.findall(activity.lower())
    return frozenset(stems(" ".join(word for word in words if word not in STOP_WORDS)))


LEAST_SIMILARITY = 0.8
"""Dot product of two unit vectors from which activities in different words are the same."""


@dataclass(slots=True)
class ActivityMeaning:
    encoder: SentenceEncoder
    vectors: dict[str, FloatArray] = field(default_factory=dict, repr=False)

    def read(self, activities: Iterable[str | None]) -> None:
        new = sorted(
            {activity for activity in activities if activity and activity not in self.vectors}
        )
        self.vectors.update(zip(new, self.encoder(new), strict=True))

    def __call__(self, first: str, last: str) -> bool:
        if same_activity(first, last):
            return True
        if not first or not last:
            return False
        self.read([first, last])
        return float(self.vectors[first] @ self.vectors[last]) >= LEAST_SIMILARITY


def compare_activities(
    store: ModelStore, activities: Iterable[str | None]
) -> Callable[[str, str], bool]:
    encoder = SentenceEncoder.if_available(store)
    if encoder is None:
        return same_activity
    meaning = ActivityMeaning(encoder)
    meaning.read(activities)
    return meaning


YES_OR_NO_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "seen": {"type": "boolean"},
        "when": {"type": "string", "description": "when in the window, in words"},
        "what": {"type": "string", "description": "what is seen, in a sentence"},
    },
    "required": ["seen"],
}

YES, NO = "Yes.", "No."
"""How the text of an answer begins. What a no says ("there is no drill") is left out: a search for
drills would find it.
"""

YES_OR_NO = re.compile(r"\W*(?:(yes|true)|no|false)\b[\s,.:;!–-]*", re.IGNORECASE)


def read_yes_or_no(value: object) -> tuple[bool, str] | None:
    """Whether `value` says yes, and what else it says; None if it says neither yes nor no.

    >>> read_yes_or_no("Yes, a drill turns."), read_yes_or_no("no"), read_yes_or_no("nothing")
    ((True, 'a drill turns.'), (False, ''), None)
    """
    if isinstance(value, bool | int):
        return bool(value), ""
    match = YES_OR_NO.match(value) if isinstance(value, str) else None
    return (bool(match[1]), str(value)[match.end() :].strip()) if match else None


def tell_yes_or_no(data: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The text of an answer, and its data with `seen` as a boolean; None if neither yes nor no.

    >>> tell_yes_or_no({"seen": "yes", "what": "A hand turns a drill"})
    ('Yes. A hand turns a drill', {'seen': True, 'what': 'A hand turns a drill'})
    """
    reading = read_yes_or_no(data.get("seen"))
    if reading is None:
        return None
    text = f"{YES} {data.get('what') or ''}".strip() if reading[0] else NO
    return text, {**data, "seen": reading[0]}


def is_yes_or_no(text: str) -> bool:
    return text.startswith((YES, NO))


def is_seen(answer: Answer | None) -> bool | None:
    """None if there is no answer, or it is to another question."""
    if answer is None or not isinstance(answer.data, dict) or not is_yes_or_no(answer.text):
        return None
    reading = read_yes_or_no(answer.data.get("seen"))
    return reading[0] if reading else None
