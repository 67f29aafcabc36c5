"""Serves the files of a folder by HTTP with byte ranges, in a thread, and counts the bytes."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


@dataclass
class FileServer:
    """A running server."""

    folder: Path
    has_ranges: bool = True
    """Otherwise every request gets the whole file."""
    port: int = 0
    bytes_sent: int = 0
    ranges: list[str] = field(default_factory=list)
    """The `Range` headers received."""

    def url(self, name: str) -> str:
        """The address of a file."""
        return f"http://127.0.0.1:{self.port}/{name}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    file_server: FileServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""

    def do_HEAD(self) -> None:
        self._reply(with_body=False)

    def do_GET(self) -> None:
        self._reply(with_body=True)

    def _reply(self, *, with_body: bool) -> None:
        running = self.file_server
        path = running.folder / self.path.lstrip("/").partition("?")[0]
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content, status, extra = path.read_bytes(), 200, {}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted and running.has_ranges:
            running.ranges.append(wanted[0])
            first = int(wanted[1]) if wanted[1] else len(content) - int(wanted[2])
            last = int(wanted[2]) if wanted[1] and wanted[2] else len(content) - 1
            last = min(last, len(content) - 1)
            extra["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content, status = content[first : last + 1], 206
        self.send_response(status)
        self.send_header("Content-Type", "video/mp4")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
        if running.has_ranges:
            self.send_header("Accept-Ranges", "bytes")
        for name, value in extra.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            try:
                self.wfile.write(content)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True
            running.bytes_sent += len(content)


@contextmanager
def file_server(folder: Path, *, has_ranges: bool = True) -> Iterator[FileServer]:
    """A server that runs until the block ends."""
    running = FileServer(folder, has_ranges)
    handler = type("Handler", (_Handler,), {"file_server": running})
    with _QuietServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        running.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield running
        finally:
            server.shutdown()
            thread.join()
