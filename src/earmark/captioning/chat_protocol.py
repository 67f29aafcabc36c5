"""The OpenAI chat protocol: request bodies and replies, parsed within bounds of size and depth."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from earmark.captioning.answer_schema import (
    SCHEMA_TITLE,
    YES_OR_NO_SCHEMA,
    read_activity,
    read_yes_or_no,
    tell_yes_or_no,
)
from earmark.captioning.request import Answer, Request
from earmark.errors import UnreadableAnswer
from earmark.redaction import map_texts
from earmark.timeline import format_clock

MOST_LEVELS = 64
MOST_BYTES = 4 << 20
MOST_CHARACTERS = 100_000
MOST_TOKENS = 10**9
NEWER_LENGTH_LIMIT = "max_completion_tokens"
"""The name of `max_tokens` for OpenAI's newer models; they refuse the old one and say so."""


def chat_body(request: Request) -> dict[str, Any]:
    if not request.pictures:
        raise ValueError("a vision model needs frames to look at; see Request.showing")
    encoded = (base64.b64encode(picture).decode("ascii") for picture in request.pictures)
    urls = [f"data:image/jpeg;base64,{text}" for text in encoded]
    content = chat_content(request, [{"type": "image_url", "image_url": {"url": u}} for u in urls])
    question = request.question
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": question.answer_tokens,
    }
    if question.temperature is not None:
        body["temperature"] = question.temperature
    if question.schema is not None:
        body["response_format"] = response_format(question.schema)
    return body


def chat_content(request: Request, pictures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pictures, each after its time if there are several, and the prompt."""
    content: list[dict[str, Any]] = []
    for frame, picture in zip(request.frames, pictures, strict=True):
        if len(pictures) > 1:
            time = f"{format_clock(frame.time, hours=True)}:"
            content.append({"type": "text", "text": time})
        content.append(picture)
    return [*content, {"type": "text", "text": request.text}]


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's servers refuse `strict` if an object may hold more or fewer names than it lists."""
    answer = {"name": "answer", "strict": _is_strict(schema), "schema": dict(schema)}
    return {"type": "json_schema", "json_schema": answer}


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    names, required = schema.get("properties"), schema.get("required")
    if isinstance(names, Mapping):
        needs_all = isinstance(required, list) and all(name in required for name in names)
        if not needs_all or schema.get("additionalProperties") is not False:
            return False
    return all(map(_is_strict, schema.values()))


def read_json(raw: bytes, *, clean: Callable[[str], str] = str) -> Any:
    """NaN and huge integers are None; `ValueError` if it is not JSON, or nested too deep."""
    try:
        value = json.loads(
            raw.decode("utf-8-sig"),
            parse_int=lambda digits: int(digits) if len(digits) <= 20 else None,
            parse_constant=lambda _: None,
        )
        return map_texts(value, clean)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def token_usage(reply: Mapping[str, Any]) -> tuple[int | None, int | None, str]:
    """Prompt and completion tokens that a reply reports, and a note if they make no sense.

    None if it reports none, or an impossible count.
    """
    usage = reply.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    reported = [counts.get("prompt_tokens"), counts.get("completion_tokens")]
    prompt, completion = (
        count if type(count) is int and 0 <= count <= MOST_TOKENS else None for count in reported
    )
    is_odd = usage != counts if reported == [None, None] else None in (prompt, completion)
    note = "the server's usage makes no sense, so the most is counted"
    return prompt, completion, note if usage is not None and is_odd else ""


def read_reply(
    reply: Mapping[str, Any],
    request: Request,
    *,
    latency: float = 0.0,
    note: str = "",
) -> Answer:
    prompt_tokens, completion_tokens, usage_note = token_usage(reply)
    try:
        words, finish, cut = first_choice_text(reply)
        text, data = read_text(words, request.question.schema, finish=finish)
    except UnreadableAnswer as error:
        error.prompt_tokens, error.completion_tokens = prompt_tokens, completion_tokens
        raise
    model = reply.get("model")
    return Answer(
        text=text,
        model=model[:200] if isinstance(model, str) and model else request.model,
        data=data,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        latency=latency,
        finish=finish,
        note="; ".join(filter(None, (note, cut, usage_note))),
    )


def first_choice_text(reply: Mapping[str, Any]) -> tuple[str, str, str]:
    words: str | None = None
    choice: dict[Any, Any] = {}
    match reply.get("choices"):
        case [{"message": {**message}, **choice}, *_]:
            words = _join_parts(message.get("content"))
    if words is None:
        raise UnreadableAnswer(f"the server's reply holds no answer: {str(reply)[:60]}")
    finish = choice.get("finish_reason")
    finish = finish[:40] if isinstance(finish, str) and finish else "stop"
    if len(words) <= MOST_CHARACTERS:
        return words, finish, ""
    note = f"cut at {MOST_CHARACTERS:,} of its {len(words):,} characters"
    return words[:MOST_CHARACTERS], "length", note


def _join_parts(content: Any) -> str | None:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    texts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(text for text in texts if isinstance(text, str))


def read_text(
    text: str, schema: Mapping[str, Any] | None, *, finish: str = "stop"
) -> tuple[str, Any]:
    """Only the schema's type `object` and its required names are checked."""
    words = text.strip()
    hint = " (cut off: allow more `answer_tokens`)" if finish == "length" else ""
    if not words:
        raise UnreadableAnswer(f"the model answered nothing{hint}")
    if schema is None:
        return words, None
    try:
        data = parse_answer_json(words, schema)
    except (ValueError, RecursionError) as error:  # not JSON, or a number of thousands of digits
        data = _read_plain_text(words, schema)
        if data is None:
            raise UnreadableAnswer(
                f"the answer is not JSON, as the schema asks{hint}: {words[:60]!r}"
            ) from error
    if schema == YES_OR_NO_SCHEMA:
        if (text_and_data := tell_yes_or_no(data)) is None:
            raise UnreadableAnswer(f"the answer is neither yes nor no: {words[:60]!r}")
        return text_and_data
    caption = data.get("caption") if schema.get("title") == SCHEMA_TITLE else None
    return caption.strip() or words if isinstance(caption, str) else words, data


def _read_plain_text(words: str, schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answer of a server without schemas."""
    if schema.get("title") == SCHEMA_TITLE:
        return read_activity(words)
    if schema == YES_OR_NO_SCHEMA and (reading := read_yes_or_no(words)):
        return {"seen": reading[0], "what": reading[1]}
    return None


def parse_answer_json(words: str, schema: Mapping[str, Any]) -> Any:
    if words.startswith("```") and words.endswith("```"):
        words = words[3:-3].removeprefix("json")
    data = json.loads(words)
    if schema.get("type", "object") == "object" and not isinstance(data, dict):
        raise UnreadableAnswer("the answer is JSON but not an object")
    if _depth(data) > MOST_LEVELS:
        raise UnreadableAnswer(f"the answer is JSON nested more than {MOST_LEVELS} deep")
    names = schema.get("required", ()) if isinstance(data, dict) else ()
    missing = [name for name in names if name not in data]
    if missing:
        raise UnreadableAnswer(f"the answer lacks {', '.join(missing)}")
    return data


def _depth(value: Any) -> int:
    # Level by level: what `json` can still read is too deep for a function that calls itself.
    depth, level = 0, [value]
    while level := [inner for inner in level if isinstance(inner, dict | list)]:
        depth += 1
        level = list(chain(*(box.values() if isinstance(box, dict) else box for box in level)))
    return depth
