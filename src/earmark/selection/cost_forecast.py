"""Forecasts what budgets will reach and cost, before any call is paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from earmark.gate.forecast_error import ForecastError, ForecastRange, as_count
from earmark.gate.listener import Failed
from earmark.grid import Windows
from earmark.selection.coverage_forecast import measured_range
from earmark.selection.coverage_ladder import coverage_of_budgets
from earmark.selection.notebook import (
    DataFrame,
    draw_strip,
    to_data_frame,
    write_section,
    write_table,
)
from earmark.timeline import Span, format_clock

LADDER = (0.05, 0.10, 0.15, 0.25, 0.335, 0.50, 0.75, 1.0)
"""Budgets forecast by default, as shares of the windows: the paper's call rates and some more."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """What one call costs."""

    gpu_seconds: float = 0.74
    """The paper's: Qwen3-VL-8B on a V100."""
    money: float = 0.00011
    """In any currency; a full scan of 1,000 h at hosted 8B prices is about 100 dollars."""

    def __post_init__(self) -> None:
        if not (self.gpu_seconds > 0 and self.money >= 0):
            raise ValueError("a call costs more than 0 GPU-seconds and no negative money")


@dataclass(frozen=True, slots=True)
class Rung:
    """One budget, and what it is expected to bring."""

    share: float
    calls: int
    coverage: float | None
    """Expected share of actions touched; none where no action is expected."""
    gpu_hours: float
    """Of the calls alone."""
    money: float
    pays: bool
    """Whether listening and these calls together cost less than calling on every window."""
    range: ForecastRange | None = None
    """Range in which the coverage is expected; None where forecast errors were not measured."""


@dataclass(frozen=True, slots=True)
class Screening:
    """What listening cost, measured on this machine."""

    seconds: float
    full_scan_seconds: float
    """GPU-seconds of calling on every window."""
    measured_now: int
    """Recordings listened to in this run; the others were timed when they were heard."""

    @property
    def share(self) -> float:
        """Listening time over a full scan; a second of this machine counts as a GPU-second."""
        return self.seconds / self.full_scan_seconds if self.full_scan_seconds else math.nan

    @property
    def break_even(self) -> float:
        """The share of calls up to which triage pays, `1 - C_gate / C_full`; 0 if it never does."""
        return max(0.0, 1.0 - self.share) if self.full_scan_seconds else math.nan


@dataclass(frozen=True, slots=True)
class RecordingNote:
    """A note about one recording."""

    path: str
    note: str


@dataclass(frozen=True, slots=True, repr=False)
class Forecast:
    """Budgets over some recordings with what each is expected to reach, at one price over all."""

    recordings: int
    duration: float
    """Seconds of all recordings."""
    windows: int
    window: float
    frontline: str
    cost: CallCost
    screening: Screening
    rungs: tuple[Rung, ...]
    goal: Rung | None = None
    """The fewest calls that are expected to reach the requested coverage."""
    failures: tuple[Failed, ...] = ()
    notes: tuple[RecordingNote, ...] = ()
    """Notes on single recordings, in their order."""
    actions: float | None = None
    """Actions expected in all recordings; None where nothing was heard."""
    actions_range: ForecastRange | None = None
    """Range in which that number is expected, as for one recording; None if not measured."""

    def to_pandas(self) -> DataFrame:
        """A data frame with one row a budget of the ladder; its range is `low` and `high`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        names = [each.name for each in fields(Rung) if each.name != "range"]
        rows = (
            {name: getattr(rung, name) for name in names}
            | {end: getattr(rung.range, end, None) for end in ("low", "high")}
            for rung in self.rungs
        )
        return to_data_frame(rows, [*names, "low", "high"])

    def __repr__(self) -> str:
        counts = f"recordings={self.recordings}, windows={self.windows}, budgets={len(self.rungs)}"
        goal = f", goal={self.goal.calls}" if self.goal else ""
        return f"Forecast({counts}{goal}, failures={len(self.failures)})"

    def _repr_html_(self) -> str:
        rows = [
            {
                "calls": rung.calls,
                "of all": f"{rung.share:.1%}",
                "expected coverage": "–" if rung.coverage is None else f"{rung.coverage:.1%}",
                "": draw_strip(1.0, [Span(0.0, rung.coverage or 0.0)], has_clock=False),
                "GPU-hours": rung.gpu_hours,
                "money": rung.money,
                "pays": "yes" if rung.pays else "no",
            }
            for rung in self.rungs
        ]
        title = f"{format_clock(self.duration)}, {self.windows} windows of {self.window:g} s"
        goal = [f"{self.goal.calls} calls for what was asked"] if self.goal else []
        goal += ["each budget is one over all recordings (across=True)"] * (self.recordings > 1)
        failed = write_table([asdict(failure) for failure in self.failures])
        held = as_count(self.actions, self.actions_range)
        return write_section(title, held, write_table(rows), *goal, failed)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `nan` is null."""
        plain = asdict(self)
        shares = {"share": self.screening.share, "break_even": self.screening.break_even}
        plain["screening"] |= {
            name: None if math.isnan(value) else value for name, value in shares.items()
        }
        return plain


def forecast_rungs(
    many: Sequence[Windows],
    budgets: Sequence[int],
    cost: CallCost,
    screening: Screening,
    error: ForecastError | None = None,
) -> list[Rung]:
    """The expected coverage and the cost of each of `budgets`, spent over `many` recordings.

    The range, where `error` was measured, is that of one recording as long and busy as all of them:
    a forecast that is wrong for one recording may be wrong for all in the same way.
    """
    windows = sum(one.calls for one in many)
    actions = sum(float(one.rates.sum()) for one in many)
    duration = sum(one.duration for one in many)
    rungs = []
    for calls, reached in zip(budgets, coverage_of_budgets(many, budgets), strict=True):
        share = calls / windows if windows else math.nan
        measured = measured_range(reached, error, actions=actions, duration=duration)
        coverage = measured.expected if measured else None if math.isnan(reached) else reached
        spent = (calls * cost.gpu_seconds / 3600, calls * cost.money)
        rungs.append(Rung(share, calls, coverage, *spent, share < screening.break_even, measured))
    return rungs
