"""The server of `fault_server`, in a thread of the test: it also shows what it was asked.

    with model_server("500", "429:0", then="ok") as server:
        earmark("caption", clip, "--model", server.model)
        server.requests         # the questions so far, in the order of arrival; no probes

`ok` answers with a text that depends on the request, unless the script gives one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from fault_server import FaultHTTPServer, Handler, Script, completion

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
class ModelServer(Script):
    """A running server."""

    say: Callable[[ChatRequest], str] | None = None
    """Gives the text of an `ok`; otherwise `default_text` does."""
    url: str = ""
    requests: list[ChatRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.arrivals = threading.Lock()

    @property
    def model(self) -> str:
        """The value of `--model`."""
        return f"{self.url}#{self.name}"

    @property
    def count(self) -> int:
        """Chat requests so far."""
        return len(self.requests)

    def next(self, headers: Mapping[str, str], body: dict[str, Any]) -> str:
        if body.get("max_tokens") == 1:  # a probe of what the server takes, not a question
            with self.lock:
                self.in_flight += 1
            return "ok"
        with self.arrivals:
            self.requests.append(ChatRequest(body, dict(headers)))
            return super().next(headers, body)

    def wait_for(self, count: int, *, seconds: float = 60.0) -> None:
        """Wait until so many chat requests have arrived."""
        deadline = time.monotonic() + seconds
        while self.count < count:
            assert time.monotonic() < deadline, f"{self.count} of {count} requests arrived"
            time.sleep(0.01)


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


class _Handler(Handler):
    def answer(self, name: str, detail: str, body: dict[str, Any]) -> str:
        if name in ("ok", "slow", "hold") and not (name == "ok" and detail):
            request = ChatRequest(body, dict(self.headers))
            return json.dumps(completion((self.server.script.say or default_text)(request)))
        return super().answer(name, detail, body)


@contextmanager
def model_server(
    *script: str,
    then: str = "ok",
    key: str = "",
    say: Callable[[ChatRequest], str] | None = None,
    port: int = 0,
) -> Iterator[ModelServer]:
    """A server that runs in a thread until the block ends."""
    running = ModelServer(list(script), then, key=key, name="tiny", say=say)
    with FaultHTTPServer(running, handler=_Handler, port=port) as server:
        running.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield running
        finally:
            running.release(1000)
            server.shutdown()
            thread.join()
