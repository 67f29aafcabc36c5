"""Display of progress: bars or JSON lines on stderr, and metrics for Prometheus."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Literal

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from earmark.errors import BackendError
from earmark.reporting.console import err
from earmark.reporting.progress import Progress

APART = 1.0
"""Seconds between two lines of JSON."""

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

LogKind = Literal["bar", "json"]
"""How progress is shown."""


@contextmanager
def show_progress(
    log: LogKind = "bar",
    *,
    metrics_port: int | None = None,
    metrics_host: str = "127.0.0.1",
) -> Iterator[Progress]:
    """A `Progress` whose changes are shown; bars only if stderr is a terminal."""
    progress = Progress()
    with ExitStack() as stack:
        if metrics_port is not None:
            stack.enter_context(serve_metrics(progress, metrics_port, host=metrics_host))
        if log == "json":
            progress.on_change = stack.enter_context(json_lines(progress))
        elif err.is_terminal:
            progress.on_change = stack.enter_context(bars())
        yield progress


@contextmanager
def json_lines(progress: Progress) -> Iterator[Callable[[Progress], None]]:
    """Writes JSON lines to stderr: first and last state, each new stage, else one a second."""
    written, last = -APART, ""

    def write() -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": now, "event": "progress", **progress.to_json()}
        sys.stderr.write(json.dumps(line, allow_nan=False) + "\n")
        sys.stderr.flush()

    def show(_: Progress) -> None:
        nonlocal written, last
        moment = time.monotonic()
        if moment - written >= APART or progress.stage != last:
            written, last = moment, progress.stage
            write()

    try:
        yield show
    finally:
        if last:
            write()


@contextmanager
def bars(console: Console = err) -> Iterator[Callable[[Progress], None]]:
    """Draws bars on a terminal: recordings and seconds heard, and calls made."""
    columns = (
        TextColumn("{task.fields[verb]}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.description}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bar:
        hearing = bar.add_task("recordings", total=0, visible=False, verb="listening")
        current = bar.add_task("s", total=0, visible=False, verb="listening")
        asking = bar.add_task("calls", total=0, visible=False, verb="asking")

        def show(now: Progress) -> None:
            failed = f", {now.missed} failed" if now.missed else ""
            (done, of), heard = now.at_seconds, now.heard + now.missed
            verb, thing = ("asking", "calls") if now.has_model else ("looking", "windows")
            bar.update(asking, verb=verb)
            for task, completed, total, words, visible in (
                (hearing, heard, now.recordings, f"recordings{failed}", now.recordings > 1),
                (current, done, of, f"s of {now.at_work}", now.at_work and now.asked is None),
                (asking, now.done, now.calls, f"{thing}{_describe_calls(now)}", now.calls > 0),
            ):
                bar.update(
                    task,
                    completed=completed,
                    total=total,
                    description=words,
                    visible=bool(visible),
                )

        yield show


def _describe_calls(progress: Progress) -> str:
    text = f", {progress.failed} failed" if progress.failed else ""
    text += f", {progress.tokens:,} tokens" if progress.tokens else ""
    text += f", {progress.spend:.4g} spent" if progress.spend else ""
    return text + (f", {progress.rate:.3g} a second" if progress.done else "")


def exposition(progress: Progress) -> str:
    """The counts in the text format of Prometheus."""
    values, lines = progress.to_json(), []
    for name, (kind, words) in _METRICS.items():
        full = f"earmark_{name}_total" if kind == "counter" else f"earmark_{name}"
        lines += [f"# HELP {full} {words}.", f"# TYPE {full} {kind}", f"{full} {values[name]}"]
    return "\n".join(lines) + "\n"


@contextmanager
def serve_metrics(progress: Progress, port: int, *, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve the current `progress` over HTTP at `/metrics`; yields the port, a free one for port 0.

    Reachable from this machine only, unless another `host` is given.

    Raises:
        BackendError: The port is in use or not allowed.
    """
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = exposition(progress).encode()
            path = self.path.partition("?")[0]
            self.send_response(200 if path in ("/metrics", "/") else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

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
