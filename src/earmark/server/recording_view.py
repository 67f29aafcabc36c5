"""One recording as the page shows it: time line, picks and corrections."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.errors import LedgerError
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.evidence_line import describe_evidence, evidence_by_span
from earmark.evidence.word_stems import stems
from earmark.ledger.corrections import Correction, read_corrections
from earmark.ledger.records import ChoiceRow, HeardRow, PickRow, RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.source import name_of
from earmark.reporting.report_page import forecast_of, scale_curve
from earmark.reporting.run_overview import overview_of
from earmark.selection.pick import Pick
from earmark.server.archive_view import max_pool
from earmark.server.media_stream import why_unplayable
from earmark.timeline import FloatArray, Span

MOST_ENTRIES = 2000
"""Most entries of one lane, more than a screen has columns."""


@dataclass(frozen=True, slots=True)
class MediaPart:
    """A file of a recording."""

    part: int
    start: float
    """Seconds from the start of the recording."""
    name: str
    why_not: str = ""
    """Why it cannot be played from this server; empty if it can."""


@dataclass(frozen=True, slots=True)
class RecordingDetail:
    """One recording."""

    recording: RecordingRow
    name: str
    window: float
    windows: int
    expected: float
    """Expected number of actions."""
    coverage: dict[str, Any]
    """The forecast in numbers and words: share, range, sure, words, actions."""
    overview: list[tuple[str, tuple[str, ...]]]
    """What happened, in lines, each with its heading."""
    choice: ChoiceRow
    warnings: list[str]
    """Warnings that are not among the notes of the choice."""
    parts: list[MediaPart]


@dataclass(frozen=True, slots=True)
class PickView:
    """A pick with its outcome."""

    pick: Pick
    status: str
    tags: list[str]
    evidence: str
    """The evidence from small models, in a line."""
    caption: str | None
    model: str
    failure: str | None
    note: str
    has_picture: bool
    verdicts: list[Correction]
    """Corrections of its answer, the latest last."""


@dataclass(frozen=True, slots=True)
class PickPage:
    """Some picks of a recording, in order of time."""

    total: int
    offset: int
    picks: list[PickView]


@dataclass(frozen=True, slots=True)
class LaneEntry:
    """An entry of a lane, from `start` to `end` in seconds."""

    start: float
    end: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class TimelineView:
    """A span of a recording, at the resolution of a screen."""

    start: float
    end: float
    level: list[int]
    """From 0 to 100, at most one per cell; empty if the level is not known."""
    score: list[int]
    picks: list[LaneEntry]
    sounds: list[LaneEntry]
    speech: list[LaneEntry]
    corrections: list[Correction]
    is_whole: bool
    """False if a lane has too many entries, and only every n-th is included."""


class UnknownRecording(LedgerError):
    """The run has no recording of that name."""


def find_recording(run: Run, recording: str) -> RecordingRow:
    """The recording with that id; raises `UnknownRecording` if the run has none."""
    row = run.recording(recording)
    if row is None:
        raise UnknownRecording(f"there is no recording {recording[:80]!r} in this run")
    return row


def describe(run: Run, row: RecordingRow, *, hidden: str = "") -> RecordingDetail:
    """A recording as a whole; `hidden` is why it may not be played, empty if it may."""
    heard, choice = run.heard(row.id) or HeardRow(row.id), run.choice(row.id)
    return RecordingDetail(
        recording=row,
        name=row.title,
        window=heard.window,
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


def read_timeline(run: Run, row: RecordingRow, span: Span, cells: int) -> TimelineView:
    """The curves and entries in `span`, in `cells` columns."""
    heard = run.heard(row.id) or HeardRow(row.id)
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
    level, step = heard.level, heard.window / heard.per_call
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
    """A page of picks in order of time; with `words`, only those that contain all of them.

    Caption, tags and evidence are searched, stemmed as in search.
    """
    every, query = list(run.picks(row.id)), stems(words)
    if query:
        known = evidence_by_span(run.evidence(row.id), [pick.span for pick in every])
        every = [pick for pick in every if _holds(query, pick, known[pick.span])]
    said: dict[Span, list[Correction]] = defaultdict(list)
    for one in read_corrections(run, row.id):
        if one.verdict != "missed" and not one.withdrawn:
            said[one.span].append(one)
    shown = every[offset : offset + limit]
    return PickPage(len(every), offset, [_view(run, pick, said[pick.span]) for pick in shown])


def _holds(query: list[str], row: PickRow, known: list[EvidenceEntry]) -> bool:
    """Whether every stem of `query` begins a word of the pick's caption, tags or evidence."""
    own = stems(" ".join([row.caption or "", *row.tags, *(entry.text for entry in known)]))
    return all(any(word.startswith(part) for word in own) for part in query)


def _view(run: Run, row: PickRow, verdicts: list[Correction]) -> PickView:
    answer = row.answer
    return PickView(
        pick=row.pick,
        status=row.status,
        tags=list(row.tags),
        evidence=describe_evidence(run.evidence(row.recording, within=row.span)),
        caption=row.caption,
        model=answer.model if answer else "",
        failure=row.failure,
        note=answer.note if answer else "",
        has_picture=run.has_thumbnail(row.recording, row.span),
        verdicts=verdicts,
    )


def _cells(values: FloatArray, hop: float, span: Span, cells: int) -> list[int]:
    """The values in `span`, scaled by the whole recording; `cells` of them, none if empty."""
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
