from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from earmark.redaction import redact
from earmark.text_format import format_length

if TYPE_CHECKING:
    from rich.console import Console

    from earmark.captioning.dispatch import Tally

LINE_INTERVAL = 1.0

LogKind = Literal["bar", "json"]

_COUNTS = (
    "recordings", "heard", "unchanged", "missed", "seconds_heard",
    "calls", "done", "failed", "tokens", "spend",
)  # fmt: skip

CALL_PHASES = ("asking", "looking")
"""Counted in calls or windows; the others in seconds of recordings."""


@dataclass(slots=True)
class Progress:
    """What a command is doing, and how much of it is done. One thread writes, any may read."""

    on_change: Callable[[Progress], None] = lambda _: None
    phase: str = "listening"
    seconds_done: float = 0.0
    """Of media, in this phase; without the recordings at work."""
    seconds_total: float = 0.0
    """0 if it is not known."""
    at_work: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds done and in all of the recordings at work, by name."""
    recordings: int = 0
    heard: int = 0
    """Or unchanged since an earlier run."""
    unchanged: int = 0
    missed: int = 0
    seconds_heard: float = 0.0
    """Of recordings, not of elapsed time."""
    calls: int = 0
    done: int = 0
    answered: int = 0
    failed: int = 0
    tokens: int = 0
    spend: float = 0.0
    trouble: str = ""
    began: float = field(default_factory=time.monotonic)
    """When the phase began."""
    has_model: bool = True

    def enter(self, phase: str, seconds: float = 0.0) -> None:
        """Begin a phase of work on `seconds` of recordings."""
        self.at_work.clear()
        self.update(phase=phase, seconds_done=0.0, seconds_total=seconds, began=time.monotonic())

    def advance(self, seconds: float, name: str = "") -> None:
        """`seconds` more of recordings are done: those of the recording `name`, if it is given."""
        self.at_work.pop(name, None)
        self.update(seconds_done=self.seconds_done + seconds)

    def at(self, name: str, now: float, total: float) -> None:
        self.at_work[name] = min(now, total), total
        self.on_change(self)

    @property
    def amount(self) -> tuple[float, float]:
        """Done and in all: calls or windows, else seconds; the total is 0 if it is not known.

        Recordings that were not opened yet count as long as the mean of the others.
        """
        if self.phase in CALL_PHASES:
            return self.done, self.calls
        at_work = list(self.at_work.values())
        done = self.seconds_done + sum(now for now, _ in at_work)
        if self.seconds_total or self.phase != "listening":
            return done, self.seconds_total
        known = self.seconds_done + sum(total for _, total in at_work)
        opened = self.heard - self.unchanged + len(at_work)
        waiting = max(0, self.recordings - self.heard - self.missed - len(at_work))
        return done, known * (1 + waiting / opened) if opened else 0.0

    @property
    def rate(self) -> float:
        """Calls, or seconds of recordings, a second."""
        elapsed = time.monotonic() - self.began
        return self.amount[0] / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        done, total = self.amount
        return (total - done) / self.rate if self.rate and total > done else None

    def update(self, **counts: Any) -> None:
        for name, value in counts.items():
            setattr(self, name, value)
        self.on_change(self)

    def count_calls(self, tally: Tally, calls: int) -> None:
        phase = "asking" if self.has_model else "looking"
        if self.phase != phase:
            self.enter(phase)
        self.update(
            calls=calls,
            done=tally.calls,
            answered=tally.answered,
            failed=tally.failed,
            tokens=tally.tokens,
            spend=tally.spend,
            trouble=tally.last_reason or self.trouble,
        )

    def to_json(self) -> dict[str, Any]:
        left, (done, total) = self.seconds_left, self.amount
        is_counted = self.phase in CALL_PHASES
        return {
            "phase": self.phase,
            **{name: getattr(self, name) for name in _COUNTS},
            "seconds_heard": round(self.seconds_heard, 3),
            "seconds_done": None if is_counted else round(done, 1),
            "seconds_total": None if is_counted or not total else round(total, 1),
            "trouble": redact(self.trouble) or None,
            "rate": round(self.rate, 4),
            "seconds_left": None if left is None else round(left, 1),
        }


@contextmanager
def show_progress(log: LogKind = "bar") -> Iterator[Progress]:
    from earmark.report.console import err  # loads rich, which the library does without

    progress = Progress()
    with ExitStack() as stack:
        if log == "json":
            progress.on_change = stack.enter_context(json_lines(progress))
        elif err.is_terminal:
            progress.on_change = stack.enter_context(bars(err))
        yield progress


@contextmanager
def json_lines(progress: Progress) -> Iterator[Callable[[Progress], None]]:
    """First and last state, each new phase, else one a second."""

    def write(_: Progress) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": now, "event": "progress", **progress.to_json()}
        sys.stderr.write(json.dumps(line, allow_nan=False) + "\n")
        sys.stderr.flush()

    try:
        yield throttled(write, LINE_INTERVAL)
    finally:
        if progress.recordings or progress.calls or progress.seconds_done:
            write(progress)


def throttled(write: Callable[[Progress], None], interval: float) -> Callable[[Progress], None]:
    """Calls `write` once every `interval` seconds at most, and when a phase or its size changes."""
    written_at, last_stage = -interval, ("", 0, 0)

    def on_change(progress: Progress) -> None:
        nonlocal written_at, last_stage
        now, stage = time.monotonic(), (progress.phase, progress.recordings, progress.calls)
        if now - written_at >= interval or stage != last_stage:
            written_at, last_stage = now, stage
            write(progress)

    return on_change


@contextmanager
def bars(console: Console) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.fields[phase]}"), BarColumn(), TextColumn("{task.description}"))
    with Bars(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, phase="starting")

        def show(now: Progress) -> None:
            done, total = now.amount
            words = ", ".join(_describe(now))
            bar.update(
                task, phase=now.phase, completed=done, total=total or None, description=words
            )

        yield show


def _describe(progress: Progress) -> Iterator[str]:
    """How much is done, and how long the rest takes."""
    done, total = progress.amount
    if progress.phase in CALL_PHASES:
        unit = "calls" if progress.phase == "asking" else "windows"
        yield f"{progress.done} of {progress.calls} {unit}"
        if progress.failed:
            yield f"{progress.failed} failed"
        if progress.tokens:
            yield f"{progress.tokens:,} tokens"
    elif total:
        yield f"{format_length(done)} of {format_length(total)}"
    if progress.phase == "listening" and progress.recordings > 1:
        yield f"{progress.heard + progress.missed} of {progress.recordings} recordings"
        if progress.missed:
            yield f"{progress.missed} failed"
    elif len(progress.at_work) == 1:
        yield next(iter(progress.at_work))
    if (left := progress.seconds_left) is not None:
        yield f"{format_length(max(1.0, left))} left"
