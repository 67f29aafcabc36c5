"""Serves how far a run has come to Prometheus."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from earmark.errors import BackendError
from earmark.reporting.progress import Progress

_METRICS = {
    "recordings": ("gauge", "Recordings to work on"),
    "heard": ("counter", "Recordings listened to or found unchanged"),
    "unchanged": ("counter", "Recordings taken from an earlier run"),
    "missed": ("counter", "Recordings that could not be listened to"),
    "seconds_heard": ("counter", "Seconds of recording listened to"),
    "calls": ("gauge", "Calls to make"),
    "done": ("counter", "Calls made, failed ones included"),
    "failed": ("counter", "Calls that failed"),
    "tokens": ("counter", "Tokens in and out"),
    "spend": ("counter", "Spent on calls, in the currency of the prices"),
}


def exposition(progress: Progress) -> str:
    """The counts in the text format that Prometheus reads."""
    values, lines = progress.to_json(), []
    for name, (kind, words) in _METRICS.items():
        full = f"earmark_{name}_total" if kind == "counter" else f"earmark_{name}"
        lines += [f"# HELP {full} {words}.", f"# TYPE {full} {kind}", f"{full} {values[name]}"]
    return "\n".join(lines) + "\n"


@contextmanager
def serve_metrics(progress: Progress, port: int, *, host: str = "127.0.0.1") -> Iterator[int]:
    """Serves `progress`, as it is when it is asked for, at `/metrics`; the port, free if it is 0.

    To this machine alone unless another `host` is given. A `BackendError` says that the port is
    taken or not allowed.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = exposition(progress).encode()
            self.send_response(200 if self.path in ("/metrics", "/") else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        raise BackendError(
            f"no metrics can be served on port {port} ({error}); choose another --metrics-port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
