"""How far the work on an archive has come, for people, log files and Prometheus."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from earmark.captioning import Tally
from earmark.errors import BackendError, EarmarkError
from earmark.gate.score_cache import ScoreCache
from earmark.media import Recording, Source
from earmark.pipeline.triage import Ears, Plan, Scored, Told


@dataclass(slots=True)
class Progress:
    """Counts of one run so far; one thread writes, any may read."""

    recordings: int = 0
    """To work on."""
    heard: int = 0
    """Listened to, or found unchanged."""
    unchanged: int = 0
    """Of those heard, taken from an earlier run."""
    missed: int = 0
    """Recordings that could not be listened to."""
    seconds_heard: float = 0.0
    """Of recording, not of time."""
    calls: int = 0
    """To make."""
    done: int = 0
    """Made, the failed ones included."""
    failed: int = 0
    tokens: int = 0
    spend: float = 0.0
    trouble: str = ""
    """Why the last recording or call failed; empty while none has."""
    began: float = field(default_factory=time.monotonic)
    asked: float | None = None
    """When asking began; on the same clock."""

    @property
    def stage(self) -> str:
        """`hearing` or `asking`."""
        return "hearing" if self.asked is None else "asking"

    @property
    def rate(self) -> float:
        """Recordings, or calls, a second in the present stage; 0 before the first."""
        finished, since = (
            (self.heard + self.missed, self.began)
            if self.asked is None
            else (self.done, self.asked)
        )
        elapsed = time.monotonic() - since
        return finished / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Of the present stage at its present rate; None before there is one."""
        left = (
            self.recordings - self.heard - self.missed
            if self.asked is None
            else self.calls - self.done
        )
        return left / self.rate if self.rate else None

    def hear(self, told: Told) -> None:
        """Count what became of one recording."""
        if isinstance(told, EarmarkError):
            self.missed += 1
            self.trouble = str(told)
            return
        self.heard += 1
        if isinstance(told, Scored):
            self.seconds_heard += told.heard.recording.duration
        self.unchanged += isinstance(told, Recording)

    def ask(self, tally: Tally, calls: int) -> None:
        """Take over how far asking has come."""
        if self.asked is None:
            self.asked = time.monotonic()
        self.calls, self.done, self.failed = calls, tally.calls, tally.failed
        self.tokens, self.spend = tally.tokens, tally.spend
        self.trouble = tally.last_reason or self.trouble

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        left = self.seconds_left
        return {
            "stage": self.stage,
            "recordings": self.recordings,
            "heard": self.heard,
            "unchanged": self.unchanged,
            "missed": self.missed,
            "seconds_heard": round(self.seconds_heard, 3),
            "calls": self.calls,
            "done": self.done,
            "failed": self.failed,
            "tokens": self.tokens,
            "spend": self.spend,
            "trouble": self.trouble or None,
            "rate": round(self.rate, 4),
            "seconds_left": None if left is None else round(left, 1),
        }


Tell = Callable[[Progress], None]
"""Told of every change."""


@dataclass(frozen=True, slots=True)
class WatchedEars:
    """Other ears, whose every outcome is counted as it passes by."""

    ears: Ears
    progress: Progress
    tell: Tell

    def __call__(
        self,
        sources: Sequence[Source],
        plan: Plan,
        *,
        known: Mapping[Source, str],
        cache: ScoreCache | None,
    ) -> Iterator[tuple[Source, Told]]:
        """What became of each of `sources`."""
        self.progress.recordings = len(sources)
        self.tell(self.progress)
        for source, told in self.ears(sources, plan, known=known, cache=cache):
            self.progress.hear(told)
            self.tell(self.progress)
            yield source, told


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
    "spend": ("counter", "Money spent on calls"),
}


def exposition(progress: Progress) -> str:
    """The counts in the text format that Prometheus reads."""
    values, lines = progress.to_json(), []
    for name, (kind, words) in _METRICS.items():
        full = f"earmark_{name}_total" if kind == "counter" else f"earmark_{name}"
        lines += [f"# HELP {full} {words}.", f"# TYPE {full} {kind}", f"{full} {values[name]}"]
    return "\n".join(lines) + "\n"


@contextmanager
def metrics(progress: Progress, port: int) -> Iterator[int]:
    """Serves `progress` to Prometheus at `/metrics`; the port, chosen freely if 0 was asked.

    Raises:
        BackendError: The port is taken or not allowed.
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
        server = ThreadingHTTPServer(("", port), Handler)
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
