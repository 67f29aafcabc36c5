"""A server that gets webhooks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 120.0


class Receiver(ThreadingHTTPServer):
    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.statuses, self.received = list(statuses), list[tuple[dict[str, str], bytes]]()
        self.go_on = threading.Event()
        self.go_on.set()
        self.address = f"http://127.0.0.1:{self.server_address[1]}/hooks/hunter2"

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.received]


class Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.go_on.wait(PATIENCE)
        self.server.received.append((dict(self.headers), body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def receiver(*statuses: int) -> Iterator[Receiver]:
    with Receiver(*statuses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
