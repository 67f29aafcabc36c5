"""The table of an archive: every recording as a row with a strip, sorted and filtered.

Rows are computed once for each state of the run. Strips are made only for the rows of a page, with
two queries for all that are not cached, and cached as the JSON that is sent.
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
from pydantic import TypeAdapter

from earmark.report.report_page import scale_curve
from earmark.run.run import Run
from earmark.run.summaries import RecordingSummary, read_strips, read_summaries
from earmark.server.run_library import ServedRun
from earmark.timeline import FloatArray

CELLS = 120

MOST_STRIPS = 50_000

_NAMES = "name began duration picks answered failed activity doubt score said sounds corrections"
COLUMNS = ("found", *_NAMES.split())
"""`found` puts recordings with answers, then with picks, first."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    id: str
    name: str
    path: str
    began: str
    duration: float
    windows: int
    picks: int
    answered: int
    failed: int
    activity: float | None
    """Expected actions per hour; None without a forecast."""
    doubt: float | None
    """Expected actions that no pick touches; None without a forecast."""
    score: float | None
    said: int
    sounds: int
    corrections: int


@dataclass(frozen=True, slots=True)
class StripRow:
    row: ArchiveRow
    scores: list[int]
    marks: str
    """Along the recording: `.` nothing, `p` picked, `a` answered, `f` failed, `c` corrected."""


@dataclass(frozen=True, slots=True)
class ArchivePage:
    total: int
    found: int
    offset: int
    rows: list[StripRow]


FILTERS: dict[str, Callable[[ArchiveRow], bool]] = {
    "all": lambda row: True,  # noqa: ARG005
    "found": lambda row: row.answered > 0,
    "failed": lambda row: row.failed > 0,
    "open": lambda row: row.answered < row.picks,
    "speech": lambda row: row.said > 0,
    "corrected": lambda row: row.corrections > 0,
}

_STRIP = TypeAdapter(StripRow)
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

    def holds(self, row: ArchiveRow) -> bool:
        if (self.since or self.until) and not (
            row.began and self.since <= row.began[:10] <= (self.until or "9")
        ):
            return False
        least = {"activity": self.activity, "score": self.score, "doubt": self.doubt}
        return FILTERS[self.only](row) and all(
            value <= 0 or (getattr(row, name) or 0.0) >= value for name, value in least.items()
        )


def find_rows(served: ServedRun, query: ArchiveQuery) -> list[ArchiveRow]:
    rows = served.cached("archive rows", read_rows)
    return served.cached(("found", query), lambda run: _filter_and_sort(run, rows, query))


def read_page(served: ServedRun, query: ArchiveQuery, *, offset: int, limit: int) -> bytes:
    rows, found = served.cached("archive rows", read_rows), find_rows(served, query)
    shown = found[offset : offset + limit]
    cache: dict[ArchiveRow, bytes] = served.cached("strips", lambda _: {})
    strips = {row: strip for row in shown if (strip := cache.get(row))}
    missing = [row for row in shown if row not in strips]
    if missing:
        with served.open() as run:
            drawn = draw_strips(missing, *read_strips(run, [row.id for row in missing]))
        strips |= {strip.row: _STRIP.dump_json(strip) for strip in drawn}
        if len(cache) > MOST_STRIPS:
            cache.clear()
        cache |= strips
    head = f'{{"total":{len(rows)},"found":{len(found)},"offset":{offset},"rows":['
    return b"".join((head.encode(), b",".join(strips[row] for row in shown), b"]}"))


def read_rows(run: Run) -> list[ArchiveRow]:
    return list(map(_row, read_summaries(run)))


def draw_strips(
    rows: Sequence[ArchiveRow],
    scores: Sequence[FloatArray],
    marks: Sequence[tuple[int, float, float, str]],
) -> list[StripRow]:
    curves = [scale_curve(max_pool(each, CELLS)) for each in scores]
    lines = _draw_marks(np.array([row.duration for row in rows]), marks)
    return [StripRow(*each) for each in zip(rows, curves, lines, strict=True)]


def _draw_marks(durations: FloatArray, marks: Sequence[tuple[int, float, float, str]]) -> list[str]:
    codes = np.zeros((len(durations), CELLS), dtype=np.uint8)
    if marks:
        places, starts, ends, kinds = map(np.array, zip(*marks, strict=True))
        lengths = np.maximum(durations, 1e-9)[places]
        first = np.clip(CELLS * starts / lengths, 0, CELLS - 1).astype(int)
        last = np.clip(CELLS * (ends - 1e-6) / lengths, first, CELLS - 1).astype(int)
        for code, name in enumerate(_MARKS):
            this = kinds == name
            edges = np.zeros((len(durations), CELLS + 1), dtype=int)
            np.add.at(edges, (places[this], first[this]), 1)
            np.add.at(edges, (places[this], last[this] + 1), -1)
            codes[np.cumsum(edges[:, :-1], axis=1) > 0] = code + 1
    return [row.tobytes().decode() for row in _LETTERS[codes]]


def max_pool(values: FloatArray, most: int) -> FloatArray:
    """The maximum of each of `most` equal parts; `values` itself if it is not longer."""
    if len(values) <= most:
        return values
    edges = np.linspace(0, len(values), most, endpoint=False).astype(int)
    return np.maximum.reduceat(values, edges)


def _row(summary: RecordingSummary) -> ArchiveRow:
    row, totals, score = summary.recording, summary.totals, summary.best_score
    is_heard = summary.has_forecast and totals.windows > 0 and row.duration > 0
    return ArchiveRow(
        id=row.id,
        name=row.title,
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
        said=summary.said,
        sounds=summary.sounds,
        corrections=summary.corrections,
    )


def _filter_and_sort(run: Run, rows: list[ArchiveRow], query: ArchiveQuery) -> list[ArchiveRow]:
    query_words = query.words.casefold().split()
    with_words = run.recordings_with(query.words) if query_words else set()
    with_sound = run.recordings_with(query.sound, is_sound=True) if query.sound.strip() else None

    def matches_words(row: ArchiveRow) -> bool:
        name_and_path = f"{row.name} {row.path}".casefold()
        return row.id in with_words or all(part in name_and_path for part in query_words)

    def sort_key(row: ArchiveRow) -> Any:
        if query.sort == "found":
            return row.answered == 0, row.picks == 0, _natural_key(row.name)
        value = getattr(row, query.sort)
        return _natural_key(value) if query.sort == "name" else None if value == "" else value

    rows = list(filter(query.holds, rows))
    if with_sound is not None:
        rows = [row for row in rows if row.id in with_sound]
    if query_words:
        rows = list(filter(matches_words, rows))
    keyed = [(sort_key(row), row) for row in rows]
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=itemgetter(0), reverse=query.falls)
    # Rows without a value come last in either order.
    return [row for _, row in known] + [row for key, row in keyed if key is None]


@lru_cache(maxsize=1 << 16)
def _natural_key(text: str) -> list[tuple[int, str]]:
    pieces = re.split(r"([0-9]+)", text.casefold())
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in pieces]
