"""A small server with the OpenAI chat API that answers, or fails, as a test scripts it.

    with model_server("500", "429:0", then="ok") as server:
        earmark("caption", clip, "--model", server.model)
        server.requests         # the questions so far, in the order of arrival; no probes

Each behaviour in the script serves one chat request; after the script every request gets `then`.

| behaviour        | what the server does                                        |
|------------------|-------------------------------------------------------------|
| `ok`             | answers; the text depends on the request                    |
| `ok:TEXT`        | answers with TEXT                                           |
| `500`, `429:S` … | replies with that status, and with `Retry-After: S`         |
| `slow:S`         | answers after S seconds                                     |
| `hold`           | answers once `release` is called                            |
| `html`           | replies 200 with a page that is no JSON                     |
| `empty`          | answers without any text                                    |
| `drop`           | closes the connection without a reply                       |
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NAME = "tiny"
PROMPT_TOKENS, COMPLETION_TOKENS = 100, 10
"""What every answer is said to cost."""


@dataclass(frozen=True)
class ChatRequest:
    """One chat request as it arrived."""

    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @cached_property
    def parts(self) -> list[Mapping[str, Any]]:
        """The parts of all messages; a message of plain text is one part."""
        parts: list[Mapping[str, Any]] = []
        for message in self.body["messages"]:
            content = message["content"]
            parts += [{"type": "text", "text": content}] if isinstance(content, str) else content
        return parts

    @property
    def prompt(self) -> str:
        """All text of the request."""
        return "\n".join(part["text"] for part in self.parts if part["type"] == "text")

    @property
    def pictures(self) -> list[bytes]:
        """The encoded pictures of the request."""
        addresses = [part["image_url"]["url"] for part in self.parts if part["type"] == "image_url"]
        return [base64.b64decode(address.partition(",")[2]) for address in addresses]

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema that the answer must have."""
        wanted = self.body.get("response_format") or {}
        schema: Mapping[str, Any] | None = wanted.get("json_schema", {}).get("schema")
        return schema

    @property
    def digest(self) -> str:
        """Equal for the same question about the same pictures."""
        asked = {"parts": self.parts, "schema": self.schema}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]


@dataclass
class ModelServer:
    """A running server."""

    script: list[str]
    then: str = "ok"
    key: str = ""
    """The bearer token that it demands, if any."""
    say: Callable[[ChatRequest], str] | None = None
    """Gives the text of an `ok`; otherwise `default_text` does."""
    url: str = ""
    requests: list[ChatRequest] = field(default_factory=list)
    peak: int = 0
    """The largest number of requests in flight at once."""

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.releases = threading.Semaphore(0)
        self.in_flight = 0

    @property
    def model(self) -> str:
        """The value of `--model`."""
        return f"{self.url}#{NAME}"

    @property
    def count(self) -> int:
        """Chat requests so far."""
        return len(self.requests)

    def release(self, count: int = 1) -> None:
        """Answer so many of the requests that are on hold."""
        self.releases.release(count)

    def wait_for(self, count: int, *, seconds: float = 60.0) -> None:
        """Wait until so many chat requests have arrived."""
        deadline = time.monotonic() + seconds
        while self.count < count:
            assert time.monotonic() < deadline, f"{self.count} of {count} requests arrived"
            time.sleep(0.01)

    def arrive(self, request: ChatRequest) -> str:
        """Note a request; returns how to behave."""
        with self.lock:
            number = len(self.requests)
            self.requests.append(request)
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
        return self.script[number] if number < len(self.script) else self.then

    def leave(self) -> None:
        """Note that a request is done with."""
        with self.lock:
            self.in_flight -= 1


def default_text(request: ChatRequest) -> str:
    """A caption, or a JSON object that fits the schema of the request."""
    caption = f"A hand knocks on wood, seen as {request.digest}."
    return caption if request.schema is None else json.dumps(fill(request.schema, caption))


def fill(schema: Mapping[str, Any], text: str) -> Any:
    """A value that fits the schema, with `text` for every string."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: fill(part, text) for name, part in schema.get("properties", {}).items()}
        case "array":
            return []
        case "boolean":
            return True
        case "integer" | "number":
            return 1
    return text


def completion(text: str) -> dict[str, Any]:
    """A chat completion that says `text`."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": NAME,
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
        ],
        "usage": {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": COMPLETION_TOKENS,
            "total_tokens": PROMPT_TOKENS + COMPLETION_TOKENS,
        },
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _HTTPServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def do_GET(self) -> None:
        if not self._is_allowed():
            self._reply(401, {"error": {"message": "wrong key"}})
        elif self.path.partition("?")[0] == "/v1/models":
            self._reply(200, {"object": "list", "data": [{"id": NAME, "object": "model"}]})
        else:
            self._reply(404, {"error": {"message": "no such page"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        request = ChatRequest(body, dict(self.headers))
        if body.get("max_tokens") == 1:  # a probe of what the server takes, not a question
            self._behave("ok", request)
            return
        model_server = self.server.model_server
        behaviour = model_server.arrive(request)
        try:
            self._behave(behaviour, request)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            model_server.leave()

    def _is_allowed(self) -> bool:
        key = self.server.model_server.key
        return not key or self.headers.get("Authorization") == f"Bearer {key}"

    def _behave(self, behaviour: str, request: ChatRequest) -> None:
        name, _, detail = behaviour.partition(":")
        if not self._is_allowed():
            self._reply(401, {"error": {"message": "wrong key"}})
        elif name.isdigit():
            headers = {"Retry-After": detail} if detail else {}
            self._reply(int(name), {"error": {"message": f"scripted {name}"}}, headers)
        elif name == "html":
            self._reply_bytes(200, b"<html>Please log in</html>", "text/html")
        elif name == "drop":
            self.close_connection = True
        else:
            if name == "slow":
                time.sleep(float(detail))
            elif name == "hold":
                self.server.model_server.releases.acquire()
            say = self.server.model_server.say or default_text
            given = detail if name == "ok" and detail else say(request)
            self._reply(200, completion("" if name == "empty" else given))

    def _reply(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        self._reply_bytes(status, json.dumps(value).encode(), "application/json", headers)

    def _reply_bytes(
        self, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class _HTTPServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, model_server: ModelServer, port: int) -> None:
        self.model_server = model_server
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away needs no traceback."""


@contextmanager
def model_server(
    *script: str,
    then: str = "ok",
    key: str = "",
    say: Callable[[ChatRequest], str] | None = None,
    port: int = 0,
) -> Iterator[ModelServer]:
    """A server that runs in a thread until the block ends."""
    running = ModelServer(list(script), then, key, say)
    with _HTTPServer(running, port) as server:
        running.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield running
        finally:
            with suppress(ValueError):
                running.release(1000)
            server.shutdown()
            thread.join()
