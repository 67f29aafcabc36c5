"""An archive at a glance: every recording as a row with a strip, sorted and filtered here.

Rows are added up once for as long as the run stays the same; strips are drawn only of those rows
that are asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from earmark.ledger.records import RecordingFacts, RecordingSummary
from earmark.ledger.run_reader import Run
from earmark.reporting.report_page import scale_curve, title_of
from earmark.server.api_records import ArchivePage, ArchiveRow, StripRow
from earmark.server.run_library import ServedRun
from earmark.timeline import FloatArray

CELLS = 120
"""Of a strip."""

COLUMNS = (
    "name",
    "began",
    "duration",
    "picks",
    "answered",
    "failed",
    "activity",
    "doubt",
    "score",
    "said",
    "corrections",
)
"""What an archive is sorted by."""

FILTERS: dict[str, Callable[[ArchiveRow], bool]] = {
    "all": lambda row: True,  # noqa: ARG005
    "found": lambda row: row.answered > 0,
    "failed": lambda row: row.failed > 0,
    "open": lambda row: row.answered < row.picks,
    "speech": lambda row: row.said > 0,
    "corrected": lambda row: row.corrections > 0,
}
"""Which rows are shown."""

_MARKS = {"not asked": "p", "in flight": "p", "answered": "a", "failed": "f"}
_ORDER = ".pafc"
"""What is shown where several fall into one cell: the last of these."""


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    """Which rows of an archive, and in which order."""

    sort: str = "name"
    """One of `COLUMNS`."""
    falls: bool = False
    """Whether the largest comes first."""
    words: str = ""
    """To be found in names, or in captions and tags."""
    only: str = "all"
    """One of `FILTERS`."""

    def __post_init__(self) -> None:
        if self.sort not in COLUMNS or self.only not in FILTERS:
            raise ValueError(
                f"sort by one of {', '.join(COLUMNS)}; show one of {', '.join(FILTERS)}"
            )


def read_page(served: ServedRun, query: ArchiveQuery, *, offset: int, limit: int) -> ArchivePage:
    """The rows from `offset` on, `limit` at most, as sorted and filtered."""
    rows = served.remember("archive rows", read_rows)
    found = served.remember(("found", query), lambda run: _find(run, rows, query))
    strips = [
        served.remember(("strip", row), partial(draw_strip, row))
        for row in found[offset : offset + limit]
    ]
    return ArchivePage(len(rows), len(found), offset, strips)


def read_rows(run: Run) -> list[ArchiveRow]:
    """Every recording of a run, by path."""
    facts = run.facts()
    return [_row(one, facts[one.recording.id]) for one in run.summaries()]


def draw_strip(row: ArchiveRow, run: Run) -> StripRow:
    """The strip of a row: scores along the recording, and what was picked and found."""
    heard = run.heard(row.id)
    scores = shrink(heard.scores, CELLS) if heard else np.zeros(0)
    marks = ["."] * CELLS
    spans = [(pick.span, _MARKS[pick.status]) for pick in run.picks(row.id)]
    spans += [(one.span, "c") for one in run.corrections(row.id) if not one.withdrawn]
    for span, mark in spans:
        first = _cell(span.start, row.duration)
        for cell in range(first, max(first, _cell(span.end - 1e-6, row.duration)) + 1):
            marks[cell] = max(marks[cell], mark, key=_ORDER.index)
    return StripRow(row, scale_curve(scores), "".join(marks))


def shrink(values: FloatArray, most: int) -> FloatArray:
    """The largest value of each of `most` stretches; all of them where there are fewer."""
    if len(values) <= most:
        return values
    edges = np.linspace(0, len(values), most, endpoint=False).astype(int)
    return np.maximum.reduceat(values, edges)


def _cell(time: float, duration: float) -> int:
    return min(CELLS - 1, max(0, int(CELLS * time / duration))) if duration > 0 else 0


def _row(summary: RecordingSummary, facts: RecordingFacts) -> ArchiveRow:
    row, totals = summary.recording, summary.totals
    is_heard = totals.windows > 0 and row.duration > 0
    score = facts.best_score
    return ArchiveRow(
        id=row.id,
        name=title_of(row),
        path=row.path,
        began=row.began,
        duration=row.duration,
        windows=totals.windows,
        picks=totals.picks,
        answered=totals.answered,
        failed=totals.failed,
        activity=totals.expected / row.duration * 3600 if is_heard else None,
        doubt=max(0.0, totals.expected - totals.touched) if is_heard else None,
        score=score if score is not None and math.isfinite(score) else None,
        said=facts.said,
        corrections=facts.corrections,
    )


def _find(run: Run, rows: list[ArchiveRow], query: ArchiveQuery) -> list[ArchiveRow]:
    parts = query.words.casefold().split()
    saying = run.texts.recordings_with(query.words) if parts else set()

    def holds(row: ArchiveRow) -> bool:
        if not FILTERS[query.only](row):
            return False
        place = f"{row.name} {row.path}".casefold()
        return row.id in saying or all(part in place for part in parts)

    def value(row: ArchiveRow) -> Any:
        found = getattr(row, query.sort)
        return None if found == "" else found

    found = [row for row in rows if holds(row)]
    known = [row for row in found if value(row) is not None]
    known.sort(key=lambda row: _natural(value(row)), reverse=query.falls)
    return known + [row for row in found if value(row) is None]  # last, whichever way


def _natural(value: Any) -> Any:
    """Text as people sort it: numbers in it by their value."""
    if not isinstance(value, str):
        return value
    pieces = re.split(r"([0-9]+)", value.casefold())
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]
