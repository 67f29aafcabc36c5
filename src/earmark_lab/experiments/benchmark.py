"""Runs every rule on every recording at every budget; a stopped run resumes from its rows."""

from __future__ import annotations

import csv
import hashlib
import io
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Literal, get_args, get_type_hints

import numpy as np

from earmark.errors import EarmarkError, RunError
from earmark.grid import Grid, Windows
from earmark.media.atomic_file import write_whole
from earmark.selection import (
    RULES,
    Budget,
    Coverage,
    Pick,
    Rule,
    is_blind,
    rule_named,
    with_own_delta,
)
from earmark.selection.pick import allowance, explain
from earmark.selection.rules.ranking import MinimumSeparation, RandomSpans
from earmark.selection.rules.spacing import Strata
from earmark.text_format import from_cell, write_csv
from earmark.timeline import Span
from earmark_lab.annotations.actions import Action
from earmark_lab.experiments.report import PER_RECORDING, percent
from earmark_lab.experiments.simulated_answers import AnswerSimulator, simulate_runs
from earmark_lab.metrics.counts import (
    CoverageCounts,
    ForecastCounts,
    count_covered,
    count_overlaps,
    forecast_error,
    holds_instant,
    is_covered,
    window_range,
)

BUDGETS = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5)

Rounding = Literal["round", "floor"]
"""The paper's Equation 3 says `floor`; its tables follow `round`, half to even."""

ORACLE = "oracle"
"""Greedy set cover of the annotated actions: the ceiling."""

PHASES = "phases"
"""Even spacing averaged over where it starts."""

REFERENCES = (PHASES, ORACLE)
ROUNDS = "rounds"
"""`coverage`, asked in rounds and replanned by simulated answers."""

RANDOM = "random"
"""Random spans with the lengths of the picked stretches."""

DRAWS = 20
CaseKey = tuple[str, str]
"""Frontline and recording."""

OURS_LAST = sorted((name for name in RULES if name != "full"), key=lambda name: name == "coverage")
COMPARED = (*OURS_LAST, *REFERENCES)


def ignores_scores(rule: str) -> bool:
    """Such a rule picks the same windows for every frontline, and runs on one only."""
    kind = RULES.get(rule.partition(":")[0])
    return rule in REFERENCES or bool(getattr(kind, "is_blind", False))


def full_name(rule: str) -> str:
    """`separated` with its delta, which every row shows.

    >>> full_name("separated"), full_name("separated:delta=3"), full_name("rank")
    ('separated:delta=2', 'separated:delta=3', 'rank')
    """
    return f"{rule}:delta={MinimumSeparation().delta}" if rule == "separated" else rule


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    recording: str
    frontline: str
    windows: Windows
    actions: Sequence[Action]
    separation: int | None = None
    """That was fitted to the gate, for `separated:delta=gate`; None if there is none."""


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    recording: str
    frontline: str
    rule: str
    budget: float
    windows: int
    calls: int
    actions: int
    covered: float
    strict: float
    expected: float = 0.0
    """Of covered actions; 0 for rules that expect nothing."""
    foreseen: float = 0.0

    @property
    def counts(self) -> CoverageCounts:
        return CoverageCounts(self.windows, self.calls, self.actions, self.covered, self.strict)

    @property
    def forecast(self) -> ForecastCounts:
        return forecast_error(self.counts, expected=self.expected, foreseen=self.foreseen)


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    rows: list[BenchmarkRow] = field(default_factory=list)
    failures: dict[CaseKey, str] = field(default_factory=dict)


def whole_calls(share: float, windows: int, rounding: Rounding = "round") -> int:
    """Calls of a share of `windows`.

    >>> whole_calls(0.25, 6), whole_calls(0.25, 6, "floor")
    (2, 1)
    """
    if rounding == "floor":
        return math.floor(share * windows + 1e-9)
    return Budget(share=share).calls(windows)


