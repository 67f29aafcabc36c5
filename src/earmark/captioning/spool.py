"""Requests that wait for a model server, on the disk: a killed process loses none of them.

picks ──▶ spool ──▶ the one worth most first ──▶ model
            └── full: the one worth least is dropped, and counted
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from earmark.captioning.request import Question, Request
from earmark.media import Frame
from earmark.media.atomic_file import write_whole
from earmark.timeline import Span

SPOOL = "spool"
"""In the folder of a run."""

MOST_REQUESTS = 1000
MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, order=True)
class SpooledRequest:
    worth: float
    """New actions expected."""
    identity: str
    path: Path
    size_bytes: int
    picked: float
    """Wall clock."""

    def read(self, question: Question) -> Request:
        """The request, with `question` where the stored one is the same in other words."""
        plain = json.loads(self.path.read_text(encoding="utf-8"))
        pictures = tuple(base64.b64decode(picture) for picture in plain["pictures"])
        times = tuple(plain["times"])
        frames = map(Frame.from_jpeg, pictures, times)
        return Request(
            recording=plain["recording"],
            span=Span(*plain["span"]),
            times=times,
            prompt=plain["prompt"],
            model=plain["model"],
            question=replace(Question.from_json(plain["question"]), blur=question.blur),
            tags=tuple(plain["tags"]),
            frames=tuple(frames),
            pictures=pictures,
            faces_blurred=plain["faces_blurred"],
        )


class Spool:
    """The requests of one folder; bounded in number and bytes. Safe to use from any thread."""

    def __init__(
        self, folder: Path, *, most_requests: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._most_requests, self._most_bytes = most_requests, most_bytes
        self._entries = {entry.identity: entry for entry in _stored(folder)}
        self._taken: set[str] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self._entries.values())

    def add(self, request: Request, *, worth: float, picked: float) -> list[SpooledRequest]:
        """Store a request with its pictures; returns those that were dropped for it."""
        identity = request.identity
        plain = {
            "worth": worth,
            "picked": picked,
            "recording": request.recording,
            "span": [request.span.start, request.span.end],
            "times": request.times,
            "prompt": request.prompt,
            "model": request.model,
            "question": request.question.to_json(),
            "tags": request.tags,
            "faces_blurred": request.faces_blurred,
            "pictures": [base64.b64encode(picture).decode() for picture in request.pictures],
        }
        path, text = self._folder / f"{identity}.json", json.dumps(plain)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
        with self._lock:
            self._entries[identity] = SpooledRequest(worth, identity, path, len(text), picked)
            dropped = []
            while len(self) > self._most_requests or self.size_bytes > self._most_bytes:
                waiting = [e for e in self._entries.values() if e.identity not in self._taken]
                if not waiting:
                    break
                dropped.append(min(waiting))
                del self._entries[dropped[-1].identity]
        for entry in dropped:
            entry.path.unlink(missing_ok=True)
        return dropped

    def take(self, count: int) -> list[SpooledRequest]:
        """Those worth most, which stay on the disk until they are `done`."""
        with self._lock:
            waiting = [e for e in self._entries.values() if e.identity not in self._taken]
            best = sorted(waiting, reverse=True)[:count]
            self._taken |= {entry.identity for entry in best}
        return best

    def put_back(self, identity: str) -> None:
        with self._lock:
            self._taken.discard(identity)

    def done(self, identity: str) -> None:
        with self._lock:
            self._taken.discard(identity)
            entry = self._entries.pop(identity, None)
        if entry:
            entry.path.unlink(missing_ok=True)


def spooled_about(folder: Path, recording: str) -> Iterator[Path]:
    """The files of requests about `recording`."""
    for path in folder.glob("*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["recording"] == recording:
            yield path


def _stored(folder: Path) -> Iterator[SpooledRequest]:
    for path in sorted(folder.glob("*.json")):
        plain: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        size = path.stat().st_size
        yield SpooledRequest(plain["worth"], path.stem, path, size, plain["picked"])
