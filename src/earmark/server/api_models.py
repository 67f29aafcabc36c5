"""The answers of REST, for its OpenAPI document; the routes make them as plain JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from earmark.run.corrections import Agreement, Correction
from earmark.run.records import ChoiceRow, FailedRecording, RecordingRow, Totals


@dataclass(frozen=True, slots=True)
class SessionView:
    version: str
    model: str
    why_not: str
    input_price: float
    output_price: float
    max_spend: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    id: str
    name: str
    opened: str = ""
    is_at_work: bool = False
    totals: Totals = field(default_factory=Totals)
    failure: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetail(RunListing):
    can_continue: bool
    agreement: Agreement
    plan: dict[str, Any]
    missed: list[FailedRecording]


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    id: str
    name: str
    path: str
    began: str
    duration: float
    windows: int
    picks: int
    answered: int
    failed: int
    activity: float | None
    doubt: float | None
    score: float | None
    said: int
    sounds: int
    corrections: int


@dataclass(frozen=True, slots=True)
class StripRow:
    row: ArchiveRow
    scores: list[int]
    marks: str


@dataclass(frozen=True, slots=True)
class ArchivePage:
    total: int
    found: int
    offset: int
    rows: list[StripRow]


@dataclass(frozen=True, slots=True)
class MediaPart:
    part: int
    start: float
    name: str
    why_not: str


@dataclass(frozen=True, slots=True)
class RecordingDetail:
    recording: RecordingRow
    name: str
    window: float
    windows: int
    expected: float
    coverage: dict[str, Any]
    day: dict[str, Any]
    choice: ChoiceRow
    warnings: list[str]
    parts: list[MediaPart]


@dataclass(frozen=True, slots=True)
class LaneEntry:
    start: float
    end: float
    text: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class SoundLane:
    name: str
    entries: list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class TimelineView:
    start: float
    end: float
    level: list[int]
    score: list[int]
    picks: list[LaneEntry]
    sounds: list[SoundLane]
    speech: list[LaneEntry]
    corrections: list[Correction]
    gaps: list[LaneEntry]
    """Of a live source: what could not be heard, and why."""
    is_whole: bool


@dataclass(frozen=True, slots=True)
class PickPage:
    total: int
    offset: int
    picks: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SoundCount:
    name: str
    recordings: int


@dataclass(frozen=True, slots=True)
class MomentView:
    """As in `Moment.to_json`."""

    run: str
    recording: str
    name: str
    path: str
    start: float
    end: float
    clock: str | None
    began: str | None
    part: int
    file: str
    file_start: float
    kinds: list[str]
    reasons: list[dict[str, Any]]
    spans: list[tuple[float, float]]
    picture: tuple[float, float] | None
    rank: float


@dataclass(frozen=True, slots=True)
class DayView:
    """As in `Day.to_json`."""

    title: str
    head: str
    duration: float
    active: float | None
    recordings: list[dict[str, Any]]
    lines: list[dict[str, Any]]
    moments: list[MomentView]
    cost: str
    missing: list[str]
    days: list[tuple[str, int]]
    paragraph: dict[str, Any] | None
    sections: list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True)
class AnswerView:
    """As in `RunAnswer.to_json`."""

    question: str
    sentences: list[dict[str, Any]]
    unknown: str
    left_out: int
    entries: int
    tokens: int
    bought: int
    unasked: int
    likeliest: list[MomentView]


@dataclass(frozen=True, slots=True)
class JobView:
    id: str
    kind: str
    state: str
    run: str
    progress: dict[str, Any]
    result: dict[str, Any] | None
    failure: str


@dataclass(frozen=True, slots=True)
class SourceView:
    id: str
    name: str
