from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import chat_body, read_reply
from earmark.captioning.openai_captioner import NEWER_LENGTH_LIMIT
from earmark.captioning.replay import read_jsonl
from earmark.captioning.request import Answer, Request
from earmark.errors import UnreadableAnswer
from earmark.media.atomic_file import replacing

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000


@dataclass(frozen=True, slots=True)
class BatchResults:
    answers: Mapping[str, Answer]
    failures: Mapping[str, str]
    missing: Sequence[str]
    unknown: Sequence[str]


def write_batch(
    requests: Iterable[Request],
    path: Path,
    *,
    most_requests: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
) -> list[Path]:
    """`name.jsonl` continues in `name-2.jsonl`; each file appears when it is complete."""
    paths: list[Path] = []
    lines = map(batch_line, requests)
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


def batch_line(request: Request) -> str:
    asked = chat_body(request, form="images")
    asked[NEWER_LENGTH_LIMIT] = asked.pop("max_tokens")  # every batch API knows it
    entry = {
        "custom_id": request.identity,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": asked,
    }
    return json.dumps(entry) + "\n"


def read_batch(paths: Iterable[Path], requests: Iterable[Request]) -> BatchResults:
    """Frames are not needed. An answer in any file counts, whatever another file says."""
    asked = {request.identity: request for request in requests}
    answers: dict[str, Answer] = {}
    failures: dict[str, str] = {}
    unknown: list[str] = []
    for path in paths:
        for _, entry in read_jsonl(path):
            identity = str(entry.get("custom_id"))
            if identity not in asked:
                unknown.append(identity)
                continue
            outcome = _outcome(entry, asked[identity])
            if isinstance(outcome, Answer):
                answers[identity] = outcome
            else:
                failures[identity] = outcome
    failures = {name: reason for name, reason in failures.items() if name not in answers}
    missing = [name for name in asked if name not in answers and name not in failures]
    return BatchResults(answers, failures, missing, unknown)


def _outcome(entry: Mapping[str, Any], request: Request) -> Answer | str:
    response = _as_object(entry.get("response"))
    status, body = response.get("status_code"), _as_object(response.get("body"))
    error = entry.get("error") or body.get("error")
    if error or status != 200:
        reason = error.get("message") if isinstance(error, dict) else error
        return f"the batch answered {status}: {reason or 'no reason given'}"
    try:
        return read_reply(body, request, form="images")
    except UnreadableAnswer as unreadable:
        return str(unreadable)


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
