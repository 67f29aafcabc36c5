"""The table of an archive: every recording as a row with a strip, sorted and filtered.

Rows are computed once for each state of the run, strips only for the rows of a page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np

from earmark.report.report_page import scale_curve
from earmark.run.run import Run
from earmark.run.summaries import RecordingSummary, read_strips, read_summaries
from earmark.server.run_library import ServedRun
from earmark.timeline import FloatArray

CELLS = 120

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
    with_words = run.texts.recordings_with(query.words) if query_words else set()
    with_sound = run.texts.recordings_with_sound(query.sound) if query.sound.strip() else None

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
