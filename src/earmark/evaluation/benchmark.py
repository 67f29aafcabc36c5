"""Runs every rule on every recording at every budget, and saves one row for each.

The rows are saved to `per_recording.csv` during the run, so that a stopped run can be resumed.
"""

from __future__ import annotations

import csv
import hashlib
import io
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_type_hints

import numpy as np

from earmark.errors import EarmarkError, LedgerError
from earmark.evaluation.annotations.actions import Action
from earmark.evaluation.metrics.coverage_counts import (
    CoverageCounts,
    ForecastCounts,
    count_covered,
    count_touched,
    forecast_error,
    holds_instant,
    is_covered,
)
from earmark.evaluation.simulated_answers import AnswerSimulator, simulate_runs
from earmark.evaluation.tables.table import percent
from earmark.grid import Grid, Placement, Windows
from earmark.media.atomic_file import write_whole
from earmark.reporting.csv_rows import from_cell, write_csv
from earmark.selection import RULES, Budget, Coverage, Pick, Rule, is_blind, rule_named
from earmark.selection.rules.oracle import Oracle
from earmark.selection.rules.random_spans import RandomSpans
from earmark.selection.rules.separated import MinimumSeparation
from earmark.selection.rules.strata import Strata

BUDGETS = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5)
"""Shares of the windows; the paper's."""

Rounding = Literal["round", "floor"]
"""How a share of the windows becomes whole calls; the paper's numbers are rounded."""

ORACLE = "oracle"
"""Greedy set cover of the annotated actions: the ceiling, which reads the answers."""

PHASES = "phases"
"""Even spacing averaged over where it starts: the blind baseline without a lucky phase."""

REFERENCES = (PHASES, ORACLE)
"""Rules that exist for comparison only: a user cannot choose them to spend a budget."""

ROUNDS = "rounds"
"""The rule `coverage`, asked in rounds and replanned by simulated answers."""

FREE = "free"
"""The rule `coverage` with windows placed at any half second."""

RANDOM = "random"
"""Random spans with the lengths of the picked stretches, averaged over `DRAWS` seeds."""

DRAWS = 20
"""Seeds that random spans are averaged over."""

COMPARED = (*(name for name in RULES if name != "full"), *REFERENCES)
"""Every rule that can be evaluated below a full scan, including rules of other packages."""


def ignores_scores(rule: str) -> bool:
    """Whether a rule picks the same windows for every frontline; it then runs on one only."""
    return rule in REFERENCES or bool(getattr(RULES.get(rule), "is_blind", False))


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One recording to evaluate: the windows a rule may see, and the actions it may not see."""

    recording: str
    frontline: str
    windows: Windows
    actions: Sequence[Action]
    separation: int | None = None
    """The delta of `separated` that was best for the frontline; None for the paper's."""
    steps: Windows | None = None
    """The recording's windows for free placement; None where this is not evaluated."""


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """The result of one rule on one recording at one budget."""

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
    """The forecast error of the rule `coverage` on one recording at one budget."""

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


def case_of(row: BenchmarkRow | ForecastRow) -> tuple[str, str]:
    """The frontline and the recording of a row."""
    return row.frontline, row.recording


@dataclass(slots=True)
class BenchmarkRun:
    """The results of one case, or of many."""

    rows: list[BenchmarkRow] = field(default_factory=list)
    forecasts: list[ForecastRow] = field(default_factory=list)
    """One per case and budget; none if the rule `coverage` was not run."""
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a case could not be evaluated, by frontline and recording."""

    def only(self, cases: Iterable[tuple[str, str]]) -> BenchmarkRun:
        """The results of these cases, in that order."""
        place = {case: number for number, case in enumerate(cases)}

        def own(rows: list[Row]) -> list[Row]:
            kept = (row for row in rows if case_of(row) in place)
            return sorted(kept, key=lambda row: place[case_of(row)])

        return BenchmarkRun(own(self.rows), own(self.forecasts), self.failures)

    def save(self, folder: Path) -> None:
        """Write both files, each whole."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / FORECASTS, rows_to_csv(ForecastRow, self.forecasts))
        write_whole(folder / PER_RECORDING, rows_to_csv(BenchmarkRow, self.rows))


