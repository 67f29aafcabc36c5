from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry, describe_evidence, evidence_by_span
from earmark.evidence.sound_query import stems
from earmark.media.source import name_of, suffix_of
from earmark.media.source_listing import SUFFIXES
from earmark.redaction import is_redacted
from earmark.report.report_page import forecast_of, scale_curve
from earmark.report.run_overview import overview_of
from earmark.run.corrections import Correction, read_corrections
from earmark.run.records import ChoiceRow, RecordingRow, RunPick
from earmark.run.run import Run
from earmark.server.archive_view import max_pool
from earmark.timeline import FloatArray, Span

MOST_ENTRIES = 2000


@dataclass(frozen=True, slots=True)
class MediaPart:
    part: int
    start: float
    name: str
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class RecordingDetail:
    recording: RecordingRow
    name: str
    window: float
    windows: int
    expected: float
    coverage: dict[str, Any]
    """Share, range, sure, words, actions."""
    overview: list[tuple[str, tuple[str, ...]]]
    choice: ChoiceRow
    warnings: list[str]
    parts: list[MediaPart]


@dataclass(frozen=True, slots=True)
class PickPage:
    total: int
    offset: int
    picks: list[dict[str, Any]]
    """See `RunPick.to_json`; also `has_picture`, and `verdicts`, the latest last."""


@dataclass(frozen=True, slots=True)
class LaneEntry:
    start: float
    end: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    start: float
    end: float
    level: list[int]
    """From 0 to 100; empty if not known."""
    score: list[int]
    picks: list[LaneEntry]
    sounds: list[LaneEntry]
    speech: list[LaneEntry]
    corrections: list[Correction]
    is_whole: bool
    """False if a lane has too many entries, and only every n-th is included."""


class UnknownRecording(RunError): ...


def find_recording(run: Run, recording: str) -> RecordingRow:
    row = run.recording(recording)
    if row is None:
        raise UnknownRecording(f"there is no recording {recording[:80]!r} in this run")
    return row


def describe(run: Run, row: RecordingRow, *, hidden: str = "") -> RecordingDetail:
    heard, choice = run.heard(row.id), run.choice(row.id)
    return RecordingDetail(
        recording=row,
        name=row.title,
        window=heard.length,
        windows=len(heard.scores),
        expected=float(np.sum(heard.rates)),
        coverage=forecast_of(run, row, heard),
        overview=list(overview_of(run, row).lines()),
        choice=choice,
        warnings=[warning for warning in heard.warnings if warning not in choice.notes],
        parts=[
            MediaPart(place, start, name_of(path), hidden or why_unplayable(path))
            for place, (path, start) in enumerate(row.files)
        ],
    )


def why_unplayable(path: str) -> str:
    """Only media files are served: a run from somebody else may name any file of this machine."""
    if suffix_of(path) not in SUFFIXES:
        return f"{name_of(path)} is not a known media file"
    if is_redacted(path):
        return "its address was stored without its key"
    return ""


def read_timeline(run: Run, row: RecordingRow, span: Span, cells: int) -> TimelineView:
    heard = run.heard(row.id)
    lanes: dict[str, list[LaneEntry]] = {"picked": [], "heard": [], "said": []}
    for pick in run.picks(row.id):
        if pick.span.overlaps(span):
            text = pick.caption if pick.caption is not None else ", ".join(pick.tags)
            when = pick.span
            lanes["picked"].append(LaneEntry(when.start, when.end, text[:200], pick.status))
    for entry in run.evidence(row.id, kinds=("heard", "said"), within=span):
        when = entry.span
        lanes[entry.kind].append(LaneEntry(when.start, when.end, entry.text, entry.kind))
    steps = {name: math.ceil(len(lane) / MOST_ENTRIES) or 1 for name, lane in lanes.items()}
    shown = {name: lane[:: steps[name]] for name, lane in lanes.items()}
    level, step = heard.level, heard.length
    return TimelineView(
        start=span.start,
        end=span.end,
        level=_cells(level.values, level.hop, span, cells) if level else [],
        score=_cells(heard.scores, step, span, cells) if len(heard.scores) else [],
        picks=shown["picked"],
        sounds=shown["heard"],
        speech=shown["said"],
        corrections=[one for one in read_corrections(run, row.id) if one.span.overlaps(span)],
        is_whole=max(steps.values()) == 1,
    )


def read_picks(run: Run, row: RecordingRow, *, offset: int, limit: int, words: str) -> PickPage:
    picks, query = list(run.picks(row.id)), stems(words)
    if query:
        known = evidence_by_span(run.evidence(row.id), [pick.span for pick in picks])
        picks = [pick for pick in picks if _holds(query, pick, known[pick.span])]
    verdicts: dict[Span, list[Correction]] = defaultdict(list)
    for correction in read_corrections(run, row.id):
        if correction.verdict != "missed" and not correction.withdrawn:
            verdicts[correction.span].append(correction)
    views = [
        replace(pick, evidence=describe_evidence(run.evidence(row.id, within=pick.span))).to_json()
        | {"has_picture": run.has_thumbnail(row.id, pick.span), "verdicts": verdicts[pick.span]}
        for pick in picks[offset : offset + limit]
    ]
    return PickPage(len(picks), offset, views)


def _holds(query: list[str], row: RunPick, known: list[EvidenceEntry]) -> bool:
    own = stems(" ".join([row.caption or "", *row.tags, *(entry.text for entry in known)]))
    return all(any(word.startswith(part) for word in own) for part in query)


def _cells(values: FloatArray, hop: float, span: Span, cells: int) -> list[int]:
    first = max(0, math.floor(span.start / hop))
    last = max(first + 1, math.ceil(span.end / hop))
    scaled = np.asarray(scale_curve(values), dtype=float)[first:last]
    if len(scaled) > cells:
        return [round(value) for value in max_pool(scaled, cells).tolist()]
    if len(scaled) == 0:
        return []
    times = span.start + (np.arange(cells) + 0.5) * span.duration / cells
    places = np.clip((times / hop - first).astype(int), 0, len(scaled) - 1)
    return [round(value) for value in scaled[places].tolist()]
