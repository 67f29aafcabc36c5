"""What a server says, read within bounds: its JSON, the answer in it, and what that took."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from earmark.captioning.captioner import DEEPEST, read_text
from earmark.captioning.request import Answer, Form, Request
from earmark.errors import UnreadableAnswer
from earmark.redaction import map_texts

MOST_BYTES = 4 << 20
"""Of a reply; answers take kilobytes."""

MOST_CHARACTERS = 100_000
"""Of an answer that is kept."""

MOST_TOKENS = 10**9
"""A count above this is none."""

BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[{]|[]}]', re.DOTALL)
"""A string, as far as it goes, or a bracket outside of one."""


def read_json(raw: bytes, *, clean: Callable[[str], str] = str) -> Any:
    """The value in `raw`, every text of it cleaned; NaN, and numbers too long for one, are None.

    Raises:
        ValueError: it is not JSON.
    """
    text = raw.decode("utf-8-sig")
    try:
        return map_texts(_loads(text), clean)
    except RecursionError:
        return map_texts(_loads(_prune(text)), clean)


def _loads(text: str) -> Any:
    return json.loads(text, parse_int=_whole_number, parse_constant=lambda _: None)


def _whole_number(digits: str) -> int | None:
    return int(digits) if len(digits) <= 20 else None


def _prune(text: str) -> str:
    """`text` with null in place of what is nested too deep to be read."""
    kept: list[str] = []
    depth = start = 0
    for found in BRACKET.finditer(text):
        if found[0] in "[{":
            depth += 1
            if depth == DEEPEST:
                kept += [text[start : found.start()], "null"]
        elif found[0] in "]}":
            if depth == DEEPEST:
                start = found.end()
            depth -= 1
    return "".join(kept) + (text[start:] if depth < DEEPEST else "")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a reply says it took; None where it does not say, or says what cannot be."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    note: str = ""
    """What is odd about it, in a line."""

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Usage:
        """What `reply` says."""
        said = reply.get("usage")
        if said is None:
            return cls()
        counts = said if isinstance(said, dict) else {}
        names = ("prompt_tokens", "completion_tokens")
        taken, given = (_token_count(counts.get(name)) for name in names)
        if taken is not None and given is not None:
            return cls(taken, given)
        if any(counts.get(name) is not None for name in names) or not isinstance(said, dict):
            return cls(taken, given, "the server's usage makes no sense, so the most is counted")
        return cls(taken, given)


def _token_count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 <= value <= MOST_TOKENS else None


def read_reply(
    reply: Mapping[str, Any],
    request: Request,
    *,
    form: Form,
    latency: float = 0.0,
    note: str = "",
) -> Answer:
    """A chat reply as an answer, its text no longer than can be kept.

    Raises:
        UnreadableAnswer: if it holds no text, or not the JSON that was asked for; with its cost.
    """
    usage = Usage.of(reply)
    try:
        words, finish, cut = _words_of(reply)
        text, data = read_text(words, request, finish=finish)
    except UnreadableAnswer as error:
        error.prompt_tokens = usage.prompt_tokens
        error.completion_tokens = usage.completion_tokens
        raise
    model = reply.get("model")
    return Answer(
        text=text,
        model=model[:200] if isinstance(model, str) and model else request.model,
        data=data,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        latency=latency,
        form=form,
        finish=finish,
        note="; ".join(filter(None, (note, cut, usage.note))),
    )


def _words_of(reply: Mapping[str, Any]) -> tuple[str, str, str]:
    """The words of the first choice, why they end, and a note where they were cut here."""
    match reply.get("choices"):
        case [{"message": {**message}, **choice}, *_]:
            words = _joined(message.get("content"))
        case _:
            raise UnreadableAnswer(f"the server's reply holds no answer: {str(reply)[:60]}")
    if words is None:
        raise UnreadableAnswer(f"the server's reply holds no answer: {str(reply)[:60]}")
    finish = choice.get("finish_reason")
    finish = finish[:40] if isinstance(finish, str) and finish else "stop"
    if len(words) <= MOST_CHARACTERS:
        return words, finish, ""
    note = f"cut at {MOST_CHARACTERS:,} of its {len(words):,} characters"
    return words[:MOST_CHARACTERS], "length", note


def _joined(content: Any) -> str | None:
    """A message as text, whether it is a string or a list of parts; None where it is neither."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))
