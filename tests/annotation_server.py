"""A server that speaks the OpenAI chat API and answers from annotations, in a process of its own.

with annotation_server([Span(10, 18)]) as server:       # yes to windows that touch it
with annotation_server(reply='{"sentences": []}') as server:    # always the same
    server.url, server.asked()
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from earmark import Span
from server_process import server_process

MODEL = "played"


@dataclass(frozen=True)
class AnnotationServer:
    """A running server."""

    url: str

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of all chat requests so far."""
        with urllib.request.urlopen(f"{self.url}/asked") as answer:
            return list(json.load(answer))


@contextmanager
def annotation_server(
    spans: Sequence[Span] = (), *, reply: str = "", answer: str = ""
) -> Iterator[AnnotationServer]:
    """Answers yes where the window in the prompt touches one of `spans`, or `reply` to all.

    What names no window is answered with `answer`.
    """
    spoken = {"reply": reply, "answer": answer}
    told = json.dumps({"spans": [(span.start, span.end) for span in spans], **spoken})
    with server_process([sys.executable, __file__, told]) as port:
        yield AnnotationServer(f"http://127.0.0.1:{port}/v1")


def _seconds(clock: str) -> float:
    hours, minutes, seconds = clock.split(":")
    return 3600 * int(hours) + 60 * int(minutes) + float(seconds)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    told: dict[str, Any]
    asked: list[dict[str, Any]] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self._send(self.asked if self.path.endswith("asked") else {"data": [{"id": MODEL}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        said = self.told["reply"] or self._look(json.dumps(body["messages"]))
        message = {"role": "assistant", "content": said}
        self._send(
            {
                "model": MODEL,
                "choices": [{"message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
            }
        )

    def _look(self, text: str) -> str:
        found = re.search(r"from (\d+:\d+:[\d.]+\d) to (\d+:\d+:[\d.]+\d)", text)
        if not found:
            return str(self.told["answer"])
        start, end = map(_seconds, found.groups())
        seen = any(start < last and first < end for first, last in self.told["spans"])
        return json.dumps({"seen": seen, "what": "a drill turns" if seen else ""})

    def _send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    _Handler.told = json.loads(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.serve_forever()
