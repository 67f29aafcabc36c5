"""A server that speaks the OpenAI chat API and misbehaves as scripted, in a process of its own.

    with fault_server("429:2", "500", "ok") as server:
        server.url          # http://127.0.0.1:PORT/v1
        server.count()      # chat requests it was asked so far
        server.asked()      # for each: the behaviour, the request's id, when it came
        server.release(2)   # lets two requests that are held be answered

A script is a list of behaviours, one a chat request, in the order they arrive; once it is used up
every request is answered like `then`.

| behaviour     | what happens                                                        |
|---------------|---------------------------------------------------------------------|
| `ok`          | an answer after `latency` seconds                                    |
| `ok:TEXT`     | the same, saying TEXT                                                |
| `429`, `503`… | that status; `429:VALUE` adds `Retry-After: VALUE`                   |
| `slow:S`      | an answer after S seconds                                            |
| `cut`         | half of an answer, then the connection is closed                     |
| `drop`        | the connection is closed before a byte is sent                       |
| `malformed`   | status 200, JSON that breaks off                                     |
| `html`        | status 200, a page                                                   |
| `empty`       | a well-formed answer without text                                    |
| `length`      | an answer that was cut at the longest allowed                        |
| `hold`        | an answer once it is released; nothing if the caller is gone by then |
| `nousage`     | an answer that does not say what it cost                             |
| `warm`        | status 400 to a `temperature`, an answer without                     |
| `misshapen`   | status 500, as llama.cpp says that an answer was cut off             |
| `trickle`     | an answer of a byte every 0.1 s, headers and all, that never ends    |
| `endless`     | an answer that never ends                                            |
| `json:TEXT`   | status 200, TEXT as the body; `$KEY` in it is the key it was sent    |
| `usage:JSON`  | an answer whose usage is JSON                                        |
| `to:URL`      | status 307, to URL                                                   |
| `newer`       | status 400 to `max_tokens`, an answer to `max_completion_tokens`     |
| `free:TEXT`   | status 400 to a `response_format`, an answer that says TEXT without  |
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MODEL = "scripted"


REFUSED_FIELDS = {
    "newer": (
        "max_tokens",
        "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
    ),
    "warm": (
        "temperature",
        "Unsupported value: 'temperature' does not support 0 with this model.",
    ),
    "free": ("response_format", "This response_format type is unavailable now"),
}
"""By behaviour: the field of a request that is refused with status 400, and the message."""


@dataclass
class Script:
    """What to do next, and what was done."""

    behaviours: list[str]
    then: str = "ok"
    latency: float = 0.0
    takes: str = "images"
    refusal: int = 500
    key: str = ""
    name: str = MODEL

    def __post_init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: list[dict[str, Any]] = []
        self.in_flight = 0
        self.peak = 0
        self.turn = threading.Condition()
        self.released = 0

    def next(self, headers: Mapping[str, str], body: dict[str, Any]) -> str:  # noqa: ARG002
        """How to behave to a chat request."""
        identity = headers.get("X-Request-Id")
        with self.lock:
            place = len(self.asked)
            behaviour = self.behaviours[place] if place < len(self.behaviours) else self.then
            self.asked.append({"behaviour": behaviour, "id": identity, "time": time.time()})
            self.in_flight += 1
            self.peak = max(self.peak, self.in_flight)
        return behaviour

    def release(self, count: int = 1) -> None:
        with self.turn:
            self.released += count
            self.turn.notify_all()

    def hold(self, caller: socket.socket) -> bool:
        """Wait to be released; False if the caller went away first, and takes no release along."""
        with self.turn:
            while not is_gone(caller):
                if self.released:
                    self.released -= 1
                    return True
                self.turn.wait(0.02)
        return False

    def done(self) -> None:
        with self.lock:
            self.in_flight -= 1


def is_gone(caller: socket.socket) -> bool:
    """Whether a caller that awaits an answer has hung up."""
    readable, _, _ = select.select([caller], [], [], 0)
    return bool(readable) and not caller.recv(1, socket.MSG_PEEK)


def completion(
    text: str, *, usage: bool = True, looked: bool = False, finish: str = "stop"
) -> dict[str, Any]:
    """A well-formed chat completion that says `text`.

    It takes 10 tokens out and 100 in, and 50 more when it `looked` at a video.
    """
    answer: dict[str, Any] = {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": text},
            }
        ],
    }
    if usage:
        taken = 150 if looked else 100
        answer["usage"] = {
            "prompt_tokens": taken,
            "completion_tokens": 10,
            "total_tokens": taken + 10,
        }
    return answer


def shown(body: dict[str, Any]) -> set[str]:
    """What the messages carry beside text: of `images` and `video`."""
    contents = [message["content"] for message in body["messages"]]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    names = {"image_url": "images", "video_url": "video"}
    return {names[part["type"]] for part in parts if part["type"] != "text"}


class Handler(BaseHTTPRequestHandler):
    """Answers as the server's script says."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FaultHTTPServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        script = self.server.script
        if self.path == "/count":
            self.reply({"count": len(script.asked), "peak": script.peak, "asked": script.asked})
        elif self.path.startswith("/release/"):
            script.release(int(self.path.rpartition("/")[2]))
            self.reply({})
        elif not self.is_allowed():
            self.reply({"error": {"message": "wrong key"}}, status=401)
        elif self.path == "/v1/models":
            self.reply({"object": "list", "data": [{"id": script.name, "object": "model"}]})
        else:
            self.reply({"error": {"message": "no such page"}}, status=404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        behaviour = self.server.script.next(self.headers, body)
        try:
            self.behave(behaviour, body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the caller gave up waiting
        finally:
            self.server.script.done()

    def behave(self, behaviour: str, body: dict[str, Any]) -> None:
        name, _, detail = behaviour.partition(":")
        time.sleep(float(detail) if name == "slow" else self.server.script.latency)
        if refusal := self.refusal(name, body):
            status, message = refusal
            self.reply({"error": {"message": message, "code": status}}, status=status)
        elif name.isdigit():
            headers = {"Retry-After": detail} if detail else {}
            self.reply({"error": {"message": "scripted"}}, status=int(name), headers=headers)
        elif name == "to":
            self.reply({}, status=307, headers={"Location": detail})
        elif name in ("trickle", "endless"):
            self.go_on(name)
        elif name in ("cut", "drop"):
            self.break_off(name)
        elif name == "hold" and not self.server.script.hold(self.connection):
            self.close_connection = True
        elif name == "html":
            self.reply_bytes(b"<html>busy</html>", kind="text/html")
        else:
            self.reply_bytes(self.answer(name, detail, body).encode())

    def refusal(self, name: str, body: dict[str, Any]) -> tuple[int, str] | None:
        """The status and the message of a request that is not answered for what is in it."""
        script = self.server.script
        if not self.is_allowed():
            return 401, "wrong key"
        if body.get("model") != script.name:
            return 404, f"The model `{body.get('model')}` does not exist."
        if script.refusal != 200 and (refused := self.refused(body)):
            return script.refusal, f"{' and '.join(refused)} input is not supported"
        field, message = REFUSED_FIELDS.get(name, ("", ""))
        if field in body:
            return 400, message
        misshapen = "The model produced output that does not match the expected native format"
        return (500, misshapen) if name == "misshapen" else None

    def answer(self, name: str, detail: str, body: dict[str, Any]) -> str:
        """The body of a reply with status 200."""
        if name == "malformed":
            return '{"id": "chatcmpl-0", "choices": ['
        if name == "json":
            sent = self.headers.get("Authorization", "").removeprefix("Bearer ")
            return detail.replace("$KEY", sent)
        text = (
            ""
            if name == "empty"
            else detail
            if name in ("ok", "free") and detail
            else "A hand stirs."
        )
        looked = "video" in shown(body) and not self.refused(body)
        finish = "length" if name == "length" else "stop"
        said = completion(text, usage=name != "nousage", looked=looked, finish=finish)
        if name == "usage":
            return json.dumps({**said, "usage": "$"}).replace('"$"', detail)
        return json.dumps(said)

    def is_allowed(self) -> bool:
        """Whether the request carries the key, where one is wanted."""
        key = self.server.script.key
        return not key or self.headers.get("Authorization") == f"Bearer {key}"

    def refused(self, body: dict[str, Any]) -> list[str]:
        """What the request shows and the server does not take."""
        return sorted(shown(body) - set(self.server.script.takes.split()))

    def break_off(self, name: str) -> None:
        if name == "cut":
            whole = json.dumps(completion("A hand stirs.")).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(whole)))
            self.end_headers()
            self.wfile.write(whole[: len(whole) // 2])
            self.wfile.flush()
        self.close_connection = True

    def go_on(self, name: str) -> None:
        """Send until the caller has had enough."""
        self.close_connection = True
        if name == "trickle":
            for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 10_000:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(0.1)
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 65536)

    def reply(
        self, answer: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.reply_bytes(json.dumps(answer).encode(), status=status, headers=headers)

    def reply_bytes(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class FaultHTTPServer(ThreadingHTTPServer):
    """Many requests at once, one script."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, script: Script, *, handler: type[Handler] = Handler, port: int = 0) -> None:
        self.script = script
        super().__init__(("127.0.0.1", port), handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that went away is not worth a traceback."""


@dataclass(frozen=True)
class FaultServer:
    """A running server, seen from outside."""

    url: str
    """With the `/v1`, as a client wants it."""

    def seen(self) -> dict[str, Any]:
        """`count`, `peak` (most requests at once) and `asked` (one entry a chat request)."""
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/count", timeout=10) as page:
            seen: dict[str, Any] = json.load(page)
        return seen

    def release(self, count: int) -> None:
        """Let so many of the requests that are held, or will be, be answered."""
        url = f"{self.url.removesuffix('/v1')}/release/{count}"
        urllib.request.urlopen(url, timeout=10).close()

    def count(self) -> int:
        """Chat requests that arrived so far."""
        return int(self.seen()["count"])

    def asked(self) -> list[dict[str, Any]]:
        """One entry a chat request: `behaviour`, `id` (the call's identity), `time`."""
        return list(self.seen()["asked"])


@contextmanager
def fault_server(
    *behaviours: str,
    then: str = "ok",
    latency: float = 0.0,
    takes: str = "images",
    refusal: int = 500,
    key: str = "",
) -> Iterator[FaultServer]:
    """A server in a process of its own, stopped at the end of the block.

    It takes text and what `takes` names of "images video"; anything else it refuses with the status
    `refusal`, or drops in silence if that is 200. With a `key` it
    answers nobody who does not send it.
    """
    from server_process import server_process  # which its own process, thus started, cannot see

    command = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]  # quick to start
    command += [*behaviours, "--then", then]
    command += ["--latency", str(latency), "--takes", takes, "--refusal", str(refusal)]
    command += ["--key", key]
    with server_process(command) as url:
        yield FaultServer(url)


def main() -> None:
    """Serve until the parent closes our standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("behaviours", nargs="*")
    parser.add_argument("--then", default="ok")
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--takes", default="images")
    parser.add_argument("--refusal", type=int, default=500)
    parser.add_argument("--key", default="")
    options = parser.parse_args()
    server = FaultHTTPServer(Script(**vars(options)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