def run_case(
    case: Case,
    rules: Sequence[str],
    budgets: Sequence[float],
    *,
    rounding: Rounding = "round",
    answers: str | None = None,
) -> list[BenchmarkRow]:
    size = len(case.windows)
    calls = [whole_calls(budget, size, rounding) for budget in budgets]
    foreseen = float(case.windows.rates.sum())
    rows = []
    for word in rules:
        rule, expected = full_name(with_own_delta(word, case.separation)), [0.0] * len(calls)
        if rule in (PHASES, RANDOM):
            average = average_phases if rule == PHASES else average_draws
            counted = [average(case, count) for count in calls]
        else:
            picked = choose(case, rule, calls, answers=answers)
            counted = [count_picks(case, picks) for picks in picked]
            expected = [sum(pick.expected for pick in picks) for picks in picked]
        for budget, counts, hoped in zip(budgets, counted, expected, strict=True):
            key = (case.recording, case.frontline, rule, budget)
            row = BenchmarkRow(*key, *astuple(counts))
            rows.append(replace(row, expected=hoped, foreseen=foreseen))
    return rows


def count_picks(case: Case, picks: Sequence[Pick]) -> CoverageCounts:
    return count_covered(case.actions, picks, windows=len(case.windows), length=case.windows.length)


def choose(
    case: Case, rule: str, calls: Sequence[int], *, answers: str | None = None
) -> list[list[Pick]]:
    """`strata` chooses if all windows have the same score, as in a real run."""
    if rule == ROUNDS:
        simulator = AnswerSimulator.parse(answers or "perfect")
        activities = simulator.activities(case.recording, case.actions, case.windows)
        return simulate_runs([case.windows] * len(calls), [activities] * len(calls), calls)
    chosen: Rule
    if rule == ORACLE:
        chosen = Oracle(tuple(case.actions))
    else:
        chosen = rule_named(with_own_delta(rule, case.separation))
        if not (case.windows.has_evidence or is_blind(chosen)):
            chosen = Strata()
    if is_blind(chosen):
        case = with_middle_instants(case)
    if isinstance(chosen, Coverage):
        return chosen.each([case.windows] * len(calls), budgets=calls)
    return [chosen(case.windows, budget=budget) for budget in calls]


@dataclass(frozen=True, slots=True)
class Oracle:
    """Greedy set cover, ties to the earlier window; leaves calls unspent once all is touched."""

    actions: tuple[Span, ...]

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        first, after = window_range(self.actions, len(windows), windows.length)
        counts = count_overlaps(self.actions, len(windows), window=windows.length)
        is_untouched = np.ones(len(self.actions), dtype=bool)
        gains: dict[int, int] = {}
        for _ in range(allowance(windows, budget)):
            best = int(counts.argmax())
            if counts[best] == 0:
                break
            gains[best] = int(counts[best])
            for action in np.flatnonzero(is_untouched & (first <= best) & (best < after)):
                counts[first[action] : after[action]] -= 1
                is_untouched[action] = False
        return explain(windows, list(gains), lambda window, _: f"{gains[window]} new actions")


def with_middle_instants(case: Case) -> Case:
    windows = case.windows
    starts = np.arange(len(windows)) * windows.length
    ends = np.minimum(starts + windows.length, np.maximum(starts, windows.duration))
    return replace(case, windows=replace(windows, instants=(starts + ends) / 2))


def average_draws(case: Case, calls: int) -> CoverageCounts:
    rules = map(RandomSpans, range(DRAWS))
    drawn = [count_picks(case, rule(case.windows, budget=calls)) for rule in rules]
    total = sum(drawn, CoverageCounts())
    return replace(drawn[0], covered=total.covered / DRAWS, strict=total.strict / DRAWS)


