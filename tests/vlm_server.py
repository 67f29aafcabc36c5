"""llama.cpp's own server in a process of its own, with a very small random Qwen3-VL.

    with vlm_server(folder) as url:         # http://127.0.0.1:PORT/v1, model "tiny"
    with vlm_server(folder, pictures=False) as url:     # the same without its picture encoder
    with vlm_server(folder, says="zebra") as url:       # answers "zebra" where a schema has strings
    with relay(url) as (passed, replies):               # the same server, and what it was asked

Ready in a fraction of a second; stopped at the end of the block, or when its parent dies.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from server_process import server_process
from tiny_vlm import write_gguf

MODEL = "tiny"


@contextmanager
def vlm_server(folder: Path, *, pictures: bool = True, says: str = "") -> Iterator[str]:
    """The address of a server whose weights are made in `folder` unless they are there."""
    model, encoder = folder / "tiny.gguf", folder / "tiny-mmproj.gguf"
    if not encoder.exists():
        write_gguf(folder, says=says)
    command = [sys.executable, str(Path(__file__).resolve()), str(model)]
    command += ["--mmproj", str(encoder)] if pictures else []
    with server_process(command) as url:
        yield url


@dataclass(frozen=True)
class Exchange:
    """A question and what became of it."""

    identity: str
    asked: dict[str, Any]
    status: int
    reply: dict[str, Any]

    @property
    def shows_pictures(self) -> bool:
        """Whether it is about a window, and not a question in words or a probe."""
        return bool(self.identity) and "image_url" in json.dumps(self.asked)


@contextmanager
def relay(url: str) -> Iterator[tuple[str, list[Exchange]]]:
    """An address that passes all on to the server at `url`, and the chats that passed."""
    chats: list[Exchange] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass(httpx.get(url.removesuffix("/v1") + self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = httpx.post(url.removesuffix("/v1") + self.path, content=body, timeout=600)
            identity = self.headers.get("X-Request-Id", "")
            asked = json.loads(body)
            chats.append(Exchange(identity, asked, answer.status_code, answer.json()))
            self._pass(answer)

        def _pass(self, answer: httpx.Response) -> None:
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", chats
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    """Serve until the parent closes our standard input."""
    import xllamacpp

    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--mmproj")
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    if options.mmproj:
        params.mmproj.path = options.mmproj
    params.model_alias = {MODEL}
    params.n_ctx = 8192
    params.n_parallel = 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
