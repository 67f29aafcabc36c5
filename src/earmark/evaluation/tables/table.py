"""A table of results, written as Markdown, HTML or plain values."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from earmark.evaluation.metrics.coverage_counts import or_dash
from earmark.reporting.csv_rows import write_csv
from earmark.selection.notebook import escape

MAX_LINE_CHARACTERS = 36
"""Characters of a cell on one line; a column with a longer cell is wrapped."""

Cell = str | int | float
Cells = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a title and a note."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Cells]
    note: str = ""
    decimals: int = 1
    """Digits after the point of every float."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", tuple(self.rows))

    def text(self, cell: Cell) -> str:
        """A cell as text; nan is a dash."""
        return or_dash(cell, f".{self.decimals}f") if isinstance(cell, float) else str(cell)

    def to_markdown(self) -> str:
        """The table with its title and note."""
        lines = [f"### {self.title}", ""]
        head, *body = self.columns, *(map(self.text, row) for row in self.rows)
        escaped = [[cell.replace("|", "\\|") for cell in row] for row in (head, *body)]
        escaped.insert(1, ["---"] * len(self.columns))
        lines += [f"| {' | '.join(row)} |" for row in escaped]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def to_html(self) -> str:
        """The table as HTML, everything escaped."""
        texts = [[self.text(cell) for cell in row] for row in self.rows]
        kinds = [
            " class='words'" if any(len(row[place]) > MAX_LINE_CHARACTERS for row in texts) else ""
            for place in range(len(self.columns))
        ]

        def cells(tag: str, row: Sequence[str]) -> str:
            pairs = zip(row, kinds, strict=True)
            return "".join(f"<{tag}{kind}>{escape(text)}</{tag}>" for text, kind in pairs)

        lines = zip(texts, self._blocks(), strict=True)
        body = "".join(f"<tr{mark}>{cells('td', row)}</tr>" for row, mark in lines)
        head = cells("th", self.columns)
        note = f"<p class='note'>{escape(self.note)}</p>" if self.note else ""
        return (
            f"<section id='{self.slug}'><h2>{escape(self.title)}</h2><div class='scroll'>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{note}</section>"
        )

    def _blocks(self) -> list[str]:
        """A CSS class for each row that begins a block of rows with the same first cell."""
        firsts = [row[0] for row in self.rows]
        if len(set(firsts)) == len(firsts):
            return [""] * len(firsts)
        pairs = pairwise([None, *firsts])
        return [" class='block'" if before != first else "" for before, first in pairs]

    @property
    def slug(self) -> str:
        """The title as a file name.

        >>> Table("Calls saved against uniform, %", (), ()).slug
        'calls_saved_against_uniform'
        """
        return "_".join(re.findall(r"[a-z0-9.]+", self.title.lower()))

    def to_csv(self) -> str:
        """The table with full numbers; nan is an empty cell."""
        text = io.StringIO()
        write_csv(text, self.columns, ([plain(cell) for cell in row] for row in self.rows))
        return text.getvalue()

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values; nan is null."""
        rows = [
            {column: plain(cell) for column, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        return {"title": self.title, "rows": rows, "note": self.note}


def plain(value: Any) -> Any:
    """`value` for JSON: None for nan and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def percent(budget: float) -> str:
    """A share as text in per cent.

    >>> percent(0.335)
    '33.5 %'
    """
    return f"{100 * budget:g} %"


def mean(values: Iterable[float]) -> float:
    """The mean of the values that are not nan; nan if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def interval(low: float, high: float, spec: str = ".1f") -> str:
    """An interval as text; a dash for nan.

    >>> interval(1.0, 2.5), interval(float("nan"), float("nan"))
    ('1.0 to 2.5', '—')
    """
    return or_dash(low) if math.isnan(low) else f"{or_dash(low, spec)} to {or_dash(high, spec)}"


def p_value(p: float) -> str:
    """A p-value as text.

    >>> p_value(0.0193), p_value(3e-6)
    ('0.019', '<1e-4')
    """
    if math.isnan(p):
        return "—"
    return "<1e-4" if p < 1e-4 else f"{p:.1e}" if p < 1e-3 else f"{p:.3f}"
