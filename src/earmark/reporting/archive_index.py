"""The report of an archive: an index of all recordings, and a page for each beside it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from earmark.gate.forecast_error import CONFIDENCE, ForecastError, as_range
from earmark.grid import Windows
from earmark.ledger.records import HeardRow, parts_of
from earmark.ledger.run_reader import Run
from earmark.ledger.run_summaries import RecordingSummary, read_summaries
from earmark.media.atomic_file import replacing
from earmark.reporting.report_page import (
    PAGES,
    describe_run,
    forecast_of,
    save_page,
    write_page,
)
from earmark.reporting.run_overview import RecordingOverview, overview_of, total_lines
from earmark.selection.coverage_forecast import measured_range
from earmark.selection.coverage_ladder import coverage_of_budgets
from earmark.version import VERSION

SHARES = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)
"""Of the windows, for which coverage is forecast."""


def write_index(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the index of `run` to `path` and a page for each recording beside it.

    The index comes last, so that whatever it leads to is there.
    """
    heading, error = describe_run(run, title), run.forecast_error()
    summaries = list(read_summaries(run))
    overviews = [overview_of(run, summary.recording) for summary in summaries]
    rows = [_plain(run, *pair) for pair in zip(summaries, overviews, strict=True)]
    _write_pages(run, heading, list(zip(summaries, rows, strict=True)), path.parent / PAGES)
    plain = heading | {
        "columns": list(rows[0]) if rows else [],
        "recordings": [list(row.values()) for row in rows],
        "curve": curve(run, error),
        "sure": MEASURED if error else "",
        "overview": list(total_lines(overviews)),
    }
    return save_page(path, "index", plain)


def curve(run: Run, error: ForecastError | None = None) -> list[tuple[float, ...]]:
    """Calls and the coverage expected of them, spent at one price over all recordings.

    With the `error` of forecasts also between what it is to lie. Empty where no action is expected,
    or the run is too old to say how long actions last.
    """
    survival = run.survival()
    if survival is None:
        return []
    many = []
    for recording in run.recordings():
        if heard := run.heard(recording.id):  # of its windows only the rates matter
            rates, is_free = heard.rates, heard.per_call > 1
            long = recording.duration if is_free else len(rates) * heard.window
            each = (rates, rates, rates, survival)
            many.append(Windows(heard.window, long, *each, per_call=heard.per_call))
    total = sum(windows.calls for windows in many)
    budgets = sorted({round(share * total) for share in SHARES})
    reached = coverage_of_budgets(many, budgets, tolerance=0.002)
    if not total or math.isnan(reached[0]):
        return []
    actions = sum(float(windows.rates.sum()) for windows in many)
    told = partial(measured_range, error=error, actions=actions, duration=run.totals().duration)
    points = [(0, 0.0), *zip(budgets, reached, strict=True)]
    drawn: list[tuple[float, ...]] = []
    for calls, share in points:
        found = told(share)
        shares = (found.expected, found.low, found.high) if found else (share,)
        drawn.append((calls, *(round(each, 4) for each in shares)))
    return drawn


MEASURED = f"The range around the line held {CONFIDENCE:.0%} of the recordings it was measured on."
"""Beneath the curve."""


def page_name(summary: RecordingSummary) -> str:
    """The file of a recording's page: its name, and enough of its id to tell namesakes apart."""
    stem = parts_of(summary.recording.path)[-1].rpartition(".")[0] or "recording"
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in stem)
    return f"{safe[:40]}-{summary.recording.id[:10]}.html"


def _plain(run: Run, summary: RecordingSummary, overview: RecordingOverview) -> dict[str, Any]:
    row, totals = summary.recording, summary.totals
    choice, lasts = run.choice(row.id), (overview.active, overview.louder)
    active, louder = (None if each is None else round(each, 1) for each in lasts)
    share, told = choice.forecast, choice.forecast_range
    return {
        "name": row.title,
        "path": row.path,
        "page": f"{PAGES}/{quote(page_name(summary))}",
        "duration": round(row.duration, 1),
        "windows": totals.windows,
        "picks": totals.picks,
        "answered": totals.answered,
        "failed": totals.failed,
        "coverage": None if share is None else round(share, 4),
        "low": round(told.low, 4) if told else None,
        "high": round(told.high, 4) if told else None,
        "words": as_range(share, told),
        "spend": round(totals.spend, 6),
        "active": active,
        "louder": louder,
    }


def _write_pages(
    run: Run,
    heading: dict[str, Any],
    rows: Sequence[tuple[RecordingSummary, dict[str, Any]]],
    folder: Path,
) -> None:
    """Write the page of every recording that has changed since its page was written.

    What is told of a recording changes only with its counts, the plan or the version, and these
    are noted beside the pages; or with why its calls failed, so a page with failures is not kept.
    """
    folder.mkdir(parents=True, exist_ok=True)
    noted, before = folder / "written.json", {}
    with suppress(FileNotFoundError, ValueError):
        before = json.loads(noted.read_text(encoding="utf-8"))
    edition = hashlib.sha256(json.dumps([VERSION, run.plan()]).encode()).hexdigest()[:16]
    now: dict[str, list[Any]] = {}
    for summary, row in rows:
        name = page_name(summary)
        now[name] = [edition, *row.values()]
        is_told = isinstance(before, dict) and before.get(name) == now[name]
        if summary.totals.failed or not is_told or not (folder / name).exists():
            about, heard = summary.recording, run.heard(summary.recording.id)
            own = {"title": about.title, "totals": asdict(summary.totals), "missed": []}
            own["coverage"] = forecast_of(run, about, heard or HeardRow(about.id))
            write_page(run, folder / name, rows=[about], heading=heading | own)
    with replacing(noted) as scratch:
        scratch.write_text(json.dumps(now), encoding="utf-8")
