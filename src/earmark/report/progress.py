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

if TYPE_CHECKING:
    from rich.console import Console

    from earmark.captioning.dispatch import Tally

LINE_INTERVAL = 1.0

LogKind = Literal["bar", "json"]

_COUNTS = (
    "recordings", "heard", "unchanged", "missed", "seconds_heard",
    "calls", "done", "failed", "tokens", "spend",
)  # fmt: skip


@dataclass(slots=True)
class Progress:
    """One thread writes, any thread may read."""

    on_change: Callable[[Progress], None] = lambda _: None
    recordings: int = 0
    heard: int = 0
    """Or unchanged since an earlier run."""
    unchanged: int = 0
    missed: int = 0
    seconds_heard: float = 0.0
    """Of recordings, not of elapsed time."""
    at_work: str = ""
    at_seconds: tuple[float, float] = (0.0, 0.0)
    calls: int = 0
    done: int = 0
    answered: int = 0
    failed: int = 0
    tokens: int = 0
    spend: float = 0.0
    trouble: str = ""
    began: float = field(default_factory=time.monotonic)
    asked: float | None = None
    has_model: bool = True

    @property
    def stage(self) -> str:
        """`hearing`, then `asking`, or `looking` if no model is asked."""
        if self.asked is None:
            return "hearing"
        return "asking" if self.has_model else "looking"

    @property
    def rate(self) -> float:
        finished, _, since = self._stage_counts()
        elapsed = time.monotonic() - since
        return finished / elapsed if elapsed > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        finished, total, _ = self._stage_counts()
        return (total - finished) / self.rate if self.rate else None

    def _stage_counts(self) -> tuple[int, int, float]:
        if self.asked is None:
            return self.heard + self.missed, self.recordings, self.began
        return self.done, self.calls, self.asked

    def update(self, **counts: Any) -> None:
        for name, value in counts.items():
            setattr(self, name, value)
        self.on_change(self)

    def at(self, name: str) -> Callable[[float, float], None]:
        return lambda now, total: self.update(at_work=name, at_seconds=(min(now, total), total))

    def count_calls(self, tally: Tally, calls: int) -> None:
        self.update(
            asked=time.monotonic() if self.asked is None else self.asked,
            calls=calls,
            done=tally.calls,
            answered=tally.answered,
            failed=tally.failed,
            tokens=tally.tokens,
            spend=tally.spend,
            trouble=tally.last_reason or self.trouble,
        )

    def to_json(self) -> dict[str, Any]:
        left = self.seconds_left
        return {
            "stage": self.stage,
            **{name: getattr(self, name) for name in _COUNTS},
            "seconds_heard": round(self.seconds_heard, 3),
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
    """First and last state, each new stage, else one a second."""

    def write(_: Progress) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"at": now, "event": "progress", **progress.to_json()}
        sys.stderr.write(json.dumps(line, allow_nan=False) + "\n")
        sys.stderr.flush()

    try:
        yield throttled(write, LINE_INTERVAL)
    finally:
        if progress.recordings or progress.calls:
            write(progress)


def throttled(write: Callable[[Progress], None], interval: float) -> Callable[[Progress], None]:
    """Calls `write` once every `interval` seconds at most, and when a stage or its size changes."""
    written_at, last_stage = -interval, ("", 0, 0)

    def on_change(progress: Progress) -> None:
        nonlocal written_at, last_stage
        now, stage = time.monotonic(), (progress.stage, progress.recordings, progress.calls)
        if now - written_at >= interval or stage != last_stage:
            written_at, last_stage = now, stage
            write(progress)

    return on_change


@contextmanager
def bars(console: Console) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.fields[verb]}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} {task.description}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=console, transient=True) as bar:
        tasks = [bar.add_task("", total=0, visible=False, verb="") for _ in range(3)]

        def show(now: Progress) -> None:
            failed = f", {now.missed} failed" if now.missed else ""
            asking, unit = ("asking", "calls") if now.has_model else ("looking", "windows")
            done, total = now.at_seconds
            is_listening = bool(now.at_work) and now.asked is None
            heard, calls = now.heard + now.missed, f"{unit}{_describe_calls(now)}"
            rows = (
                ("listening", heard, now.recordings, f"recordings{failed}", now.recordings > 1),
                ("listening", done, total, f"s of {now.at_work}", is_listening),
                (asking, now.done, now.calls, calls, now.calls > 0),
            )
            for task, (verb, done, total, text, visible) in zip(tasks, rows, strict=True):
                bar.update(
                    task, verb=verb, completed=done, total=total, description=text, visible=visible
                )

        yield show


def _describe_calls(progress: Progress) -> str:
    text = f", {progress.failed} failed" if progress.failed else ""
    text += f", {progress.tokens:,} tokens" if progress.tokens else ""
    text += f", {progress.spend:.4g} spent" if progress.spend else ""
    return text + (f", {progress.rate:.3g} a second" if progress.done else "")
