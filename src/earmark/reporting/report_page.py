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

from earmark.ledger import RecordingRow, Run
from earmark.media.atomic_file import replacing
from earmark.reporting.html_document import assemble
from earmark.reporting.report_data import PickStory, RecordingStory, Story, tell
from earmark.timeline import FloatArray
from earmark.version import VERSION


def write_page(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the page of `run` to `path`, whole or not at all."""
    page = render(tell(run, beside=path.parent, title=title))
    with replacing(path) as scratch:
        scratch.write_text(page, encoding="utf-8")
    return path


def render(story: Story) -> str:
    """The page as HTML."""
    return draw("page", _plain(story), styles=("page.css",))


def draw(name: str, data: Any, *, styles: Sequence[str]) -> str:
    """The page `name` as HTML: its middle and script in the frame all share, `data` put in."""
    body = _part("frame.html").replace("{{middle}}", _part(f"{name}.html"))
    script = _part("parts.js") + _part(f"{name}.js")
    return assemble("earmark", body, style="".join(map(_part, styles)), script=script, data=data)


def _part(name: str) -> str:
    """The text of a file of this package."""
    return files("earmark.reporting").joinpath(name).read_text(encoding="utf-8")


def _plain(story: Story) -> dict[str, Any]:
    return {
        "title": story.title,
        "opened": story.opened,
        "version": VERSION,
        "plan": story.plan,
        "totals": asdict(story.totals),
        "recordings": [_plain_recording(recording) for recording in story.recordings],
        "missed": [asdict(missed) for missed in story.missed],
    }


def _plain_recording(story: RecordingStory) -> dict[str, Any]:
    recording = story.recording
    return {
        "name": title_of(recording),
        "path": recording.path,
        "files": story.files,
        "duration": recording.duration,
        "size": recording.size_bytes,
        "frames": recording.frame_count,
        "window": story.window,
        "windows": len(story.scores),
        "scores": _curve(story.scores),
        "level": _curve(story.level),
        "hop": story.level_hop,
        "expected": round(story.expected, 2),
        "rule": story.rule,
        "forecast": story.forecast,
        "notes": story.notes,
        "access": story.access,
        "heard": story.sound_bytes,
        "picks": [_plain_pick(pick) for pick in story.picks],
    }


def _plain_pick(story: PickStory) -> dict[str, Any]:
    row, pick = story.row, story.row.pick
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
        "picture": base64.b64encode(story.picture).decode(),
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
