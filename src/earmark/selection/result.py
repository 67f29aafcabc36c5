"""The result of a selection over one or many recordings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from typing import Any

from earmark.gate.forecast_error import ForecastRange, as_count, as_range
from earmark.gate.listener import Failed
from earmark.selection.notebook import (
    MAX_RECORDINGS,
    DataFrame,
    draw_strip,
    to_data_frame,
    write_section,
    write_table,
)
from earmark.selection.pick import Pick
from earmark.timeline import format_clock

SCHEMA_VERSION = 1
"""Version of the JSON of `earmark select --format json`; raised when a field changes meaning."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A window that was not chosen, and why."""

    window: int | None
    start: float
    end: float
    score: float
    rate: float
    expected: float
    """Actions a call here would be expected to touch beyond the picks."""
    reason: str
    """One line for a person."""


COLUMNS = ("path", *(each.name for each in fields(Pick)))
"""Columns of a row of `Selection.rows`."""


@dataclass(frozen=True, slots=True, repr=False)
class Chosen:
    """The windows of one recording worth a call."""

    path: str
    """The file or address; the first chapter of several."""
    duration: float
    window: float
    """Seconds of one window."""
    windows: int
    """Windows on the grid: the calls of a full scan."""
    budget: int
    """Calls allowed; a rule may leave some unspent."""
    rule: str
    """Name of the rule that chose; a note says so where it is not the requested one."""
    frontline: str
    access: str
    """How the sound was read: `index`, `demux` where any chapter needs it, or `none`."""
    bytes_read: int
    bytes_total: int
    forecast: float | None
    """Share of all actions the picks are expected to touch; None where no actions are expected."""
    picks: tuple[Pick, ...]
    chapters: tuple[str, ...] = ()
    """Every file of the recording where there is more than one."""
    chapter_starts: tuple[float, ...] = ()
    """When each of them begins on the recording's clock."""
    notes: tuple[str, ...] = ()
    """Notes for a reader: a replaced rule or frontline, warnings about the file."""
    left_out: tuple[LeftOut, ...] = ()
    """The best windows that were not chosen, if requested."""
    forecast_range: ForecastRange | None = None
    """Range in which the forecast is expected; None where forecast errors were not measured."""
    actions: float | None = None
    """Actions expected in the recording; None where nothing was heard."""
    actions_range: ForecastRange | None = None
    """Range in which that number is expected; None where forecast errors were not measured."""

    def __repr__(self) -> str:
        return f"Chosen(path={self.path!r}, picks={len(self.picks)}, windows={self.windows})"

    def _repr_html_(self) -> str:
        expected = as_range(self.forecast, self.forecast_range)
        spent = f"{len(self.picks)} of {self.windows} windows, expected coverage {expected}"
        held = as_count(self.actions, self.actions_range)
        rows = [
            {
                "start": format_clock(pick.start),
                "end": format_clock(pick.end),
                "look at": format_clock(pick.instant),
                "score": pick.score,
                "expected": pick.expected,
                "why": pick.reason,
            }
            for pick in self.picks
        ]
        strip = draw_strip(self.duration, (pick.span for pick in self.picks))
        return write_section(f"{self.path}: {spent}", strip, held, *self.notes, write_table(rows))


@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """The windows chosen in every recording, and the plan that chose them."""

    plan: dict[str, Any]
    """Every choice of the run, as plain values."""
    recordings: tuple[Chosen, ...]
    failures: tuple[Failed, ...] = ()
    version: int = SCHEMA_VERSION

    @property
    def calls(self) -> int:
        """Calls the picks will cost."""
        return sum(len(chosen.picks) for chosen in self.recordings)

    @property
    def windows(self) -> int:
        """Calls a full scan would cost."""
        return sum(chosen.windows for chosen in self.recordings)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row a pick: the path of its recording and its fields."""
        for chosen in self.recordings:
            for pick in chosen.picks:
                yield {"path": chosen.path, **asdict(pick)}

    def to_pandas(self) -> DataFrame:
        """A data frame with one row a pick.

        Raises:
            MissingExtra: pandas is not installed.
        """
        return to_data_frame(self.rows(), COLUMNS)

    def __repr__(self) -> str:
        reason = f": {self.failures[0].error!r}" if self.failures else ""
        counts = f"recordings={len(self.recordings)}, failures={len(self.failures)}{reason}"
        return f"Selection(calls={self.calls}, windows={self.windows}, {counts})"

    def _repr_html_(self) -> str:
        shown = [chosen._repr_html_() for chosen in self.recordings[:MAX_RECORDINGS]]
        more = len(self.recordings) - len(shown)
        rest = [f"<p>… and {more} more recordings</p>"] if more > 0 else []
        failed = write_table([asdict(failure) for failure in self.failures])
        return "".join([*shown, *rest, failed])

    def to_json(self) -> dict[str, Any]:
        """Plain values in the published shape: see `selection_schema`."""
        plain = asdict(self)
        return {name: plain[name] for name in ("version", "plan", "recordings", "failures")}


def selection_schema() -> dict[str, Any]:
    """The JSON Schema of `Selection.to_json`."""
    text = files("earmark.selection").joinpath("selection.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
