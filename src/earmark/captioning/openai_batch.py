"""OpenAI Batch files: requests out, results back in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import chat_body, read_reply
from earmark.captioning.openai_endpoint import NEWER_LENGTH_LIMIT
from earmark.captioning.replay import read_jsonl
from earmark.captioning.request import Answer, Request
from earmark.errors import UnreadableAnswer
from earmark.media.atomic_file import replacing

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""What OpenAI takes in one batch file."""


@dataclass(frozen=True, slots=True)
class BatchResults:
    """What became of the requests of a batch; every one of them is in exactly one of three."""

    answers: Mapping[str, Answer]
    """By identity."""
    failures: Mapping[str, str]
    """Reasons, by identity."""
    missing: Sequence[str]
    """Identities that were asked and are in no result."""
    unknown: Sequence[str]
    """Identities in the results that were not asked."""


def write_batch(
    requests: Iterable[Request],
    path: Path,
    *,
    most_requests: int = MOST_REQUESTS,
    most_bytes: int = MOST_BYTES,
) -> list[Path]:
    """Files that ask `requests`, each within the limits of one batch.

    The first is `path`; `name.jsonl` goes on in `name-2.jsonl`, `name-3.jsonl`. Requests are taken
    one at a time, so that only one holds its frames. Each file appears when it is whole.
    """
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
    """One request of a batch file, found again by its identity."""
    asked = chat_body(request, form="images")
    asked[NEWER_LENGTH_LIMIT] = asked.pop("max_tokens")  # known to all that take batches
    entry = {
        "custom_id": request.identity,
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": asked,
    }
    return json.dumps(entry) + "\n"


def read_batch(paths: Iterable[Path], requests: Iterable[Request]) -> BatchResults:
    """What the result and error files of a batch say about `requests`, frames not needed.

    A request answered in any file is answered, whatever another file says of it.
    """
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
    """The answer in one line of results, or the reason there is none."""
    response = entry.get("response") or {}
    status = response.get("status_code")
    error = entry.get("error") or (response.get("body") or {}).get("error")
    if error or status != 200:
        said = error.get("message") if isinstance(error, dict) else error
        return f"the batch answered {status}: {said or 'no reason given'}"
    try:
        return read_reply(response.get("body") or {}, request, form="images")
    except UnreadableAnswer as unreadable:
        return str(unreadable)
