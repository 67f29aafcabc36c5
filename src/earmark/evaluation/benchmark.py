"""Runs rules over recordings at budgets, and keeps one row for each: `per_recording.csv`."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal, TypeVar, get_type_hints

import numpy as np

from earmark.errors import LedgerError
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import (
    CoverageCounts,
    ForecastCounts,
    count_covered,
    covered,
    forecast_error,
    holding,
)
from earmark.grid import Windows
from earmark.media.atomic_file import replacing
from earmark.reporting.csv_rows import from_cell, write_csv
from earmark.selection import RULES, Budget, Coverage, Oracle, Pick, Rule, is_blind, rule_named
from earmark.selection.rules.strata import Strata

BUDGETS = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5)
"""Shares of the windows; the paper's."""

Rounding = Literal["round", "floor"]
"""How a share of the windows becomes whole calls; the paper's numbers are rounded."""

ORACLE = "oracle"
"""Greedy set cover of the annotated actions: the ceiling, which reads the answers."""

PHASES = "phases"
"""Even spacing averaged over where it starts: the blind baseline without a lucky phase."""

UNHEARD = ("full", "uniform", "strata", PHASES, ORACLE)
"""Rules that come to the same whatever listens, so that one frontline's rows are enough."""

COMPARED = (*(name for name in RULES if name != "full"), PHASES, ORACLE)
"""Every rule that can be evaluated below a full scan."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One recording to be judged, with what a selector may see and what it may not."""

    recording: str
    frontline: str
    windows: Windows
    actions: Sequence[Action]


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """What one rule came to on one recording at one budget."""

    recording: str
    frontline: str
    rule: str
    budget: float
    """Share of the windows."""
    windows: int
    calls: int
    actions: int
    covered: float
    strict: float

    @property
    def counts(self) -> CoverageCounts:
        """The counts, to be added up."""
        return CoverageCounts(self.windows, self.calls, self.actions, self.covered, self.strict)


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """How far the forecast of the rule `coverage` was off, on one recording at one budget."""

    frontline: str
    recording: str
    budget: float
    recordings: int
    expected: float
    covered: float
    actions: int
    foreseen: float
    absolute: float

    @property
    def counts(self) -> ForecastCounts:
        """The counts, to be added up."""
        return ForecastCounts(*astuple(self)[3:])


Row = TypeVar("Row", BenchmarkRow, ForecastRow)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one recording."""

    rows: list[BenchmarkRow]
    forecasts: list[ForecastRow]
    """One a budget; empty if the rule `coverage` was not run."""


def run_case(
    case: Case, rules: Sequence[str], budgets: Sequence[float], *, rounding: Rounding = "round"
) -> CaseResult:
    """Every rule at every budget on one recording, rules first."""
    size = len(case.windows)
    calls = [Budget(share=budget, rounding=rounding).calls(size) for budget in budgets]
    result = CaseResult([], [])
    for rule in rules:
        if rule == PHASES:
            counted = [average_phases(case, each) for each in calls]
        else:
            picked = choose(case, rule, calls)
            counted = [count_picks(case, picks) for picks in picked]
            if rule == "coverage":
                foretold = zip(budgets, picked, counted, strict=True)
                result.forecasts.extend(_forecast(case, *each) for each in foretold)
        for budget, counts in zip(budgets, counted, strict=True):
            key = (case.recording, case.frontline, rule, budget)
            result.rows.append(BenchmarkRow(*key, *astuple(counts)))
    return result


def count_picks(case: Case, picks: Sequence[Pick]) -> CoverageCounts:
    """What `picks` come to."""
    return count_covered(case.actions, picks, windows=len(case.windows), length=case.windows.length)


def _forecast(
    case: Case, budget: float, picks: Sequence[Pick], counts: CoverageCounts
) -> ForecastRow:
    """How far what `picks` were expected to touch is from what they did."""
    expected = sum(pick.expected for pick in picks)
    error = forecast_error(counts, expected=expected, foreseen=float(case.windows.rates.sum()))
    return ForecastRow(case.frontline, case.recording, budget, *astuple(error))


def choose(case: Case, rule: str, calls: Sequence[int]) -> list[list[Pick]]:
    """The picks of the rule called `rule` for each number of calls.

    A recording whose windows all score the same goes to `strata`, as it would in a real run.
    """
    chosen: Rule
    if rule == ORACLE:
        chosen = Oracle(tuple(case.actions))
    else:
        chosen = rule_named(rule)
        if not (case.windows.has_evidence or is_blind(chosen)):
            chosen = Strata()
    if isinstance(chosen, Coverage):
        return chosen.each([case.windows] * len(calls), budgets=calls)
    return [chosen(case.windows, budget=budget) for budget in calls]


def average_phases(case: Case, calls: int) -> CoverageCounts:
    """Even spacing averaged over every whole-window phase; counts are means, so fractions.

    M = 10, K = 3    ^..^..^...    .^..^..^..    ..^..^..^.    ...^..^..^
    """
    size, length = len(case.windows), case.windows.length
    if calls == 0:
        return CoverageCounts(size, 0, len(case.actions), 0, 0)
    step = size / calls
    offsets = np.arange(int(np.ceil(step)))
    hit = strict = 0.0
    for offset in offsets:
        chosen = (offset + np.floor(np.arange(calls) * step).astype(np.intp)) % size
        hit += covered(case.actions, chosen, windows=size, length=length).sum()
        strict += holding(case.actions, case.windows.instants[chosen]).sum()
    return CoverageCounts(size, calls, len(case.actions), hit / len(offsets), strict / len(offsets))


def write_rows(path: Path, kind: type[Row], rows: Iterable[Row]) -> None:
    """Write rows as CSV; the file is whole or not there."""
    with replacing(path) as scratch:
        scratch.write_text(rows_as_csv(kind, rows), encoding="utf-8")


def rows_as_csv(kind: type[Row], rows: Iterable[Row]) -> str:
    """The rows with their header."""
    text = io.StringIO()
    names = [field.name for field in fields(kind)]
    write_csv(text, names, ([exactly(value) for value in astuple(row)] for row in rows))
    return text.getvalue()


def exactly(value: str | float) -> str:
    """`value` as text that is read back as the same number.

    >>> exactly(5), exactly(5.0), exactly(0.335), exactly(1 / 3)
    ('5', '5', '0.335', '0.3333333333333333')
    """
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def rows_fingerprint(rows: Iterable[BenchmarkRow]) -> str:
    """A short hash of the rows, to tell one evaluation from another."""
    return hashlib.sha256(rows_as_csv(BenchmarkRow, rows).encode()).hexdigest()[:16]


def read_rows(path: Path) -> list[BenchmarkRow]:
    """The rows of a `per_recording.csv`.

    Raises:
        LedgerError: the file is missing or was not written by an evaluation.
    """
    try:
        return parse_rows(path, BenchmarkRow)
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror or error}") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise LedgerError(f"{path} is no per_recording.csv of an evaluation: {error}") from error


def parse_rows(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of `kind` that `write_rows` wrote.

    Raises:
        ValueError: a column is missing, or a cell is no number.
    """
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        absent = [name for name in types if name not in (reader.fieldnames or ())]
        if absent:
            raise ValueError(f"it has no column {', '.join(absent)}")
        return [
            kind(**{name: types[name](from_cell(cells[name])) for name in types})
            for cells in reader
        ]
