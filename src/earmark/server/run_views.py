"""The data for REST and agents: runs, the rows of an archive, recordings, timelines, picks.

Rows are computed once for each state of the run, their strips only for the rows of a page.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry, describe_evidence, evidence_by_span
from earmark.evidence.sound_query import stems
from earmark.media.source import name_of
from earmark.pipeline.answer import RunAnswer
from earmark.redaction import redact
from earmark.report.day import (
    Day,
    read_day,
    read_recordings,
    sound_lanes,
    speech_lane,
    summarise_run,
)
from earmark.report.moments import Moment
from earmark.report.report_page import forecast_of, scale_curve
from earmark.run.corrections import Agreement, read_corrections
from earmark.run.database import is_at_work
from earmark.run.live_rows import STREAM, gaps
from earmark.run.records import RecordingRow, RunPick
from earmark.run.run import Run
from earmark.run.summaries import RecordingSummary, read_strips, read_summaries
from earmark.server.run_library import RunLibrary, ServedRun
from earmark.timeline import FloatArray, Span

CELLS = 120

MOST_ENTRIES = 2000

LIVE = "streams are not recorded; `earmark watch --keep-clips` keeps a clip of every pick"

_NAMES = "name began duration picks answered failed activity doubt score said sounds corrections"
COLUMNS = ("found", *_NAMES.split())
"""`found` puts recordings with answers, then with picks, first."""

Row = dict[str, Any]

FILTERS: dict[str, Callable[[Row], bool]] = {
    "all": lambda row: True,  # noqa: ARG005
    "found": lambda row: row["answered"] > 0,
    "failed": lambda row: row["failed"] > 0,
    "open": lambda row: row["answered"] < row["picks"],
    "speech": lambda row: row["said"] > 0,
    "corrected": lambda row: row["corrections"] > 0,
}

_MARKS = ("picked", "answered", "failed", "corrected")
"""If several fall into one cell, the last of these is shown."""
_LETTERS = np.frombuffer(b".pafc", dtype=np.uint8)
_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})?")


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    sort: str = "name"
    falls: bool = False
    words: str = ""
    only: str = "all"
    sound: str = ""
    since: str = ""
    until: str = ""
    """First and last day, such as 2026-05-31."""
    activity: float = 0.0
    score: float = 0.0
    doubt: float = 0.0

    def __post_init__(self) -> None:
        if self.sort not in COLUMNS or self.only not in FILTERS:
            raise ValueError(
                f"sort by one of {', '.join(COLUMNS)}; show one of {', '.join(FILTERS)}"
            )
        if not (_DAY.fullmatch(self.since) and _DAY.fullmatch(self.until)):
            raise ValueError("give days as 2026-05-31")

    def holds(self, row: Row) -> bool:
        day = row["began"][:10]
        if (self.since or self.until) and not (day and self.since <= day <= (self.until or "9")):
            return False
        minimums = {"activity": self.activity, "score": self.score, "doubt": self.doubt}
        return FILTERS[self.only](row) and all(
            value <= 0 or (row[name] or 0.0) >= value for name, value in minimums.items()
        )


def list_runs(library: RunLibrary) -> list[dict[str, Any]]:
    """A run that cannot be read has a `failure` and no totals."""
    names = ("id", "name", "opened", "is_at_work", "totals", "told", "failure")
    rows = []
    for served in library.runs():
        try:
            view = describe_run(served)
            rows.append({name: view[name] for name in names})
        except RunError as error:
            failure = redact(str(error))
            rows.append({"id": served.key, "name": served.name, "failure": failure})
    return rows


def describe_run(served: ServedRun) -> dict[str, Any]:
    """`can_continue`: whether `caption` made it, so that the server can continue it."""

    def read(run: Run) -> dict[str, Any]:
        plan = run.plan()
        return {
            "opened": run.opened(),
            "totals": asdict(run.totals()),
            "agreement": asdict(Agreement.of(read_corrections(run))),
            "plan": plan,
            "can_continue": "ask" in plan and "find" not in plan,
            "missed": [asdict(recording) for recording in run.failed_recordings()[:100]],
            "told": summarise_run(run),
        }

    return {
        "id": served.key,
        "name": served.name,
        **served.cached("view", read),
        "is_at_work": is_at_work(served.folder),
        "failure": "",
    }


def find_rows(served: ServedRun, query: ArchiveQuery) -> list[Row]:
    rows = served.cached("archive rows", read_rows)
    return served.cached(("found", query), lambda run: _filter_and_sort(run, rows, query))


def read_page(served: ServedRun, query: ArchiveQuery, *, offset: int, limit: int) -> dict[str, Any]:
    """Marks along a recording: `.` nothing, `p` picked, `a` answered, `f` failed, `c` corrected."""
    matches = find_rows(served, query)
    rows = matches[offset : offset + limit]
    with served.open() as run:
        scores, spans = read_strips(run, [row["id"] for row in rows])
    marks = _draw_marks(np.array([row["duration"] for row in rows]), spans)
    return {
        "total": len(served.cached("archive rows", read_rows)),
        "found": len(matches),
        "offset": offset,
        "rows": [
            {"row": row, "scores": scale_curve(max_pool(curve, CELLS)), "marks": line}
            for row, curve, line in zip(rows, scores, marks, strict=True)
        ],
    }


def read_rows(run: Run) -> list[Row]:
    return list(map(_row, read_summaries(run)))


def _draw_marks(durations: FloatArray, marks: Sequence[tuple[int, float, float, str]]) -> list[str]:
    codes = np.zeros((len(durations), CELLS), dtype=np.uint8)
    if marks:
        rows, starts, ends, kinds = map(np.array, zip(*marks, strict=True))
        lengths = np.maximum(durations, 1e-9)[rows]
        first = np.clip(CELLS * starts / lengths, 0, CELLS - 1).astype(int)
        last = np.clip(CELLS * (ends - 1e-6) / lengths, first, CELLS - 1).astype(int)
        for code, name in enumerate(_MARKS):
            is_kind = kinds == name
            edges = np.zeros((len(durations), CELLS + 1), dtype=int)
            np.add.at(edges, (rows[is_kind], first[is_kind]), 1)
            np.add.at(edges, (rows[is_kind], last[is_kind] + 1), -1)
            codes[np.cumsum(edges[:, :-1], axis=1) > 0] = code + 1
    return [row.tobytes().decode() for row in _LETTERS[codes]]


def max_pool(values: FloatArray, most: int) -> FloatArray:
    """The maximum of each of `most` equal parts; `values` itself if it is not longer."""
    if len(values) <= most:
        return values
    edges = np.linspace(0, len(values), most, endpoint=False).astype(int)
    return np.maximum.reduceat(values, edges)


def _row(summary: RecordingSummary) -> Row:
    row, totals, score = summary.recording, summary.totals, summary.best_score
    is_heard = summary.has_forecast and totals.windows > 0 and row.duration > 0
    return {
        "id": row.id,
        "name": row.title,
        "path": row.path,
        "began": row.began,
        "duration": row.duration,
        "windows": totals.windows,
        "picks": totals.picks,
        "answered": totals.answered,
        "failed": totals.failed,
        # Expected actions per hour, and those that no pick touches; None without a forecast.
        "activity": totals.expected / row.duration * 3600 if is_heard else None,
        "doubt": max(0.0, totals.expected - totals.touched) if is_heard else None,
        "score": score if score is not None and math.isfinite(score) else None,
        "said": summary.said,
        "sounds": summary.sounds,
        "corrections": summary.corrections,
    }


def _filter_and_sort(run: Run, rows: list[Row], query: ArchiveQuery) -> list[Row]:
    query_words = query.words.casefold().split()
    with_words = run.recordings_with(query.words) if query_words else set()
    with_sound = run.recordings_with(query.sound, is_sound=True) if query.sound.strip() else None

    def matches(row: Row) -> bool:
        name_and_path = f"{row['name']} {row['path']}".casefold()
        return (
            query.holds(row)
            and (with_sound is None or row["id"] in with_sound)
            and (row["id"] in with_words or all(word in name_and_path for word in query_words))
        )

    def sort_key(row: Row) -> Any:
        if query.sort == "found":
            return row["answered"] == 0, row["picks"] == 0, _natural_key(row["name"])
        value = row[query.sort]
        return _natural_key(value) if query.sort == "name" else None if value == "" else value

    keyed = [(sort_key(row), row) for row in rows if matches(row)]
    sortable = [pair for pair in keyed if pair[0] is not None]
    sortable.sort(key=itemgetter(0), reverse=query.falls)
    # Rows without a value come last in either order.
    return [row for _, row in sortable] + [row for key, row in keyed if key is None]


@lru_cache(maxsize=1 << 16)
def _natural_key(text: str) -> list[tuple[int, str]]:
    pieces = re.split(r"([0-9]+)", text.casefold())
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]


class UnknownRecording(RunError): ...


def find_recording(run: Run, recording: str) -> RecordingRow:
    """By its id or, if no other has it, its short name."""
    if row := run.recording(recording):
        return row
    named = [
        row for row in run.recordings() if recording in (row.title, row.title.rpartition(".")[0])
    ]
    if len(named) != 1:
        why = "several have that name: use an id" if named else "list the recordings of the run"
        raise UnknownRecording(f"there is no recording {recording[:80]!r} in this run; {why}")
    return named[0]


def describe(run: Run, recording: str, served: ServedRun) -> dict[str, Any]:
    row, hidden = find_recording(run, recording), served.hidden(run)
    heard, choice = run.heard(row.id), run.choice(row.id)
    is_live = heard.access == STREAM
    return {
        "recording": asdict(row),
        "name": row.title,
        "window": heard.length,
        "windows": len(heard.scores),
        "expected": float(np.sum(heard.rates)),
        "coverage": forecast_of(run, row, heard),
        "day": read_recordings(run, [row])[0].to_json(),
        "choice": asdict(choice),
        "warnings": [warning for warning in heard.warnings if warning not in choice.notes],
        "parts": [
            {
                "part": index,
                "start": start,
                "name": name_of(path),
                "why_not": hidden or (LIVE if is_live else served.why_unplayable(path)),
            }
            for index, (path, start) in enumerate(row.files)
        ],
    }


def read_timeline(run: Run, recording: str, span: Span, cells: int) -> dict[str, Any]:
    """Curves go from 0 to 100. `is_whole` is false if a lane contains only every n-th entry."""
    row = find_recording(run, recording)
    span = Span(min(span.start, row.duration), min(span.end, row.duration))
    heard = run.heard(row.id)
    level, scores = heard.level, heard.scores
    (day,) = read_recordings(run, [row])
    lanes: dict[str, list[dict[str, Any]]] = {"picks": [], "speech": []}
    for pick in run.picks(row.id):
        if pick.span.overlaps(span):
            text = pick.caption if pick.caption is not None else ", ".join(pick.tags)
            lanes["picks"].append(_lane_entry(pick.span, text[:200], pick.status))
    lanes["speech"] = speech_lane(run.evidence(row.id, kinds=("heard", "said"), within=span))
    steps = {name: math.ceil(len(lane) / MOST_ENTRIES) or 1 for name, lane in lanes.items()}
    corrections = read_corrections(run, row.id)
    return {
        **asdict(span),
        "level": _cells(level.values, level.hop, span, cells) if level else [],
        "score": _cells(scores, heard.length, span, cells) if len(scores) else [],
        **{name: lane[:: steps[name]] for name, lane in lanes.items()},
        "sounds": sound_lanes(day),
        "corrections": [asdict(each) for each in corrections if each.span.overlaps(span)],
        "gaps": [
            _lane_entry(gap, reason, "gap")
            for gap, reason in gaps(run, row.id)
            if gap.overlaps(span)
        ],
        "is_whole": max(steps.values()) == 1,
    }


def _lane_entry(span: Span, text: str, kind: str) -> dict[str, Any]:
    return {**asdict(span), "text": text, "kind": kind}


def read_picks(
    run: Run, recording: str, *, offset: int = 0, limit: int = 500, words: str = ""
) -> dict[str, Any]:
    """Picks as in `RunPick.to_json`, with `has_picture` and `verdicts`, the latest last."""
    row = find_recording(run, recording)
    picks, query = list(run.picks(row.id)), stems(words)
    if query:
        evidence = evidence_by_span(run.evidence(row.id), [pick.span for pick in picks])
        picks = [pick for pick in picks if _matches(query, pick, evidence[pick.span])]
    verdicts: dict[Span, list[dict[str, Any]]] = defaultdict(list)
    for correction in read_corrections(run, row.id):
        if correction.verdict != "missed" and not correction.withdrawn:
            verdicts[correction.span].append(asdict(correction))
    views = [
        replace(pick, evidence=describe_evidence(run.evidence(row.id, within=pick.span))).to_json()
        | {"has_picture": run.has_thumbnail(row.id, pick.span), "verdicts": verdicts[pick.span]}
        for pick in picks[offset : offset + limit]
    ]
    return {"total": len(picks), "offset": offset, "picks": views}


def moment_json(served: ServedRun, moment: Moment) -> dict[str, Any]:
    """With the id of its run, and names in place of paths."""
    names = {"path": moment.name, "file": name_of(moment.clips[0].path)}
    return moment.to_json() | {"run": served.key, **names}


def answer_json(served: ServedRun, answer: RunAnswer) -> dict[str, Any]:
    told = answer.to_json()
    told["likeliest"] = [moment_json(served, moment) for moment in answer.likeliest]
    told["sentences"] = [
        {
            "text": sentence.text,
            "citations": [
                {"quote": each.quote, "moment": moment_json(served, each.entry)}
                for each in sentence.citations
            ],
        }
        for sentence in answer.answer.sentences
    ]
    return told


def read_day_json(served: ServedRun, date: str) -> dict[str, Any]:
    day: Day = served.cached(("day", date), lambda run: read_day(run, date=date))
    told = day.to_json()
    told["moments"] = [moment_json(served, moment) for moment in day.moments]
    for line, view in zip(day.lines, told["lines"], strict=True):
        view["moments"] = [
            moment_json(served, each) for each in line.moments[: len(view["moments"])]
        ]
    return told


def _matches(query: list[str], pick: RunPick, evidence: list[EvidenceEntry]) -> bool:
    texts = [pick.caption or "", *pick.tags, *(entry.text for entry in evidence)]
    words = stems(" ".join(texts))
    return all(any(word.startswith(part) for word in words) for part in query)


def _cells(values: FloatArray, hop: float, span: Span, cells: int) -> list[int]:
    first = max(0, math.floor(span.start / hop))
    last = max(first + 1, math.ceil(span.end / hop))
    scaled = np.asarray(scale_curve(values))[first:last]
    if 0 < len(scaled) <= cells:
        times = span.start + (np.arange(cells) + 0.5) * span.duration / cells
        scaled = scaled[np.clip((times / hop - first).astype(int), 0, len(scaled) - 1)]
    whole: list[int] = max_pool(scaled, cells).tolist()
    return whole
