"""What a fuzzer feeds to whoever reads what others wrote: replies of servers, annotation files.

Each target takes bytes and may raise nothing: what is wrong with them is one line for a person.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from earmark import Span
from earmark.captioning.chat_protocol import MOST_CHARACTERS, read_json, read_reply
from earmark.captioning.request import Question, Request
from earmark.errors import AnnotationError, UnreadableAnswer
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.annotations.table_readers import COLUMNS

CORPUS = Path(__file__).parent / "text_corpus"

_SCHEMAS = [None, {"type": "object", "required": ["action"]}, {"type": "array", "required": ["a"]}]
_REQUESTS = [
    Request("r", Span(0.0, 4.0), (2.0,), "What?", "m", Question(schema=schema))
    for schema in _SCHEMAS
]


def reply(data: bytes) -> None:
    """The reply parser: an answer that can be kept, or why there is none."""
    try:
        found = read_json(data)
    except ValueError:
        return
    if not isinstance(found, dict):
        return
    for request in _REQUESTS:
        try:
            answer = read_reply(found, request)
        except UnreadableAnswer as error:
            assert "\n" not in str(error)
            continue
        assert 0 < len(answer.text) <= MOST_CHARACTERS
        assert (answer.data is None) == (request.question.schema is None) or answer.text == "null"
        for count in (answer.prompt_tokens, answer.completion_tokens):
            assert count is None or 0 <= count <= 10**9


def annotations(data: bytes, *, name: str | None) -> None:
    """One reader of annotation files; None for the one that is found by looking inside."""
    with tempfile.TemporaryDirectory(dir=_SCRATCH) as folder:
        path = Path(folder) / f"a{_SUFFIXES.get(name or '', '.csv')}"
        path.write_bytes(data)
        try:
            found = read_annotations(path, format=name)
        except AnnotationError as error:
            assert "\n" not in str(error)
            return
        for actions in found.recordings.values():
            assert all(0 <= action.start <= action.end < math.inf for action in actions)


_SCRATCH = "/dev/shm" if Path("/dev/shm").is_dir() else None
_SUFFIXES = {"goalstep": ".json", "egosound": ".json", "elan": ".eaf", "corrections": ".jsonl"}

FORMATS = [*COLUMNS, "dcase", "audacity", "goalstep", "egosound", "elan", "corrections"]
"""Every reader of our own, each by one of its names."""

TARGETS: dict[str, Callable[[bytes], None]] = {
    "reply": reply,
    "any-annotation": partial(annotations, name=None),
    **{name: partial(annotations, name=name) for name in FORMATS},
}