def run_case(
    case: Case,
    rules: Sequence[str],
    budgets: Sequence[float],
    *,
    rounding: Rounding = "round",
    answers: str | None = None,
) -> BenchmarkRun:
    """Run every rule at every budget on one recording; rows are ordered by rule, then budget.

    `answers` says how the answers of `rounds` are simulated; see `AnswerSimulator.parse`.
    """
    size = len(case.windows)
    calls = [Budget(share=budget, rounding=rounding).calls(size) for budget in budgets]
    foreseen = float(case.windows.rates.sum())
    result = BenchmarkRun()
    for rule in rules:
        picked: list[list[Pick]] = []
        if rule in (PHASES, RANDOM):
            average = average_phases if rule == PHASES else average_draws
            counted = [average(case, each) for each in calls]
        else:
            picked = choose(case, rule, calls, answers=answers)
            count = count_free_picks if rule == FREE else count_picks
            counted = [count(case, picks) for picks in picked]
        for budget, counts in zip(budgets, counted, strict=True):
            key = (case.recording, case.frontline, rule, budget)
            result.rows.append(BenchmarkRow(*key, *astuple(counts)))
        if rule == "coverage":
            for budget, counts, picks in zip(budgets, counted, picked, strict=True):
                expected = sum(pick.expected for pick in picks)
                error = forecast_error(counts, expected=expected, foreseen=foreseen)
                foretold = ForecastRow(case.frontline, case.recording, budget, *astuple(error))
                result.forecasts.append(foretold)
    return result


def count_picks(case: Case, picks: Sequence[Pick]) -> CoverageCounts:
    """The coverage counts of `picks` on the grid."""
    return count_covered(case.actions, picks, windows=len(case.windows), length=case.windows.length)


def count_free_picks(case: Case, picks: Sequence[Pick]) -> CoverageCounts:
    """The coverage counts of `picks` at any time; they must be in order of time."""
    held = holds_instant(case.actions, np.array([pick.instant for pick in picks], dtype=float))
    reached = count_touched(case.actions, picks), int(held.sum())
    return CoverageCounts(len(case.windows), len(picks), len(case.actions), *reached)


def choose(
    case: Case, rule: str, calls: Sequence[int], *, answers: str | None = None
) -> list[list[Pick]]:
    """The picks of the rule called `rule` for each number of calls; `answers` is for `rounds`.

    As in a real run, `strata` chooses where all windows have the same score, and a blind rule
    takes the middle of each window as its instant.
    """
    if rule == ROUNDS:
        simulator = AnswerSimulator.parse(answers or "perfect")
        said = simulator.activities(case.recording, case.actions, case.windows)
        return simulate_runs([case.windows] * len(calls), [said] * len(calls), calls)
    if rule == FREE:
        assert case.steps is not None, "they were asked for"
        return Coverage().each([case.steps] * len(calls), budgets=calls)
    chosen: Rule
    if rule == ORACLE:
        chosen = Oracle(tuple(case.actions))
    else:
        chosen = rule_named(rule)
        if case.separation and isinstance(chosen, MinimumSeparation):
            chosen = MinimumSeparation(case.separation)
        if not (case.windows.has_evidence or is_blind(chosen)):
            chosen = Strata()
    if is_blind(chosen):
        case = with_middle_instants(case)
    if isinstance(chosen, Coverage):
        return chosen.each([case.windows] * len(calls), budgets=calls)
    return [chosen(case.windows, budget=budget) for budget in calls]


def with_middle_instants(case: Case) -> Case:
    """The case with the middle of each window as its instant, as a blind rule sees it."""
    windows = case.windows
    starts = np.arange(len(windows)) * windows.length
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    return replace(case, windows=replace(windows, instants=(starts + ends) / 2))


