"""The evaluation itself: every rule on every recording, kept as it goes, told in tables."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError, LedgerError
from earmark.evaluation.annotations.actions import Annotations, counted, few
from earmark.evaluation.benchmark import (
    BUDGETS,
    COMPARED,
    UNHEARD,
    BenchmarkRow,
    Case,
    Rounding,
    exactly,
    read_rows,
    run_case,
    write_rows,
)
from earmark.evaluation.benchmark_results import BenchmarkResults, System
from earmark.evaluation.experiment_report import Drawing, ExperimentReport
from earmark.evaluation.metrics.coverage_counts import ForecastCounts
from earmark.evaluation.tables import coverage_tables, figures
from earmark.evaluation.tables.table import Table, percent
from earmark.media.atomic_file import replacing

SAVE_EVERY = 5.0
"""Seconds between two savings of the rows: what a run that is killed may lose."""

PER_RECORDING = "per_recording.csv"
FORECASTS = "forecasts.csv"
ROWS = (PER_RECORDING, FORECASTS)
"""What a run is taken up from."""

Task = Callable[[], Case]
"""Makes one recording ready to be judged; this is where listening happens."""

Tasks = Mapping[tuple[str, str], Task]
"""By frontline and recording."""

Watch = Callable[[int, int, str], None]
"""Told how many cases are done, of how many, and which is next."""


@dataclass(frozen=True, slots=True)
class BenchmarkDesign:
    """Every choice of an evaluation but where the scores come from."""

    rules: tuple[str, ...] = COMPARED
    budgets: tuple[float, ...] = BUDGETS
    window: float = 4.0
    subject: str = "coverage"
    """The rule that is compared with every other."""
    baseline: str = "uniform"
    """The rule that savings and gains are measured against."""
    detail: float = 0.25
    """The budget of the per-recording table and of the strip."""
    rounding: Rounding = "round"

    def __post_init__(self) -> None:
        named = (*self.rules, self.subject, self.baseline)
        unknown = [rule for rule in named if rule not in (*COMPARED, "full")]
        if unknown:
            raise ValueError(f"no rule {unknown[0]!r}; there are {', '.join((*COMPARED, 'full'))}")
        if not self.rules or not self.budgets:
            raise ValueError("an evaluation needs at least one rule and one budget")
        for budget in self.budgets:
            if not 0 < budget <= 1:
                raise ValueError(f"a budget lies above 0 % and up to 100 %, not {percent(budget)}")

    @property
    def shown(self) -> float:
        """The budget looked at in detail: `detail` if it is among the budgets, else the largest."""
        return self.detail if self.detail in self.budgets else max(self.budgets)

    def rules_for(self, is_first: bool) -> tuple[str, ...]:
        """The rules to run on a frontline: those that do not listen on the first one alone."""
        return tuple(rule for rule in self.rules if is_first or rule not in UNHEARD)

    def to_json(self) -> dict[str, Any]:
        """The design as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BenchmarkRun:
    """What a run came to."""

    rows: tuple[BenchmarkRow, ...]
    forecasts: dict[tuple[str, str, float], ForecastCounts]
    """By frontline, recording and budget."""
    failures: dict[tuple[str, str], str]
    """Why a case could not be judged."""


def run(
    tasks: Tasks, design: BenchmarkDesign, *, folder: Path | None = None, watch: Watch | None = None
) -> BenchmarkRun:
    """Judge every case; with a `folder`, go on where an earlier run with this design stopped.

    A case that cannot be made ready is a failure with its reason, and the others go on.
    """
    first = next(iter(tasks), ("", ""))[0]
    kept = _Kept.load(folder, design, first) if folder else _Kept()
    failures: dict[tuple[str, str], str] = {}
    saved = time.monotonic()
    try:
        for number, (key, task) in enumerate(tasks.items()):
            if watch:
                watch(number, len(tasks), key[1])
            if key in kept.rows:
                continue
            try:
                case = task()
            except EarmarkError as error:
                failures[key] = str(error)
                continue
            kept.add(key, case, design, design.rules_for(key[0] == first))
            if folder and time.monotonic() - saved > SAVE_EVERY:
                kept.save(folder)
                saved = time.monotonic()
    finally:
        if folder:
            kept.save(folder)
    rows = tuple(row for key in tasks if key in kept.rows for row in kept.rows[key])
    told = {key: found for key, found in kept.forecasts.items() if key[:2] in tasks}
    return BenchmarkRun(rows, told, failures)


