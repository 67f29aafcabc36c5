from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from earmark.captioning.chat_protocol import read_text
from earmark.captioning.request import Answer, Request
from earmark.errors import CallRejected, EarmarkError

WindowKey = tuple[str, float, float]
ANSWER_FIELDS = frozenset(field.name for field in fields(Answer)) - {"evidence"}


@dataclass(frozen=True, slots=True)
class Replay:
    """Gives the answers of a JSONL file, each line an object with a `text` and its request.

    A line is found by its `identity` (the same question about the same times) or, if it has none,
    by its `recording`, `start` and `end` (any question about the window).
    """

    by_identity: Mapping[str, Answer]
    by_window: Mapping[WindowKey, Answer]
    model: str = "replay"
    at_once: int | None = 1

    @classmethod
    def load(cls, path: Path, *, model: str = "replay") -> Replay:
        by_identity: dict[str, Answer] = {}
        by_window: dict[WindowKey, Answer] = {}
        for line, entry in read_jsonl(path):
            try:
                values = {name: value for name, value in entry.items() if name in ANSWER_FIELDS}
                answer = Answer(**{"model": model, **values})
                counts = (answer.prompt_tokens, answer.completion_tokens)
                if not isinstance(answer.text, str) or not isinstance(answer.model, str):
                    raise TypeError("text and model are text")
                if not all(isinstance(count, int | None) for count in counts):
                    raise TypeError("tokens are whole numbers")
                if "identity" in entry:
                    by_identity[str(entry["identity"])] = answer
                else:
                    key = _window_key(entry["recording"], entry["start"], entry["end"])
                    by_window[key] = answer
            except (KeyError, TypeError, ValueError) as error:
                raise EarmarkError(
                    f"{path.name} line {line} lacks what an answer needs: a text, and an identity "
                    f"or a recording, start and end"
                ) from error
        return cls(by_identity, by_window, model)

    def check(self) -> None:
        if not self.by_identity and not self.by_window:
            raise EarmarkError("the replay file holds no answers")

    def __call__(self, request: Request, *, timeout: float) -> Answer:  # noqa: ARG002
        span = request.span
        key = _window_key(request.recording, span.start, span.end)
        answer = self.by_identity.get(request.identity) or self.by_window.get(key)
        if answer is None:
            raise CallRejected(
                f"the replay file holds no answer for {request.recording} at "
                f"{span.start:g}-{span.end:g} s"
            )
        if answer.kind == "tags":
            return answer
        text, data = read_text(answer.text, request, finish=answer.finish)
        return replace(answer, text=text, data=data)


def read_jsonl(path: Path) -> list[tuple[int, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8-sig") as file:
            lines = list(file)  # not `splitlines`, which also splits at Unicode separators
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise EarmarkError(f"cannot read {path}: {why}") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:  # not JSON, or nested too deep
            raise EarmarkError(f"{path.name} line {number} is not JSON: {error}") from error
        if not isinstance(entry, dict):
            raise EarmarkError(f"{path.name} line {number} is JSON but not an object")
        entries.append((number, entry))
    return entries


def _window_key(recording: Any, start: Any, end: Any) -> WindowKey:
    return str(recording), round(float(start), 3), round(float(end), 3)