def average_draws(case: Case, calls: int) -> CoverageCounts:
    """Counts of random spans, averaged over `DRAWS` seeds; means may be fractions."""
    rules = map(RandomSpans, range(DRAWS))
    drawn = [count_picks(case, rule(case.windows, budget=calls)) for rule in rules]
    total = sum(drawn, CoverageCounts())
    return replace(drawn[0], covered=total.covered / DRAWS, strict=total.strict / DRAWS)


def average_phases(case: Case, calls: int) -> CoverageCounts:
    """Counts of even spacing, averaged over every whole-window phase; means may be fractions.

    M = 10, K = 3    ^..^..^...    .^..^..^..    ..^..^..^.    ...^..^..^
    """
    size, length = len(case.windows), case.windows.length
    instants = with_middle_instants(case).windows.instants
    if calls == 0:
        return CoverageCounts(size, 0, len(case.actions), 0, 0)
    step = size / calls
    offsets = np.arange(int(np.ceil(step)))
    hit = strict = 0.0
    for offset in offsets:
        chosen = (offset + np.floor(np.arange(calls) * step).astype(np.intp)) % size
        hit += is_covered(case.actions, chosen, windows=size, length=length).sum()
        strict += holds_instant(case.actions, instants[chosen]).sum()
    return CoverageCounts(size, calls, len(case.actions), hit / len(offsets), strict / len(offsets))


def rows_to_csv(kind: type[Row], rows: Iterable[Row]) -> str:
    """The rows with their header."""
    text = io.StringIO()
    names = [each.name for each in fields(kind)]
    write_csv(text, names, ([format_exact(value) for value in astuple(row)] for row in rows))
    return text.getvalue()


def format_exact(value: str | float) -> str:
    """`value` as text that reads back as the same number.

    >>> format_exact(5), format_exact(5.0), format_exact(0.335), format_exact(1 / 3)
    ('5', '5', '0.335', '0.3333333333333333')
    """
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def rows_fingerprint(rows: Iterable[BenchmarkRow]) -> str:
    """A short hash of the rows, to distinguish evaluations."""
    return hashlib.sha256(rows_to_csv(BenchmarkRow, rows).encode()).hexdigest()[:16]


def read_rows(path: Path) -> list[BenchmarkRow]:
    """The rows of a `per_recording.csv`; `LedgerError` where the file is missing or malformed."""
    try:
        return parse_rows(path, BenchmarkRow)
    except OSError as error:
        raise LedgerError(f"cannot read {path}: {error.strerror or error}") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise LedgerError(f"{path} is no per_recording.csv of an evaluation: {error}") from error


def parse_rows(path: Path, kind: type[Row]) -> list[Row]:
    """The rows that `rows_to_csv` wrote; `ValueError` for a column or a number that is missing."""
    types = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        absent = [name for name in types if name not in (reader.fieldnames or ())]
        if absent:
            raise ValueError(f"it has no column {', '.join(absent)}")
        return [
            kind(**{name: types[name](from_cell(cells[name] or "")) for name in types})
            for cells in reader
        ]


SAVE_INTERVAL = 5.0
"""Seconds between two saves of the rows: the work that a killed run may lose."""

PER_RECORDING = "per_recording.csv"
FORECASTS = "forecasts.csv"
ROWS = (PER_RECORDING, FORECASTS)
"""What a run is resumed from."""

CaseTasks = Mapping[tuple[str, str], Callable[[], Case]]
"""Functions that prepare a case, listening included, by frontline and recording."""

