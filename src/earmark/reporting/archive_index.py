"""The report of an archive: an index of all recordings, and a page for each recording."""

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
from earmark.media.atomic_file import write_whole
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
"""Budgets for which coverage is forecast, as shares of the possible calls."""


def write_index(run: Run, path: Path, *, title: str | None = None) -> Path:
    """Write the index of `run` to `path` and a page for each recording beside it.

    The index is written last, so that every page it links to exists.
    """
    heading, error = describe_run(run, title), run.forecast_error()
    summaries = list(read_summaries(run))
    overviews = [overview_of(run, summary.recording) for summary in summaries]
    rows = [_index_row(run, *pair) for pair in zip(summaries, overviews, strict=True)]
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
    """Points (calls, expected coverage), each budget spent at one price over all recordings.

    With the `error` of forecasts, also the low and high end of the coverage. Empty if no action is
    expected, or if the run is too old to store how long actions last.
    """
    survival = run.survival()
    if survival is None:
        return []
    many = []
    for recording in run.recordings():
        if heard := run.heard(recording.id):  # only the rates of its windows matter
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
    range_of = partial(measured_range, error=error, actions=actions, duration=run.totals().duration)
    points = [(0, 0.0), *zip(budgets, reached, strict=True)]
    drawn: list[tuple[float, ...]] = []
    for calls, share in points:
        found = range_of(share)
        shares = (found.expected, found.low, found.high) if found else (share,)
        drawn.append((calls, *(round(each, 4) for each in shares)))
    return drawn


MEASURED = (
    f"The range around the line held {100 * CONFIDENCE:.0f} % of the recordings it was measured on."
)
"""Text below the curve."""


def page_name(summary: RecordingSummary) -> str:
    """File name of a recording's page: its own name, and part of its id in case names repeat."""
    stem = parts_of(summary.recording.path)[-1].rpartition(".")[0] or "recording"
    safe = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in stem)
    return f"{safe[:40]}-{summary.recording.id[:10]}.html"


def _index_row(run: Run, summary: RecordingSummary, overview: RecordingOverview) -> dict[str, Any]:
    row, totals = summary.recording, summary.totals
    choice, lasts = run.choice(row.id), (overview.active, overview.louder)
    active, louder = (None if each is None else round(each, 1) for each in lasts)
    share, bounds = choice.forecast, choice.forecast_range
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
        "low": round(bounds.low, 4) if bounds else None,
        "high": round(bounds.high, 4) if bounds else None,
        "words": as_range(share, bounds),
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

    A page changes only with the counts of its recording, the plan, the version or the blurring of
    faces, which are stored beside the pages, or with the reasons why calls failed: a page with
    failures is always written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    noted, before = folder / "written.json", {}
    with suppress(FileNotFoundError, ValueError):
        before = json.loads(noted.read_text(encoding="utf-8"))
    edition = hashlib.sha256(
        json.dumps([VERSION, run.plan(), run.hides_faces]).encode()
    ).hexdigest()[:16]
    now: dict[str, list[Any]] = {}
    for summary, row in rows:
        name = page_name(summary)
        now[name] = [edition, *row.values()]
        is_current = isinstance(before, dict) and before.get(name) == now[name]
        if summary.totals.failed or not is_current or not (folder / name).exists():
            about, heard = summary.recording, run.heard(summary.recording.id)
            fields = {"title": about.title, "totals": asdict(summary.totals), "missed": []}
            fields["coverage"] = forecast_of(run, about, heard or HeardRow(about.id))
            write_page(run, folder / name, rows=[about], heading=heading | fields)
    write_whole(noted, json.dumps(now))
