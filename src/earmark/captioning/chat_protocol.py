"""The OpenAI chat protocol: request bodies and replies, parsed within bounds of size and depth."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from earmark.captioning.answer_schema import (
    SCHEMA_TITLE,
    YES_OR_NO_SCHEMA,
    read_activity,
    read_yes_or_no,
    tell_yes_or_no,
)
from earmark.captioning.request import Answer, Form, Picture, Request
from earmark.errors import UnreadableAnswer
from earmark.redaction import map_texts
from earmark.timeline import Span, format_clock

CLIP_RATE = 25
"""Frames a second declared for a clip whose frames are sent as a video. The server learns their
times from their places on this grid, exact to 0.02 s."""

MOST_LEVELS = 64

MOST_BYTES = 4 << 20

MOST_CHARACTERS = 100_000

MOST_TOKENS = 10**9


def chat_body(request: Request, *, form: Form) -> dict[str, Any]:
    if not request.pictures:
        raise ValueError("a vision model needs frames to look at; see Request.showing")
    show = video_parts if form == "video" else image_parts
    content = [*show(request.pictures), {"type": "text", "text": request.text}]
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": request.answer_tokens,
    }
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.schema is not None:
        body["response_format"] = response_format(request.schema)
    if form == "video":
        body |= video_fields(request.pictures, request.span)
    return body


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


def image_parts(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    urls = [f"data:image/jpeg;base64,{_base64(picture)}" for picture in pictures]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return timed_parts(
        [(picture.time, part) for picture, part in zip(pictures, parts, strict=True)]
    )


def timed_parts(shown: Sequence[tuple[float, dict[str, Any]]]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for time, part in shown:
        if len(shown) > 1:
            parts.append({"type": "text", "text": f"{format_clock(time, hours=True)}:"})
        parts.append(part)
    return parts


def video_parts(pictures: Sequence[Picture]) -> list[dict[str, Any]]:
    url = f"data:video/jpeg;base64,{','.join(map(_base64, pictures))}"
    return [{"type": "video_url", "video_url": {"url": url}}]


def video_fields(pictures: Sequence[Picture], span: Span) -> dict[str, Any]:
    """The times of the pictures, in the fields that vLLM reads.

    The clip is the window; picture `n` of it is shown at `n / CLIP_RATE` from its start.
    """
    total = max(1, math.ceil(span.duration * CLIP_RATE))
    places = [round((picture.time - span.start) * CLIP_RATE) for picture in pictures]
    clip = {
        "fps": CLIP_RATE,
        "frames_indices": [min(total - 1, max(0, place)) for place in places],
        "total_num_frames": total,
        "duration": span.duration,
        "do_sample_frames": False,
    }
    return {"media_io_kwargs": {"video": clip}}


def _base64(picture: Picture) -> str:
    return base64.b64encode(picture.jpeg).decode("ascii")


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


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens a reply reports; None if it reports none, or an impossible count."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    note: str = ""

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Usage:
        usage = reply.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        reported = [counts.get("prompt_tokens"), counts.get("completion_tokens")]
        prompt, completion = map(_token_count, reported)
        is_odd = usage != counts if reported == [None, None] else None in (prompt, completion)
        if usage is not None and is_odd:
            note = "the server's usage makes no sense, so the most is counted"
            return cls(prompt, completion, note)
        return cls(prompt, completion)


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
    usage = Usage.of(reply)
    try:
        words, finish, cut = first_choice_text(reply)
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


def read_text(text: str, request: Request, *, finish: str = "stop") -> tuple[str, Any]:
    """Only the schema's type `object` and its required names are checked."""
    words = text.strip()
    if not words:
        raise UnreadableAnswer(f"the model answered nothing{_truncation_hint(finish)}")
    if request.schema is None:
        return words, None
    try:
        data = parse_answer_json(words, request.schema)
    except (ValueError, RecursionError) as error:  # not JSON, or a number of thousands of digits
        if request.schema.get("title") == SCHEMA_TITLE:  # a server without schemas
            data = read_activity(words)
            return data["caption"], data
        if request.schema != YES_OR_NO_SCHEMA or not (reading := read_yes_or_no(words)):
            raise UnreadableAnswer(
                f"the answer is not JSON, as the schema asks{_truncation_hint(finish)}: "
                f"{words[:60]!r}"
            ) from error
        data = {"seen": reading[0], "what": reading[1]}
    if request.schema == YES_OR_NO_SCHEMA:
        if (text_and_data := tell_yes_or_no(data)) is None:
            raise UnreadableAnswer(f"the answer is neither yes nor no: {words[:60]!r}")
        return text_and_data
    caption = data.get("caption") if request.schema.get("title") == SCHEMA_TITLE else None
    return caption.strip() or words if isinstance(caption, str) else words, data


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
    depth, level = 0, [value]
    while level := [inner for inner in level if isinstance(inner, dict | list)]:
        depth += 1
        level = list(chain(*(box.values() if isinstance(box, dict) else box for box in level)))
    return depth


def _truncation_hint(finish: str) -> str:
    return " (cut off: allow more `answer_tokens`)" if finish == "length" else ""
