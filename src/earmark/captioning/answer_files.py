"""Requests and answers in JSONL files: batches for a provider, and answers to replay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import NEWER_LENGTH_LIMIT, chat_body, read_reply, read_text
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected, EarmarkError, UnreadableAnswer
from earmark.media.atomic_file import replacing

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000

WindowKey = tuple[str, float, float]
ANSWER_FIELDS = frozenset(field.name for field in fields(Answer)) - {"evidence"}


def write_batch(
    requests: Iterable[Request],
    path: Path,
    *,
    most_requests: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
) -> list[Path]:
    """`name.jsonl` continues in `name-2.jsonl`; each file appears when it is complete."""
    paths: list[Path] = []
    lines = map(_batch_line, requests)
    line = next(lines, None)
    while line is not None:
        part = path if not paths else path.with_stem(f"{path.stem}-{len(paths) + 1}")
        with replacing(part) as scratch, scratch.open("w", encoding="utf-8", newline="\n") as file:
            size = count = 0
            while line is not None and count < most_requests:
                if count and size + len(line) > most_bytes:
                    break
                size, count = size + file.write(line), count + 1
                line = next(lines, None)
        paths.append(part)
    return paths


def _batch_line(request: Request) -> str:
    body = chat_body(request)
    body[NEWER_LENGTH_LIMIT] = body.pop("max_tokens")  # every batch API knows it
    entry = {
        "custom_id": request.identity,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": body,
    }
    return json.dumps(entry) + "\n"


def read_batch(
    paths: Iterable[Path], requests: Mapping[str, Request]
) -> tuple[dict[str, Answer | str], int, list[str]]:
    """The answer to each of `requests`, or why it failed, by identity; and the count of others.

    Frames are not needed. An answer in any file counts, whatever another file says. Lines that
    cannot be read are in the list; the others count.
    """
    outcomes: dict[str, Answer | str] = {}
    unknown, damaged = 0, list[str]()
    for path in paths:
        for _, entry in _read_jsonl(path):
            if isinstance(entry, EarmarkError):
                damaged.append(str(entry))
                continue
            identity = str(entry.get("custom_id"))
            if identity not in requests:
                unknown += 1
                continue
            outcome = _outcome(entry, requests[identity])
            if isinstance(outcome, Answer) or not isinstance(outcomes.get(identity), Answer):
                outcomes[identity] = outcome
    return outcomes, unknown, damaged


def _outcome(entry: Mapping[str, Any], request: Request) -> Answer | str:
    response = _as_object(entry.get("response"))
    status, body = response.get("status_code"), _as_object(response.get("body"))
    error = entry.get("error") or body.get("error")
    if error or status != 200:
        reason = error.get("message") if isinstance(error, dict) else error
        return f"the batch answered {status}: {reason or 'no reason given'}"
    try:
        return read_reply(body, request)
    except UnreadableAnswer as unreadable:
        return str(unreadable)


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Replay:
    """Gives the answers of a JSONL file, each line an object with a `text` and its request.

    A line is found by its `identity` (the same question about the same times) or, if it has none,
    by its `recording`, `start` and `end` (any question about the window).
    """

    answers: Mapping[str | WindowKey, Answer]
    model: str
    at_once: int | None = 1

    def check(self) -> None:
        if not self.answers:
            raise EarmarkError("the replay file holds no answers")

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        span = request.span
        key = _window_key(request.recording, span.start, span.end)
        answer = self.answers.get(request.identity) or self.answers.get(key)
        if answer is None:
            raise CallRejected(
                f"the replay file holds no answer for {request.recording} at "
                f"{span.start:g}-{span.end:g} s"
            )
        if answer.kind == "tags":
            return answer
        text, data = read_text(answer.text, request.question.schema, finish=answer.finish)
        return replace(answer, text=text, data=data)


def load_replay(path: Path, *, model: str = "replay") -> Replay:
    answers: dict[str | WindowKey, Answer] = {}
    for line, entry in _read_jsonl(path):
        if isinstance(entry, EarmarkError):
            raise entry
        try:
            values = {name: value for name, value in entry.items() if name in ANSWER_FIELDS}
            answer = Answer(**{"model": model, **values})
            counts = (answer.prompt_tokens, answer.completion_tokens)
            if not isinstance(answer.text, str) or not isinstance(answer.model, str):
                raise TypeError("text and model are text")
            if not all(isinstance(count, int | None) for count in counts):
                raise TypeError("tokens are whole numbers")
            if "identity" in entry:
                answers[str(entry["identity"])] = answer
            else:
                answers[_window_key(entry["recording"], entry["start"], entry["end"])] = answer
        except (KeyError, TypeError, ValueError) as error:
            raise EarmarkError(
                f"{path.name} line {line} lacks what an answer needs: a text, and an identity "
                f"or a recording, start and end"
            ) from error
    return Replay(answers, model)


def _window_key(recording: Any, start: Any, end: Any) -> WindowKey:
    return str(recording), round(float(start), 3), round(float(end), 3)


def _read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any] | EarmarkError]]:
    """The number of each line, from 1, and its object, or why it has none."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = list(file)  # not `splitlines`, which also splits at Unicode separators
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EarmarkError(f"cannot read {path}: {why}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line.removeprefix("\ufeff"))  # of a file that was joined to another
        except (ValueError, RecursionError) as error:  # not JSON, or nested too deep
            entry = EarmarkError(f"{path.name} line {number} is not JSON: {error}")
        if not isinstance(entry, dict | EarmarkError):
            entry = EarmarkError(f"{path.name} line {number} is JSON but not an object")
        yield number, entry