def average_phases(case: Case, calls: int) -> CoverageCounts:
    """Averaged over every whole-window phase; means may be fractions.

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


def rows_to_csv(rows: Iterable[BenchmarkRow]) -> str:
    text = io.StringIO()
    names = [column.name for column in fields(BenchmarkRow)]
    cells = (
        [int(value) if isinstance(value, float) and value.is_integer() else value for value in row]
        for row in map(astuple, rows)
    )
    write_csv(text, names, cells)
    return text.getvalue()


def rows_fingerprint(rows: Iterable[BenchmarkRow]) -> str:
    return hashlib.sha256(rows_to_csv(rows).encode()).hexdigest()[:16]


def read_rows(path: Path) -> list[BenchmarkRow]:
    types = get_type_hints(BenchmarkRow)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            absent = [name for name in types if name not in (reader.fieldnames or ())]
            if absent:
                raise ValueError(f"it has no column {', '.join(absent)}")
            return [
                BenchmarkRow(**{name: types[name](from_cell(row[name] or "")) for name in types})
                for row in reader
            ]
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from error
    except (TypeError, ValueError, csv.Error) as error:
        raise RunError(f"{path} is no per_recording.csv of an evaluation: {error}") from error


SAVE_INTERVAL = 5.0
"""Seconds."""

CaseTasks = Mapping[CaseKey, Callable[[], Case]]

CaseProgress = Callable[[int, int, str], None]
"""Called with the cases finished, the cases in all, and the next recording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkDesign:
    rules: tuple[str, ...] = COMPARED
    budgets: tuple[float, ...] = BUDGETS
    window: float = 4.0
    subject: str = "coverage"
    baseline: str = "uniform"
    detail: float = 0.25
    rounding: Rounding = "round"
    answers: str | None = None
    """See `AnswerSimulator.parse`; `coverage` is then also run in rounds."""

    def __post_init__(self) -> None:
        Grid(self.window)  # raises ValueError if it is invalid
        if self.answers is not None:
            AnswerSimulator.parse(self.answers)
        more = [ROUNDS] if self.answers else []
        object.__setattr__(
            self, "rules", tuple(dict.fromkeys(map(full_name, [*self.rules, *more])))
        )
        for name in ("subject", "baseline"):
            object.__setattr__(self, name, full_name(getattr(self, name)))
        available = dict.fromkeys([*COMPARED, *RULES, *more])
        for rule in (*self.rules, self.subject, self.baseline):
            if rule.partition(":")[0] not in available:
                raise ValueError(f"no rule {rule!r}; there are {', '.join(available)}")
            if ":" in rule:
                rule_named(with_own_delta(rule, 1))  # raises ValueError for unknown options
        if self.rounding not in get_args(Rounding):
            raise ValueError(f"rounding is {' or '.join(get_args(Rounding))}, not {self.rounding}")
        if not self.rules or not self.budgets:
            raise ValueError("an evaluation needs at least one rule and one budget")
        for budget in self.budgets:
            if not 0 < budget <= 1:
                raise ValueError(f"a budget lies above 0 % and up to 100 %, not {percent(budget)}")

    @property
    def shown(self) -> float:
        return self.detail if self.detail in self.budgets else max(self.budgets)

    def rules_for(self, is_first: bool) -> tuple[str, ...]:
        return tuple(rule for rule in self.rules if is_first or not ignores_scores(rule))


def run(
    tasks: CaseTasks,
    design: BenchmarkDesign,
    *,
    folder: Path | None = None,
    progress: CaseProgress | None = None,
) -> BenchmarkRun:
    """With a `folder`, resumes an earlier run; a case that cannot be prepared is a failure."""
    first = next(iter(tasks), ("", ""))[0]
    path = folder / PER_RECORDING if folder else None
    rows = _load(path, design, first) if path and path.exists() else {}
    failures: dict[CaseKey, str] = {}

    def save() -> None:
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, rows_to_csv(chain.from_iterable(rows.values())))

    saved = time.monotonic()
    try:
        for number, (key, task) in enumerate(tasks.items()):
            if progress:
                progress(number, len(tasks), key[1])
            if key in rows:
                continue
            try:
                case = task()
            except EarmarkError as error:
                failures[key] = str(error)
                continue
            rules = design.rules_for(key[0] == first)
            rows[key] = run_case(
                case, rules, design.budgets, rounding=design.rounding, answers=design.answers
            )
            if time.monotonic() - saved > SAVE_INTERVAL:
                save()
                saved = time.monotonic()
    finally:
        save()
    return BenchmarkRun([row for key in tasks for row in rows.get(key, ())], failures)


def _load(path: Path, design: BenchmarkDesign, first: str) -> dict[CaseKey, list[BenchmarkRow]]:
    """A case with missing rows is run again."""
    cases: dict[CaseKey, list[BenchmarkRow]] = {}
    for row in read_rows(path):
        cases.setdefault((row.frontline, row.recording), []).append(row)
    sizes = {key: len(design.rules_for(key[0] == first)) * len(design.budgets) for key in cases}
    return {key: rows for key, rows in cases.items() if len(rows) == sizes[key]}