class _Kept:
    """The rows of the cases judged so far."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], list[BenchmarkRow]] = {}
        self.forecasts: dict[tuple[str, str, float], ForecastCounts] = {}

    @classmethod
    def load(cls, folder: Path, design: BenchmarkDesign, first: str) -> _Kept:
        """What an earlier run left in `folder`; a case with rows missing is judged again."""
        kept = cls()
        if not (folder / PER_RECORDING).exists() or not (folder / FORECASTS).exists():
            return kept
        for row in read_rows(folder / PER_RECORDING):
            kept.rows.setdefault((row.frontline, row.recording), []).append(row)
        kept.rows = {
            key: rows
            for key, rows in kept.rows.items()
            if len(rows) == len(design.rules_for(key[0] == first)) * len(design.budgets)
        }
        kept.forecasts = _read_forecasts(folder / FORECASTS)
        return kept

    def add(
        self, key: tuple[str, str], case: Case, design: BenchmarkDesign, rules: tuple[str, ...]
    ) -> None:
        """Judge one case."""
        judged = run_case(case, rules, design.budgets, rounding=design.rounding)
        self.rows[key] = judged.rows
        for budget, found in judged.forecasts.items():
            self.forecasts[*key, budget] = found

    def save(self, folder: Path) -> None:
        """Write both files, each whole."""
        folder.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(
            ("frontline", "recording", "budget", *(f.name for f in fields(ForecastCounts)))
        )
        for key, found in self.forecasts.items():
            writer.writerow(map(exactly, (*key, *astuple(found))))
        with replacing(folder / FORECASTS) as scratch:
            scratch.write_text(text.getvalue(), encoding="utf-8")
        write_rows(folder / PER_RECORDING, (row for rows in self.rows.values() for row in rows))


def _read_forecasts(path: Path) -> dict[tuple[str, str, float], ForecastCounts]:
    """The forecasts of an earlier run, by frontline, recording and budget."""
    found = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for line, name, budget, *cells in list(csv.reader(file))[1:]:
                recordings, expected, covered, actions, foreseen, absolute = map(float, cells)
                found[line, name, float(budget)] = ForecastCounts(
                    int(recordings), expected, covered, int(actions), foreseen, absolute
                )
    except (ValueError, csv.Error) as error:
        raise LedgerError(f"{path} is damaged ({error}); start over with --fresh") from error
    return found


def report(
    ran: BenchmarkRun,
    annotations: Annotations,
    design: BenchmarkDesign,
    *,
    settings: dict[str, Any],
    notes: tuple[str, ...] = (),
) -> ExperimentReport:
    """The tables and figures of a run, all derived from its rows.

    Raises:
        EarmarkError: no case could be judged.
    """
    if not ran.rows:
        reasons = few(f"{name}: {why}" for (_, name), why in ran.failures.items())
        raise EarmarkError(f"nothing could be evaluated: {reasons or 'there are no recordings'}")
    results = BenchmarkResults.of_rows(ran.rows)
    frontline = results.frontlines[0]
    subject = _system(results, frontline, design.subject, instead=-1)
    baseline = _system(results, frontline, design.baseline, instead=0)
    absent = tuple(
        f"the rule {wanted} was not run, so {results.label(taken)} stands in its place"
        for wanted, taken in ((design.subject, subject), (design.baseline, baseline))
        if wanted != taken[1]
    )
    failed = tuple(f"left out: {name} ({f}): {why}" for (f, name), why in ran.failures.items())
    return ExperimentReport(
        "Does listening pay?",
        settings,
        tuple(_tables(results, ran, annotations, design, subject=subject, baseline=baseline)),
        _figures(results, annotations, design, subject, baseline),
        (*notes, *absent, *annotations.only(results.recordings).notes(), *failed),
    )


def _system(results: BenchmarkResults, frontline: str, rule: str, *, instead: int) -> System:
    """The system of that rule if it was run; else the one at the place `instead`."""
    known = (frontline, rule) in results.systems
    return (frontline, rule) if known else results.systems[instead]


def _tables(
    results: BenchmarkResults,
    ran: BenchmarkRun,
    annotations: Annotations,
    design: BenchmarkDesign,
    *,
    subject: System,
    baseline: System,
) -> list[Table]:
    """Every table, the most asked for first."""
    found = [coverage_tables.coverage_table(results)]
    for frontline in results.frontlines:
        beside = coverage_tables.paper_table(results, frontline)
        found += [beside] if beside else []
    found.append(coverage_tables.paired_table(results, subject))
    found.append(coverage_tables.saved_table(results, baseline))
    found.append(
        coverage_tables.recording_table(
            results,
            annotations,
            budget=design.shown,
            subject=subject,
            baseline=baseline,
            window=design.window,
        )
    )
    found.append(
        coverage_tables.gain_table(results, annotations, window=design.window, baseline=baseline)
    )
    if ran.forecasts:
        found.append(coverage_tables.forecast_table(_forecasts(ran)))
    found.append(coverage_tables.pooled_table(results))
    return found


def _forecasts(ran: BenchmarkRun) -> dict[tuple[str, float], ForecastCounts]:
    """Forecasts added up over recordings."""
    total: dict[tuple[str, float], ForecastCounts] = {}
    for (frontline, _, budget), found in ran.forecasts.items():
        total[frontline, budget] = total.get((frontline, budget), ForecastCounts()) + found
    return total


def _figures(
    results: BenchmarkResults,
    annotations: Annotations,
    design: BenchmarkDesign,
    subject: System,
    baseline: System,
) -> dict[str, Drawing]:
    """The paper's four panels, and gain against occupancy; none where nothing can be drawn."""
    if not figures.can_draw():
        return {}
    occupancy = coverage_tables.occupancies(annotations, results, window=design.window)
    return {
        "plane": (
            f"Coverage against calls, all actions of {counted(results.counted, 'recording')} "
            f"together, and the same curves read sideways as calls saved.",
            lambda: figures.png(figures.plane(results, subject, baseline)),
        ),
        "gain_against_occupancy": (
            f"Gain of {results.label(subject)} over {results.label(baseline)} against occupancy.",
            lambda: figures.png(figures.gain_scatter(results, occupancy, subject, baseline)),
        ),
    }
