"""A number of the paper beside ours, and what it takes to lay many of them side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from earmark.evaluation.experiment_report import Drawing
from earmark.evaluation.metrics.coverage_counts import dash
from earmark.evaluation.tables.table import Cell, Cells, Table, interval, plain

COLUMNS = ("quantity", "paper", "ours", "difference", "n", "95 % interval", "what ran", "remarks")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity: what the paper prints, what came out here, and what really ran."""

    quantity: str
    paper: float | str | None
    """As printed; None for what the paper does not print."""
    ours: float | str | None = None
    """None where it was not made."""
    n: str = ""
    """What it was counted over, such as `24 recordings`."""
    low: float = math.nan
    """Lower end of the interval over recordings or seeds; nan where there is none."""
    high: float = math.nan
    ran: str = ""
    """Encoder, data and weights, in words; what to bring where nothing ran."""
    remarks: str = ""

    @property
    def difference(self) -> float:
        """Ours less the paper's; nan where one of them is no number."""
        if isinstance(self.ours, str | None) or isinstance(self.paper, str | None):
            return math.nan
        return self.ours - self.paper

    def to_json(self) -> dict[str, Any]:
        """The row as plain values; what is no number is null."""
        return {name: plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Comparison:
        """The row that `to_json` wrote."""
        ends = {end: math.nan if row[end] is None else row[end] for end in ("low", "high")}
        return cls(**{**row, **ends})

    def cells(self) -> Cells:
        """The row of a table."""
        return (
            self.quantity,
            _shown(self.paper),
            _shown(self.ours),
            _signed(self.difference),
            self.n,
            interval(self.low, self.high),
            self.ran,
            self.remarks,
        )


def _shown(value: float | str | None) -> Cell:
    if value is None:
        return "—"
    return (
        value
        if isinstance(value, str)
        else f"{value:,.10g}"
        if _is_short(value)
        else f"{value:,.2f}"
    )


def _is_short(value: float) -> bool:
    """Whether two digits after the point say all of it."""
    return math.isfinite(value) and abs(round(value, 2) - value) < 1e-9


def _signed(value: float) -> str:
    return dash(value, "+,.2f") if math.isnan(value) or round(value, 2) else "0"


@dataclass(frozen=True, slots=True)
class Made:
    """What came of one table or figure of the paper."""

    rows: Sequence[Comparison]
    tables: Sequence[Table] = ()
    """More of it, such as our own table whole."""
    figures: Mapping[str, Drawing] = field(default_factory=dict)
    """By file name without suffix."""


def comparison_table(title: str, rows: Iterable[Comparison], *, note: str = "") -> Table:
    """The rows of one table or figure of the paper, side by side."""
    return Table(title, COLUMNS, [row.cells() for row in rows], note)
