from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from earmark.errors import RunError
from earmark.evidence.evidence_entry import EvidenceEntry, describe_evidence, evidence_by_span
from earmark.evidence.word_stems import stems
from earmark.media.source import name_of, suffix_of
from earmark.media.source_listing import SUFFIXES
from earmark.redaction import is_redacted
from earmark.report.report_page import forecast_of, scale_curve
from earmark.report.run_overview import overview_of
from earmark.run.corrections import read_corrections
from earmark.run.records import HeardRow, RecordingRow, RunPick, title_of
from earmark.run.run import Run
from earmark.search.archive_search import FoundMoment
from earmark.server.archive_view import max_pool
from earmark.server.run_library import ServedRun
from earmark.timeline import FloatArray, Span

MOST_ENTRIES = 2000


class UnknownRecording(RunError): ...


def find_recording(run: Run, recording: str) -> RecordingRow:
    row = run.recording(recording)
    if row is None:
        raise UnknownRecording(f"there is no recording {recording[:80]!r} in this run")
    return row


def describe(run: Run, row: RecordingRow, *, hidden: str = "") -> dict[str, Any]:
    heard, choice = run.heard(row.id) or HeardRow(row.id), run.choice(row.id)
    return {
        "recording": asdict(row),
        "name": row.title,
        "window": heard.window,
        "windows": len(heard.scores),
        "expected": float(np.sum(heard.rates)),
        "coverage": forecast_of(run, row, heard),
        "overview": list(overview_of(run, row).lines()),
        "choice": asdict(choice),
        "warnings": [warning for warning in heard.warnings if warning not in choice.notes],
        "parts": [
            {
                "part": index,
                "start": start,
                "name": name_of(path),
                "why_not": hidden or why_unplayable(path),
            }
            for index, (path, start) in enumerate(row.files)
        ],
    }


def why_unplayable(path: str) -> str:
    """Only media files are served: a run from somebody else may name any file of this machine."""
    if suffix_of(path) not in SUFFIXES:
        return f"{name_of(path)} is not a known media file"
    if is_redacted(path):
        return "its address was stored without its key"
    return ""


def read_timeline(run: Run, row: RecordingRow, span: Span, cells: int) -> dict[str, Any]:
    """Curves go from 0 to 100. `is_whole` is false if a lane contains only every n-th entry."""
    heard = run.heard(row.id) or HeardRow(row.id)
    level, scores = heard.level, heard.scores
    lanes: dict[str, list[dict[str, Any]]] = {"picks": [], "sounds": [], "speech": []}
    for pick in run.picks(row.id):
        if pick.span.overlaps(span):
            text = pick.caption if pick.caption is not None else ", ".join(pick.tags)
            lanes["picks"].append(_lane_entry(pick.span, text[:200], pick.status))
    for entry in run.evidence(row.id, kinds=("heard", "said"), within=span):
        lane = lanes["sounds" if entry.kind == "heard" else "speech"]
        lane.append(_lane_entry(entry.span, entry.text, entry.kind))
    steps = {name: math.ceil(len(lane) / MOST_ENTRIES) or 1 for name, lane in lanes.items()}
    corrections = read_corrections(run, row.id)
    return {
        **asdict(span),
        "level": _cells(level.values, level.hop, span, cells) if level else [],
        "score": _cells(scores, heard.window, span, cells) if len(scores) else [],
        **{name: lane[:: steps[name]] for name, lane in lanes.items()},
        "corrections": [asdict(each) for each in corrections if each.span.overlaps(span)],
        "is_whole": max(steps.values()) == 1,
    }


def _lane_entry(span: Span, text: str, kind: str) -> dict[str, Any]:
    return {**asdict(span), "text": text, "kind": kind}


def read_picks(
    run: Run, row: RecordingRow, *, offset: int = 0, limit: int = 500, words: str = ""
) -> dict[str, Any]:
    """Picks as in `RunPick.to_json`, with `has_picture` and `verdicts`, the latest last."""
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


def describe_moment(served: ServedRun, moment: FoundMoment) -> dict[str, Any]:
    """With names instead of paths."""
    folders = served.cached("folders", lambda run: run.folders())
    title = title_of(moment.hit.path, folders.get(moment.hit.path, ""))
    names = {"run": served.key, "name": title, "path": title, "file": name_of(moment.clip.path)}
    return moment.to_json() | names


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