CaseProgress = Callable[[int, int, str], None]
"""Called with the number of finished cases, the number of all cases, and the next recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkDesign:
    """Every setting of an evaluation except where the scores come from."""

    rules: tuple[str, ...] = COMPARED
    budgets: tuple[float, ...] = BUDGETS
    """Shares of the windows."""
    window: float = 4.0
    """Seconds of one call."""
    subject: str = "coverage"
    """The rule that is compared with every other."""
    baseline: str = "uniform"
    """The rule that savings and gains are measured against."""
    detail: float = 0.25
    """The budget of the per-recording table and of the strip."""
    rounding: Rounding = "round"
    answers: str | None = None
    """How answers are simulated, `perfect` or `noisy`; then `coverage` is also run in rounds."""
    placement: Placement = "grid"
    """With `free`, `coverage` also places its windows at any half second."""

    def __post_init__(self) -> None:
        Grid(self.window, self.placement)  # raises ValueError if either is invalid
        if self.answers is not None:
            AnswerSimulator.parse(self.answers)
        more = [*([ROUNDS] if self.answers else []), *([FREE] if self.placement == FREE else [])]
        object.__setattr__(self, "rules", tuple(dict.fromkeys([*self.rules, *more])))
        named = (*self.rules, self.subject, self.baseline)
        known = dict.fromkeys([*COMPARED, *RULES, *more])
        unknown = [rule for rule in named if rule not in known]
        if unknown:
            raise ValueError(f"no rule {unknown[0]!r}; there are {', '.join(known)}")
        if self.rounding not in get_args(Rounding):
            raise ValueError(f"rounding is {' or '.join(get_args(Rounding))}, not {self.rounding}")
        if not self.rules or not self.budgets:
            raise ValueError("an evaluation needs at least one rule and one budget")
        for budget in self.budgets:
            if not 0 < budget <= 1:
                raise ValueError(f"a budget lies above 0 % and up to 100 %, not {percent(budget)}")

    @property
    def shown(self) -> float:
        """The budget shown in detail: `detail` if it is among the budgets, else the largest."""
        return self.detail if self.detail in self.budgets else max(self.budgets)

    def rules_for(self, is_first: bool) -> tuple[str, ...]:
        """The rules to run on a frontline; rules that ignore scores run on the first one only."""
        return tuple(rule for rule in self.rules if is_first or not ignores_scores(rule))


def run(
    tasks: CaseTasks,
    design: BenchmarkDesign,
    *,
    folder: Path | None = None,
    progress: CaseProgress | None = None,
) -> BenchmarkRun:
    """Evaluate every case; with a `folder`, resume an earlier run of the same design.

    A case that cannot be prepared is recorded as a failure with its reason; the others go on.
    """
    first = next(iter(tasks), ("", ""))[0]
    done = _load(folder, design, first) if folder else BenchmarkRun()
    known = set(map(case_of, done.rows))
    saved = time.monotonic()
    try:
        for number, (key, task) in enumerate(tasks.items()):
            if progress:
                progress(number, len(tasks), key[1])
            if key in known:
                continue
            try:
                case = task()
            except EarmarkError as error:
                done.failures[key] = str(error)
                continue
            rules = design.rules_for(key[0] == first)
            found = run_case(
                case, rules, design.budgets, rounding=design.rounding, answers=design.answers
            )
            done.rows += found.rows
            done.forecasts += found.forecasts
            if folder and time.monotonic() - saved > SAVE_INTERVAL:
                done.save(folder)
                saved = time.monotonic()
    finally:
        if folder:
            done.save(folder)
    return done.only(tasks)


def _load(folder: Path, design: BenchmarkDesign, first: str) -> BenchmarkRun:
    """The rows that an earlier run saved in `folder`; a case with missing rows is run again."""
    if not all((folder / name).exists() for name in ROWS):
        return BenchmarkRun()
    rows = read_rows(folder / PER_RECORDING)
    try:
        forecasts = parse_rows(folder / FORECASTS, ForecastRow)
    except (TypeError, ValueError, csv.Error) as error:
        path = folder / FORECASTS
        raise LedgerError(f"{path} is damaged ({error}); start over with --fresh") from error
    size = len(design.budgets)
    whole = [
        case
        for case, count in Counter(map(case_of, rows)).items()
        if count == len(design.rules_for(case[0] == first)) * size
    ]
    return BenchmarkRun(rows, forecasts).only(whole)
