"""The page of a run: one file that opens from disk, with no network, and tells what it did.

Whatever a model answered is data in the page, never markup: see `html_document`.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import replacing
from earmark.reporting.html_document import assemble
from earmark.reporting.report_data import PickReport, RecordingReport, RunReport, load_report
from earmark.timeline import FloatArray
from earmark.version import VERSION


def write_page(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the page of `run` to `path`, whole or not at all."""
    page = render(load_report(run, beside=path.parent, title=title))
    with replacing(path) as scratch:
        scratch.write_text(page, encoding="utf-8")
    return path


def render(report: RunReport) -> str:
    """The page as HTML."""
    return draw("page", _plain(report), styles=("page.css",))


def draw(name: str, data: Any, *, styles: Sequence[str]) -> str:
    """The page `name` as HTML: its middle and script in the frame all share, `data` put in."""
    body = _part("frame.html").replace("{{middle}}", _part(f"{name}.html"))
    script = _part("parts.js") + _part(f"{name}.js")
    return assemble("earmark", body, style="".join(map(_part, styles)), script=script, data=data)


def _part(name: str) -> str:
    """The text of a file of this package."""
    return files("earmark.reporting").joinpath(name).read_text(encoding="utf-8")


def _plain(report: RunReport) -> dict[str, Any]:
    return {
        "title": report.title,
        "opened": report.opened,
        "version": VERSION,
        "plan": report.plan,
        "totals": asdict(report.totals),
        "recordings": [_plain_recording(recording) for recording in report.recordings],
        "missed": [asdict(missed) for missed in report.missed],
    }


def _plain_recording(report: RecordingReport) -> dict[str, Any]:
    recording, heard, choice = report.recording, report.heard, report.choice
    return {
        "name": title_of(recording),
        "path": recording.path,
        "files": report.files,
        "duration": recording.duration,
        "size": recording.size_bytes,
        "frames": recording.frame_count,
        "window": heard.window,
        "windows": len(heard.scores),
        "scores": _curve(heard.scores),
        "level": _curve(heard.level.values) if heard.level else [],
        "hop": heard.level.hop if heard.level else 1.0,
        "expected": round(float(np.sum(heard.rates)), 2),
        **asdict(choice),
        "access": heard.access,
        "heard": heard.sound_bytes,
        "picks": [_plain_pick(pick) for pick in report.picks],
    }


def _plain_pick(report: PickReport) -> dict[str, Any]:
    row, pick = report.row, report.row.pick
    answer = row.kept.answer if row.kept else None
    return {
        "window": pick.window,
        "start": pick.start,
        "end": pick.end,
        "instant": pick.instant,
        "score": round(pick.score, 3) if math.isfinite(pick.score) else None,
        "expected": round(pick.expected, 2),
        "reason": pick.reason,
        "tags": row.tags,
        "status": row.status,
        "caption": answer.text if answer else None,
        "model": answer.model if answer else None,
        "tokens": (answer.prompt_tokens or 0) + (answer.completion_tokens or 0) if answer else 0,
        "latency": round(answer.latency, 2) if answer else 0,
        "cut": bool(answer and answer.finish == "length"),
        "note": answer.note if answer else "",
        "failure": row.failure,
        "picture": base64.b64encode(report.picture).decode(),
    }


def _curve(values: FloatArray) -> list[int]:
    """The values from 0 (the lowest) to 100 (the highest); a flat curve is all 0, NaN too."""
    if len(values) == 0:
        return []
    # The lowest hundredth is left out of the scale: digital silence is minus infinity.
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return [0] * len(values)
    low, high = np.quantile(finite, 0.01), finite.max()
    scaled = (values - low) / (high - low) if high > low else np.zeros(len(values))
    whole: list[int] = np.round(100 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(int).tolist()
    return whole


def title_of(recording: RecordingRow) -> str:
    """What to call a recording: as its user does, or by its file."""
    return recording.name or name_of(recording.path)


def name_of(path: str) -> str:
    """The last part of a path or address."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
