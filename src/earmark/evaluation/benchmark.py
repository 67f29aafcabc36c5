"""Runs rules over recordings at budgets, and keeps one row for each: `per_recording.csv`."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal

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


COLUMNS = tuple(field.name for field in fields(BenchmarkRow))


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What came of one recording."""

    rows: list[BenchmarkRow]
    forecasts: dict[float, ForecastCounts]
    """How far the forecast of the rule `coverage` was off, by budget; empty if it was not run."""


def run_case(
    case: Case, rules: Sequence[str], budgets: Sequence[float], *, rounding: Rounding = "round"
) -> CaseResult:
    """Every rule at every budget on one recording, rules first."""
    size = len(case.windows)
    calls = [Budget(share=budget, rounding=rounding).calls(size) for budget in budgets]
    rows: list[BenchmarkRow] = []
    forecasts: dict[float, ForecastCounts] = {}
    for rule in rules:
        if rule == PHASES:
            counted = [average_phases(case, each) for each in calls]
        else:
            picked = choose(case, rule, calls)
            counted = [count_picks(case, picks) for picks in picked]
            if rule == "coverage":
                told = zip(budgets, picked, counted, strict=True)
                forecasts = {b: foretell(case, picks, counts) for b, picks, counts in told}
        pairs = zip(budgets, counted, strict=True)
        rows += [
            BenchmarkRow(case.recording, case.frontline, rule, b, *astuple(c)) for b, c in pairs
        ]
    return CaseResult(rows, forecasts)


def count_picks(case: Case, picks: Sequence[Pick]) -> CoverageCounts:
    """What `picks` come to."""
    return count_covered(case.actions, picks, windows=len(case.windows), length=case.windows.length)


def foretell(case: Case, picks: Sequence[Pick], counts: CoverageCounts) -> ForecastCounts:
    """How far what `picks` were expected to touch is from what they did."""
    expected = sum(pick.expected for pick in picks)
    return forecast_error(counts, expected=expected, foreseen=float(case.windows.rates.sum()))


def choose(case: Case, rule: str, calls: Sequence[int]) -> list[list[Pick]]:
    """The picks of the rule called `rule` for each number of calls.

    A recording whose windows all score the same goes to `strata`, as it would in a real run.
    """
    chosen: Rule
    if rule == ORACLE:
        chosen = Oracle(tuple(action.span for action in case.actions))
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


def write_rows(path: Path, rows: Iterable[BenchmarkRow]) -> None:
    """Write `per_recording.csv`; the file is whole or not there."""
    with replacing(path) as scratch:
        scratch.write_text(rows_as_csv(rows), encoding="utf-8")


def rows_as_csv(rows: Iterable[BenchmarkRow]) -> str:
    """The rows with their header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(map(exactly, astuple(row)))
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
    return hashlib.sha256(rows_as_csv(rows).encode()).hexdigest()[:16]


def read_rows(path: Path) -> list[BenchmarkRow]:
    """The rows of a `per_recording.csv`.

    Raises:
        LedgerError: the file is missing or was not written by an evaluation.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            absent = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
            if absent:
                raise ValueError(f"it has no column {', '.join(absent)}")
            return [_row(cells) for cells in reader]
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror or error}") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise LedgerError(f"{path} is no per_recording.csv of an evaluation: {error}") from error


def _row(cells: Mapping[str, str]) -> BenchmarkRow:
    """One row from its text."""
    return BenchmarkRow(
        recording=cells["recording"],
        frontline=cells["frontline"],
        rule=cells["rule"],
        budget=float(cells["budget"]),
        windows=int(cells["windows"]),
        calls=int(cells["calls"]),
        actions=int(cells["actions"]),
        covered=float(cells["covered"]),
        strict=float(cells["strict"]),
    )
