"""The page of a run: it opens from disk, with no network, and tells what the run did.

It is one file, pictures and all, unless it has very many picks: then its pictures are files in a
folder beside it, and a browser opens those that come into view.

Whatever a model answered is data in the page, never markup: see `html_document`.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.forecast_error import ActionRange, CoverageRange, as_count, as_range, how_sure
from earmark.grid import count_windows
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.media.atomic_file import replacing
from earmark.reporting.html_document import assemble
from earmark.reporting.near_duplicates import fold_repeats
from earmark.reporting.report_data import PickReport, RecordingReport, RunReport, load_report
from earmark.timeline import FloatArray
from earmark.version import VERSION

MOST_EMBEDDED = 1000
"""Picks whose pictures lie in the page itself: some ten megabytes."""

MOST_TEXT = 4000
"""Characters of a caption on the page; the run and its exports have all of them."""


SCRIPTS = {"page": ("word_search.js", "lanes.js")}
"""What a page's own script needs before it."""


def write_page(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the page of `run` to `path`, whole or not at all."""
    return save_page(load_report(run, beside=path.parent, title=title), path)


def save_page(report: RunReport, path: Path) -> Path:
    """Write `report` to `path`; its pictures to a folder beside it if there are very many."""
    is_large = sum(len(recording.picks) for recording in report.recordings) > MOST_EMBEDDED
    files = PictureFiles(pictures_of(path)) if is_large else None
    page = render(report, files)
    with replacing(path) as scratch:
        scratch.write_text(page, encoding="utf-8")
    if files is not None:
        files.remove_others()
    return path


def pictures_of(path: Path) -> Path:
    """The folder of the pictures of the page at `path`, if it has one."""
    return path.with_name(f"{path.stem}_pictures")


@dataclass(slots=True, eq=False)
class PictureFiles:
    """The pictures of a page as files named by their content: written once, however often it is."""

    folder: Path
    names: set[str] = field(default_factory=set)

    def keep(self, picture: bytes) -> str:
        """The name of the file that holds `picture`; empty for none."""
        if not picture:
            return ""
        name = f"{hashlib.sha256(picture).hexdigest()[:32]}.jpg"
        if name not in self.names and not (self.folder / name).exists():
            with replacing(self.folder / name) as scratch:
                scratch.write_bytes(picture)
        self.names.add(name)
        return name

    def remove_others(self) -> None:
        """Remove the pictures of earlier pages that this one does not show."""
        for path in self.folder.glob("*.jpg"):
            if path.name not in self.names:
                path.unlink(missing_ok=True)


def render(report: RunReport, files: PictureFiles | None = None) -> str:
    """The page as HTML; its pictures in `files`, or else in the page itself."""
    return draw("page", _plain(report, files), styles=("page.css",), has_files=files is not None)


_BEGIN = """"use strict";
const run = JSON.parse(document.getElementById("data").textContent);
"""
"""Of the script of every page: what it tells of."""


def draw(name: str, data: Any, *, styles: Sequence[str], has_files: bool = False) -> str:
    """The page `name` as HTML: its middle and script in the frame all share, `data` put in."""
    body = _part("frame.html").replace("{{middle}}", _part(f"{name}.html"))
    scripts = map(_part, ("parts.js", *SCRIPTS.get(name, ()), f"{name}.js"))
    script = re.sub(r"^export ", "", f"{_BEGIN}{''.join(scripts)}", flags=re.MULTILINE)
    style = "".join(map(_part, styles))
    return assemble("earmark", body, style=style, script=script, data=data, has_files=has_files)


def _part(name: str) -> str:
    """The text of a file of this package."""
    return files("earmark.reporting").joinpath(name).read_text(encoding="utf-8")


def _plain(report: RunReport, files: PictureFiles | None) -> dict[str, Any]:
    return {
        "title": report.title,
        "opened": report.opened,
        "version": VERSION,
        "plan": report.plan,
        "totals": asdict(report.totals),
        "coverage": say_forecast(report.coverage, report.actions),
        "pictures": f"{quote(files.folder.name)}/" if files else "",
        "recordings": [_plain_recording(recording, files) for recording in report.recordings],
        "missed": [asdict(missed) for missed in report.missed],
    }


def _plain_recording(report: RecordingReport, files: PictureFiles | None) -> dict[str, Any]:
    recording, heard, choice = report.recording, report.heard, report.choice
    return {
        "name": title_of(recording),
        "path": recording.path,
        "files": report.files,
        "duration": recording.duration,
        "size": recording.size_bytes,
        "frames": recording.frame_count,
        "marks": recording.marks,
        "window": heard.window,
        "windows": count_windows(recording.duration, heard.window)
        if heard.per_call > 1
        else len(heard.scores),
        "step": heard.window / heard.per_call,
        "scores": scale_curve(heard.scores),
        "level": scale_curve(heard.level.values) if heard.level else [],
        "hop": heard.level.hop if heard.level else 1.0,
        **asdict(choice),
        "coverage": say_forecast((choice.forecast, choice.forecast_range), report.actions),
        "access": heard.access,
        "heard": heard.sound_bytes,
        "picks": [
            _plain_pick(pick, files) | {"leader": leader}
            for pick, leader in zip(report.picks, _leaders(report.picks), strict=True)
        ],
        "evidence": [_plain_evidence(entry) for entry in report.evidence],
        "overview": list(report.overview.lines()) if report.overview else [],
    }


def say_forecast(
    coverage: tuple[float | None, CoverageRange | None],
    actions: tuple[float | None, ActionRange | None],
) -> dict[str, Any]:
    """A forecast as a page shows it: the share of how many actions, and how sure both are."""
    share, told = coverage
    return {
        "share": None if share is None else round(share, 4),
        "range": (round(told.low, 4), round(told.high, 4)) if told else None,
        "sure": how_sure(share, told),
        "words": as_range(share, told),
        "actions": as_count(*actions),
    }


def _leaders(picks: Sequence[PickReport]) -> list[int]:
    """The pick that each is folded into, because its answer says the same; its own place if not."""
    kept = [pick.row.kept for pick in picks]
    return fold_repeats([each.answer.text if each else None for each in kept])


def _plain_evidence(entry: EvidenceEntry) -> list[Any]:
    start, end = round(entry.span.start, 2), round(entry.span.end, 2)
    sure, text = round(entry.confidence, 2), _shortened(entry.text)
    return [start, end, entry.kind, text, sure, entry.origin]


def _plain_pick(report: PickReport, files: PictureFiles | None) -> dict[str, Any]:
    row, pick, picture = report.row, report.row.pick, report.load_picture()
    answer = row.kept.answer if row.kept else None
    return {
        "window": pick.window,
        "start": pick.start,
        "end": pick.end,
        "instant": pick.instant,
        "score": round(pick.score, 3) if math.isfinite(pick.score) else None,
        "expected": round(pick.expected, 2),
        "reason": pick.reason,
        "round": row.round,
        "activity": row.activity,
        "tags": row.tags,
        "status": row.status,
        "caption": _shortened(answer.text) if answer else None,
        "model": answer.model if answer else None,
        "tokens": (answer.prompt_tokens or 0) + (answer.completion_tokens or 0) if answer else 0,
        "latency": round(answer.latency, 2) if answer else 0,
        "cut": bool(answer and answer.finish == "length"),
        "note": answer.note if answer else "",
        "failure": _shortened(row.failure) if row.failure else None,
        "picture": files.keep(picture) if files else base64.b64encode(picture).decode(),
    }


def _shortened(text: str) -> str:
    """No more of `text` than a page can take."""
    cut = f"… ({len(text):,} characters in all; the run has them)"
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}{cut}"


def scale_curve(values: FloatArray) -> list[int]:
    """The values from 0 (the lowest) to 100 (the highest); a flat curve is all 0, NaN too."""
    if len(values) == 0:
        return []
    # The lowest hundredth is left out of the scale: digital silence is minus infinity.
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return [0] * len(values)
    low, high = _quantile(finite, 0.01), finite.max()
    scaled = (values - low) / (high - low) if high > low else np.zeros(len(values))
    whole: list[int] = np.round(100 * np.clip(np.nan_to_num(scaled), 0, 1)).astype(int).tolist()
    return whole


def _quantile(values: FloatArray, share: float) -> float:
    """As `numpy.quantile` has it, which takes ten times as long for the few values of a strip."""
    place = share * (len(values) - 1)
    first, second = int(place), min(int(place) + 1, len(values) - 1)
    low, high = np.partition(values, (first, second))[[first, second]]
    return float(low + (high - low) * (place - first))


def title_of(recording: RecordingRow) -> str:
    """What to call a recording: as its user does, or by its file."""
    return recording.name or name_of(recording.path)


def name_of(path: str) -> str:
    """The last part of a path or address."""
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
