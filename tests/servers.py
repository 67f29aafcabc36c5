"""Real servers for the tests, each in a process of its own that ends with the test.

>>> with range_server(folder) as server:                                   # doctest: +SKIP
...     open_recording(server.url("a.mp4"))
...     server.bytes_sent()
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from server_process import server_process

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A running server."""

    port: int

    def url(self, name: str = "") -> str:
        """The address of a file it serves."""
        return f"http://{HOST}:{self.port}/{name}"

    def stats(self) -> dict[str, int]:
        """Served so far: `bytes`, `requests`, `most` requests at one time, and those `stalled`."""
        with urllib.request.urlopen(self.url("?stats")) as answer:
            counts: dict[str, int] = json.load(answer)
            return counts

    def release(self) -> None:
        """Answer what is stalled, and all that comes."""
        urllib.request.urlopen(self.url("?release")).close()

    def bytes_sent(self) -> int:
        """Bytes of file bodies sent so far."""
        return self.stats()["bytes"]


@contextmanager
def range_server(folder: Path, *, fault: str = "") -> Iterator[Server]:
    """Serves the files of a folder by HTTP with byte ranges.

    Args:
        folder: What to serve.
        fault: `no-ranges` answers with the whole file, always; `flaky` breaks off every third
            answer half way; `broken` breaks off every answer that starts in the second half of
            the file; `slow` takes 20 ms for each; `no-tags` sends neither ETag nor Last-Modified;
            `unconditional` knows no If-Match;
            `error` answers 503; `endless` sends bytes for as long as anybody reads; `drip` sends a
            header that does not end, a byte at a time; `shifted` sends the bytes after those asked
            for; `stall:N` answers N requests and the others once they are released.
    """
    with _running("range", str(folder), fault) as server:
        yield server


@contextmanager
def s3_bucket(name: str, *, key: str = "test") -> Iterator[Any]:
    """boto3's client of an S3 server with an empty bucket; skips the test where moto is absent.

    This process and those it starts reach the server, as the owner of `key`, until the block ends.
    """
    import pytest  # which the servers' own processes need not wait for

    pytest.importorskip("moto")
    boto3, s3fs = pytest.importorskip("boto3"), pytest.importorskip("s3fs")
    with _running("s3") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", server.url().rstrip("/"))
        patch.setenv("AWS_ACCESS_KEY_ID", key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", key)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        s3fs.S3FileSystem.clear_instance_cache()
        client = boto3.client("s3")
        client.create_bucket(Bucket=name)
        yield client
        client.close()
        s3fs.S3FileSystem.clear_instance_cache()


@contextmanager
def _running(*words: str) -> Iterator[Server]:
    """This file as a process, which takes a free port and says which; ended afterwards."""
    with server_process([sys.executable, __file__, *words], is_quiet=True) as port:
        yield Server(int(port))


def free_port() -> int:
    """A port nobody listens on, as far as one can tell beforehand."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    fault = ""
    after = 0
    counts: dict[str, int] = dict.fromkeys(("bytes", "requests", "now", "most", "stalled"), 0)
    counting = threading.Lock()
    released = threading.Event()

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        if self.path == "/?stats":
            self._send(200, json.dumps(self.counts).encode(), {}, is_counted=False)
            return
        if self.path == "/?release":
            self.released.set()
            self._send(200, b"", {}, is_counted=False)
            return
        with self.counting:
            self.counts["now"] += 1
            self.counts["most"] = max(self.counts["most"], self.counts["now"])
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = self.folder / self.path.lstrip("/").partition("?")[0]
        if self.fault == "error" or not path.is_file():
            return self._send(503 if self.fault == "error" else 404, b"", {})
        data = path.read_bytes()
        headers = {}
        if self.fault != "no-tags":
            state = path.stat()
            headers["ETag"] = f'"{state.st_mtime_ns:x}-{state.st_size:x}"'
        if self.fault == "" and self.headers.get("If-Match", headers["ETag"]) != headers["ETag"]:
            return self._send(412, b"", headers)
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not body:
            return self._send(200, b"", {**headers, "Content-Length": str(len(data))})
        with self.counting:
            self.counts["requests"] += 1
            number = self.counts["requests"]
        if self.fault == "slow":
            time.sleep(0.02)
        if self.fault == "stall" and number > self.after:
            with self.counting:
                self.counts["stalled"] += 1
            self.released.wait()
        if self.fault in ("endless", "drip") and number > self.after:
            return self._send_without_end(wanted[0] if wanted else "bytes=0-0", len(data))
        if not wanted or self.fault == "no-ranges":
            return self._send(200, data, headers)
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        if self.fault == "shifted" and first:
            first, last = first + 1, last + 1
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        is_broken = (self.fault == "flaky" and number % 3 == 0) or (
            self.fault == "broken" and first >= len(data) // 2
        )
        return self._send(206, data[first : last + 1], headers, breaks=is_broken)

    def _send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str],
        *,
        breaks: bool = False,
        is_counted: bool = True,
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if breaks:
            data = data[: len(data) // 2]
            self.close_connection = True
        if is_counted and self.command == "GET":
            with self.counting:  # before it is sent: whoever has it may ask anew at once
                self.counts["bytes"] += len(data)
                self.counts["now"] -= 1
        self.wfile.write(data)

    def _send_without_end(self, wanted: str, size: int) -> None:
        head = b"HTTP/1.1 206 Partial Content\r\nContent-Range: "
        head += f"{wanted.replace('=', ' ')}/{size}".encode()
        self.wfile.write(head + (b"\r\n\r\n" if self.fault == "endless" else b"\r\nX-Drip: "))
        self.close_connection = True
        with contextlib.suppress(ConnectionError):
            while True:
                self.wfile.write(bytes(1 << 16) if self.fault == "endless" else b"x")
                time.sleep(0 if self.fault == "endless" else 0.02)

    def log_message(self, format: str, *words: Any) -> None:  # noqa: A002
        """Say nothing."""


def _serve_ranges(folder: str, fault: str) -> None:
    _Handler.folder = Path(folder)
    _Handler.fault, _, after = fault.partition(":")
    _Handler.after = int(after or 0)
    server = ThreadingHTTPServer((HOST, 0), _Handler)
    server.daemon_threads = True
    _tell(server.server_address[1])
    server.serve_forever()


def _serve_s3() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(HOST, 0, verbose=False)
    server.start()
    _tell(server.get_host_and_port()[1])
    threading.Event().wait()


def _tell(port: int) -> None:
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """End this process when the one that started it is gone and its pipe closes."""

    def watch() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    _end_with_parent()
    kind, *words = sys.argv[1:]
    {"range": _serve_ranges, "s3": _serve_s3}[kind](*words)
