"""A number of the paper beside ours, and the ways to compute ours."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from earmark.evaluation.experiment_report import Drawing
from earmark.evaluation.metrics.boundaries import MatchCounts
from earmark.evaluation.metrics.coverage_counts import CoverageCounts, or_dash, share
from earmark.evaluation.metrics.significance import bootstrap_ratio
from earmark.evaluation.tables.table import Cells, Table, interval, mean, plain
from earmark.reporting.text_format import counted

COLUMNS = ("quantity", "paper", "ours", "difference", "n", "95 % interval", "what ran", "remarks")

Printed = float | str | None
"""A number as printed in the paper; None where it has none."""

Values = Sequence[float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One quantity: the paper's value, our value, and what was run to get it."""

    quantity: str
    paper: Printed
    ours: float | str | None = None
    """None where it was not computed."""
    n: str = ""
    """The sample, such as `24 recordings`."""
    low: float = math.nan
    """Lower end of the interval over recordings or seeds; nan where there is none."""
    high: float = math.nan
    ran: str = ""
    """Encoder, data and weights as text; what is missing where nothing ran."""
    remarks: str = ""

    @classmethod
    def missing(cls, quantity: str, paper: Printed, why: str) -> Comparison:
        """A number of the paper that was not computed, with the reason."""
        return cls(quantity, paper, ran=f"not run: {why}")

    @classmethod
    def pooled(
        cls, quantity: str, paper: Printed, parts: Values, wholes: Values, **text: str
    ) -> Comparison:
        """`sum(parts) / sum(wholes)` in per cent, and its interval over recordings."""
        low, high = (100 * end for end in bootstrap_ratio(parts, wholes))
        found = 100 * share(sum(parts), sum(wholes))
        return cls(quantity, paper, found, low=low, high=high, **text)

    @classmethod
    def coverage(
        cls, quantity: str, paper: Printed, counts: Collection[CoverageCounts], **text: str
    ) -> Comparison:
        """The pooled coverage of `counts`, one per recording, and its interval."""
        covered, actions = [each.covered for each in counts], [each.actions for each in counts]
        text = {"n": f"{sum(actions)} actions", **text}
        return cls.pooled(quantity, paper, covered, actions, **text)

    @classmethod
    def mean(cls, quantity: str, paper: Printed, values: Values, **text: str) -> Comparison:
        """The mean of `values`, one per recording, and its interval."""
        low, high = bootstrap_ratio(values, [1.0] * len(values))
        return cls(quantity, paper, mean(values), low=low, high=high, **text)

    @classmethod
    def over_seeds(cls, quantity: str, paper: Printed, values: Values, **text: str) -> Comparison:
        """The mean and range of `values`, one per seed; no number if there are none."""
        text = {"n": counted(len(values), "seed"), **text}
        low, high = min(values, default=math.nan), max(values, default=math.nan)
        average = float(np.mean(values)) if values else None
        return cls(quantity, paper, average, low=low, high=high, **text)

    @property
    def difference(self) -> float:
        """Ours minus the paper's; nan where either is not a number."""
        if isinstance(self.ours, str | None) or isinstance(self.paper, str | None):
            return math.nan
        return self.ours - self.paper

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values; nan becomes null."""
        return {name: plain(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Comparison:
        """The row that `to_json` wrote."""
        ends = {end: math.nan if row[end] is None else row[end] for end in ("low", "high")}
        return cls(**{**row, **ends})

    def cells(self) -> Cells:
        """The row of a table."""
        gap, ends = self.difference, interval(self.low, self.high)
        signed = or_dash(gap, "+,.2f") if math.isnan(gap) or round(gap, 2) else "0"
        numbers = (_format_value(self.paper), _format_value(self.ours), signed)
        return (self.quantity, *numbers, self.n, ends, self.ran, self.remarks)


def _format_value(value: float | str | None) -> str:
    if isinstance(value, str):
        return value
    if value is None or math.isnan(value):
        return "—"
    says_all = abs(round(value, 2) - value) < 1e-9
    return f"{value:,.10g}" if says_all else f"{value:,.2f}"


def boundary_rows(
    found: Mapping[tuple[str, float], MatchCounts], *, n: str, ran: str
) -> Iterator[Comparison]:
    """B-F1 by method and tolerance; the paper prints the values at 0.5 s."""
    for (name, tolerance), counts in found.items():
        paper = 17.4 if name == "even segments" else 22.8
        printed, size = paper if tolerance == 0.5 else None, f"{counts.found} {n}"
        quantity = f"B-F1 at {tolerance:g} s, {name}, %"
        yield Comparison(quantity, printed, 100 * counts.f1, size, ran=ran)


def mean_std(values: Sequence[float]) -> str:
    """Mean and standard deviation over seeds, as text."""
    if len(values) == 1:
        return f"{values[0]:.1f}, 1 seed"
    return f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f} over {len(values)} seeds"


Made = Comparison | Table | Drawing
"""What the function of an artefact yields: rows, our own tables in full, and figures."""
