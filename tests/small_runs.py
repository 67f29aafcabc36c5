"""Small runs for the tests of the ledger and of what reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from drawing import windows
from earmark import Pick, Span
from earmark.captioning.request import Answer
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection.pick import explain


@dataclass(frozen=True)
class CallRow:
    """What a run stores of a request, with an identity of our own."""

    identity: str
    recording: str
    span: Span
    model: str


PLAN: dict[str, Any] = {"budget": 2, "prompt": "What is done?", "model": "m1"}


def row(name: str) -> RecordingRow:
    """A recording of 24 seconds."""
    return RecordingRow(name, f"{name}.mp4", 24.0, 1_000_000, frame_rate=15.0, frame_count=360)


def cell(window: int, *, length: float = 4.0) -> Span:
    """The span of a window of four seconds."""
    return Span(window * length, (window + 1) * length)


def call(window: int, *, prompt: str = "", model: str = "m1") -> CallRow:
    """The call of one window; another prompt or model is another call."""
    return CallRow(f"{model}/{prompt}/{window}", "a", cell(window), model)


def answer(text: str, **fields: Any) -> Answer:
    """An answer of ten tokens."""
    return Answer(
        text,
        **{"model": "m1", "prompt_tokens": 100, "completion_tokens": 10, "latency": 0.2} | fields,
    )


def said(window: int, expected: float) -> str:
    """A reason for a pick."""
    return f"{expected:.1f} actions expected in window {window}"


def open_run(folder: Path, *, tags: Mapping[int, Sequence[str]] | None = None) -> Run:
    """A run with one recording, heard, whose windows 1 and 3 are picked."""
    ledger = Run(folder, PLAN)
    ledger.add(row("a"))
    ledger.hear("a", windows(".9.8.7"), key="v1", sound_bytes=50_000, access="index")
    picks = explain(windows(".9.8.7"), np.array([1, 3]), said)
    words = {cell(window): each for window, each in (tags or {}).items()}
    ledger.choose("a", picks, tags=words, forecast=0.5)
    ledger.unanswered([call(1), call(3)])
    return ledger


def fill(ledger: Run, answers: Mapping[int, str]) -> None:
    """Ask and answer some windows."""
    for window, text in answers.items():
        ledger.begin(call(window))
        ledger.keep(call(window), answer(text), spend=0.01)


def chosen_part(pick: Pick) -> Pick:
    """A pick of a run without what became of it."""
    return Pick(*(getattr(pick, field.name) for field in fields(Pick)))
