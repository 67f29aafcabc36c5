"""An OpenAI-compatible transcription server in a process of its own, which says what it is told.

with transcription_server({"text": "hello", "words": [...]}) as url:    # http://127.0.0.1:PORT/v1
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from server_process import server_process


@contextmanager
def transcription_server(reply: dict[str, Any], *, status: int = 200) -> Iterator[str]:
    """The address of a server that answers every WAV file with `reply`."""
    command = [sys.executable, __file__, json.dumps(reply), str(status)]
    with server_process(command) as url:
        yield url


class Handler(BaseHTTPRequestHandler):
    """Answers a form with a WAV file and a model; refuses everything else."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        is_right = (
            self.path == "/v1/audio/transcriptions"
            and b"RIFF" in body
            and b'name="model"' in body
            and b"verbose_json" in body
            and body.count(b'name="timestamp_granularities[]"') == 2
        )
        answer = sys.argv[1].encode() if is_right else b'{"error": {"message": "not a form"}}'
        self.send_response(int(sys.argv[2]) if is_right else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"http://127.0.0.1:{server.server_port}/v1\n")
    sys.stdout.flush()
    server.serve_forever()
