"""Every rule on every recording, saved as it goes, so that a stopped run is resumed."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from earmark.errors import EarmarkError, LedgerError
from earmark.evaluation.benchmark import (
    BUDGETS,
    COMPARED,
    UNHEARD,
    BenchmarkRow,
    Case,
    CaseResult,
    ForecastRow,
    Rounding,
    parse_rows,
    read_rows,
    run_case,
    write_rows,
)
from earmark.evaluation.tables.table import percent

SAVE_EVERY = 5.0
"""Seconds between two savings of the rows: what a run that is killed may lose."""

PER_RECORDING = "per_recording.csv"
FORECASTS = "forecasts.csv"
ROWS = (PER_RECORDING, FORECASTS)
"""What a run is resumed from."""

Task = Callable[[], Case]
"""Makes one recording ready to be judged; this is where listening happens."""

Tasks = Mapping[tuple[str, str], Task]
"""By frontline and recording."""

Progress = Callable[[int, int, str], None]
"""Called with how many cases are done, of how many, and which is next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkDesign:
    """Every choice of an evaluation but where the scores come from."""

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


@dataclass(slots=True)
class BenchmarkRun:
    """What a run came to, by frontline and recording."""

    results: dict[tuple[str, str], CaseResult] = field(default_factory=dict)
    failures: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why a case could not be judged."""

    @property
    def rows(self) -> list[BenchmarkRow]:
        """Every row, case by case."""
        return [row for result in self.results.values() for row in result.rows]

    @property
    def forecasts(self) -> list[ForecastRow]:
        """Every forecast, case by case."""
        return [row for result in self.results.values() for row in result.forecasts]

    def save(self, folder: Path) -> None:
        """Write both files, each whole."""
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / FORECASTS, ForecastRow, self.forecasts)
        write_rows(folder / PER_RECORDING, BenchmarkRow, self.rows)


def run(
    tasks: Tasks,
    design: BenchmarkDesign,
    *,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> BenchmarkRun:
    """Judge every case; with a `folder`, resume an earlier run with this design.

    A case that cannot be made ready is a failure with its reason, and the others go on.
    """
    first = next(iter(tasks), ("", ""))[0]
    done = _load(folder, design, first) if folder else BenchmarkRun()
    saved = time.monotonic()
    try:
        for number, (key, task) in enumerate(tasks.items()):
            if progress:
                progress(number, len(tasks), key[1])
            if key in done.results:
                continue
            try:
                case = task()
            except EarmarkError as error:
                done.failures[key] = str(error)
                continue
            rules = design.rules_for(key[0] == first)
            done.results[key] = run_case(case, rules, design.budgets, rounding=design.rounding)
            if folder and time.monotonic() - saved > SAVE_EVERY:
                done.save(folder)
                saved = time.monotonic()
    finally:
        if folder:
            done.save(folder)
    ordered = {key: done.results[key] for key in tasks if key in done.results}
    return BenchmarkRun(ordered, done.failures)


def _load(folder: Path, design: BenchmarkDesign, first: str) -> BenchmarkRun:
    """What an earlier run left in `folder`; a case with rows missing is judged again."""
    found: dict[tuple[str, str], CaseResult] = {}
    if not all((folder / name).exists() for name in ROWS):
        return BenchmarkRun()
    for row in read_rows(folder / PER_RECORDING):
        found.setdefault((row.frontline, row.recording), CaseResult([], [])).rows.append(row)
    try:
        forecasts = parse_rows(folder / FORECASTS, ForecastRow)
    except (TypeError, ValueError, csv.Error) as error:
        path = folder / FORECASTS
        raise LedgerError(f"{path} is damaged ({error}); start over with --fresh") from error
    for forecast in forecasts:
        if result := found.get((forecast.frontline, forecast.recording)):
            result.forecasts.append(forecast)
    size = len(design.budgets)
    return BenchmarkRun(
        {
            key: result
            for key, result in found.items()
            if len(result.rows) == len(design.rules_for(key[0] == first)) * size
        }
    )
