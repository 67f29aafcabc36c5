"""Reports that need no scores: how many windows touch an action, and what calls cost.

All calls cost the same, so the cost model follows from their number:

    full scan   = windows * seconds a call
    triage      = hours / frontline speed  +  share of calls * full scan
    pays while  frontline / full scan < 1 - share of calls
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from earmark.errors import AnnotationError
from earmark.version import VERSION
from earmark_lab.annotations.actions import Annotations
from earmark_lab.annotations.readers import READERS, detect, read_annotations, split_suffix
from earmark_lab.annotations.table_readers import read_durations, read_errors
from earmark_lab.experiments import paper as published
from earmark_lab.experiments.benchmark import BUDGETS, read_rows, rows_fingerprint
from earmark_lab.experiments.coverage_tables import BenchmarkResults
from earmark_lab.experiments.paper import RECORDINGS
from earmark_lab.experiments.report import Cells, Report, Table, claim_folder, mean, percent
from earmark_lab.metrics.counts import OccupancyCounts, count_each

WINDOWS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds; the paper's."""

WINDOW = 4.0
"""Seconds; of the paper's occupancy table."""

DataSets = Mapping[str, Annotations]


def read_data_sets(
    words: Sequence[str], *, durations: Mapping[str, float] | None = None
) -> dict[str, Annotations]:
    """`words` are `[NAME=]PATH[#FORMAT][@SET]`, a set being `paper`, `paper-primary` and the like.

    A GoalStep file without a format gives two sets: steps and substeps.
    """
    sets: dict[str, Annotations] = {}
    for word in words:
        name, _, rest = word.rpartition("=")
        rest, chosen = split_suffix(rest, "@", RECORDINGS)
        rest, kind = split_suffix(rest, "#", READERS)
        path = Path(rest)
        title = name or path.stem + (f" ({chosen})" if chosen else "")
        levels = {kind: ""}
        if not kind and path.is_file() and detect(path) == "goalstep":
            levels = {"goalstep": ", steps", "goalstep-substeps": ", substeps"}
        for form, level in levels.items():
            marked = read_annotations(path, format=form, durations=durations)
            if title + level in sets:
                raise ValueError(f"two data sets are called {title + level}: name them, NAME=PATH")
            sets[title + level] = marked.only(RECORDINGS[chosen]) if chosen else marked
    return sets


def count_occupancy(annotations: Annotations, *, window: float) -> OccupancyCounts:
    return sum(count_each(annotations, window=window), OccupancyCounts())


def occupancy_table(sets: DataSets) -> Table:
    rows: list[Cells] = []
    for name, marked in sets.items():
        full = count_occupancy(marked, window=WINDOW)
        size = (len(marked.recordings), marked.hours, marked.actions, mean(marked.lengths))
        rows.append((name, *size, 100 * full.occupancy, full.actions_per_window))
    for name, (count, hours, share) in published.OCCUPANCY.items():
        rows.append((f"{name} (paper)", count, hours, "—", "—", share, "—"))
    sizes = ("recordings", "hours", "actions", "mean length, s")
    columns = ("data set", *sizes, "occupied %", "actions per window")
    return Table(f"Occupancy of {WINDOW:g} s windows", columns, rows, decimals=2)


def sweep_table(sets: DataSets, windows: Sequence[float] = WINDOWS) -> Table:
    rows: list[Cells] = []
    for name, marked in sets.items():
        for window in windows:
            full = count_occupancy(marked, window=window)
            rows.append((name, f"{window:g} s", full.windows, 100 * full.occupancy))
    for window, (count, share) in published.WINDOW_SWEEP.items():
        rows.append(("primary set (paper)", f"{window:g} s", count, share))
    columns = ("data set", "window", "windows", "occupied %")
    return Table("Occupancy by window length", columns, rows)


def measure_occupancy(
    words: Sequence[str],
    *,
    durations: Path | None = None,
    windows: Sequence[float] = WINDOWS,
    out: Path | None = None,
) -> Report:
    if not windows or not all(0 < window < float("inf") for window in windows):
        raise ValueError(f"window lengths are seconds above 0, not {list(windows)}")
    sets = read_data_sets(words, durations=read_durations(durations) if durations else None)
    settings = {
        "experiment": "occupancy",
        "windows": list(windows),
        "sets": {name: marked.fingerprint for name, marked in sets.items()},
        "earmark": VERSION,
    }
    notes = tuple(f"{name}: {note}" for name, marked in sets.items() for note in marked.notes())
    tables = (occupancy_table(sets), sweep_table(sets, windows))
    return _write(Report("How full is the stream?", settings, tables, notes=notes), out)


def _write(report: Report, folder: Path | None) -> Report:
    if folder:
        claim_folder(folder, report.settings)
        report.write(folder)
    return report


TOKENS = (64, 128, 256, 512, 1024)


@dataclass(frozen=True, slots=True)
class CostModel:
    """The defaults are the paper's, on a V100."""

    hours: float = 1000.0
    window: float = 4.0
    call: float = 0.74
    tokens: int = 1024
    overhead: float = 0.0
    """The part of `call`, in GPU-seconds, that does not depend on the tokens."""
    audio_speed: float = 178.0
    visual_speed: float = 8.6
    visual_share: float = 0.5
    gpu_hour: float = 2.0

    def __post_init__(self) -> None:
        for name in ("hours", "window", "call", "tokens", "audio_speed", "visual_speed"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is above 0, not {getattr(self, name)}")
        check_shares([self.visual_share])
        if not self.gpu_hour >= 0:
            raise ValueError(f"a GPU-hour costs nothing or more, not {self.gpu_hour}")
        if not 0 <= self.overhead <= self.call:
            raise ValueError(f"the overhead is a part of a call ({self.call} s): {self.overhead}")

    @property
    def windows(self) -> float:
        return self.hours * 3600 / self.window

    @property
    def full_scan(self) -> float:
        return self.windows * self.call / 3600

    def token_cost(self, share: float, tokens: int) -> float:
        """GPU-hours; listening is included for a share below 1."""
        frontline = self.hours / self.audio_speed if share < 1 else 0.0
        call = self.overhead + (self.call - self.overhead) * tokens / self.tokens
        return frontline + share * self.windows * call / 3600

    def break_even(self, speed: float) -> float:
        """The share of calls up to which it pays; 0 if it never does."""
        return max(0.0, 1 - self.hours / speed / self.full_scan)


def check_shares(shares: Sequence[float]) -> None:
    for share in shares:
        if not 0 <= share <= 1:
            raise ValueError(f"a share of calls lies from 0 to 100 %: {percent(share)}")


def cost_table(prices: CostModel, shares: Sequence[float] = BUDGETS) -> Table:
    listening, looking = prices.hours / prices.audio_speed, prices.hours / prices.visual_speed
    visual, rows = prices.visual_share, []
    for name, frontline, share in (
        ("full scan", 0.0, 1.0),
        *((f"triage, {percent(share)} of calls", listening, share) for share in shares),
        (f"visual frontline, {percent(visual)} of calls", looking, visual),
    ):
        calls = share * prices.full_scan
        total = frontline + calls
        saved = 100 * (1 - total / prices.full_scan)
        rows.append((name, frontline, calls, total, total * prices.gpu_hour, saved))
    columns = ("way", "frontline GPU-h", "calls GPU-h", "GPU-h", "cost at your price", "saved %")
    note = (
        f"Per {prices.hours:g} h in windows of {prices.window:g} s: {prices.windows:,.0f} calls of "
        f"{prices.call:g} GPU-s at {prices.gpu_hour:g} a GPU-hour."
    )
    return Table("Cost", columns, rows, note)


def break_even_table(prices: CostModel) -> Table:
    rows: list[Cells] = [
        (name, 100 * prices.hours / speed / prices.full_scan, 100 * prices.break_even(speed))
        for name, speed in (("audio", prices.audio_speed), ("visual", prices.visual_speed))
    ]
    columns = ("frontline", "its cost, % of a full scan", "pays up to, % of calls")
    return Table("Break-even", columns, rows)


def plane_table(prices: CostModel, covers: Mapping[float, float], shares: Sequence[float]) -> Table:
    """`covers` is coverage in per cent by share of calls."""
    rows: list[Cells] = []
    for share in (*(share for share in covers or shares if share < 1), 1.0):
        cost = [prices.token_cost(share, size) for size in TOKENS]
        reached = (100.0 if share == 1.0 else covers[share],) if covers else ()
        rows.append((percent(share), *reached, *cost))
    heads = ("coverage %",) if covers else ()
    columns = ("calls", *heads, *(f"{size} tokens" for size in TOKENS))
    note = "GPU-hours, the frontline included; a full scan needs none."
    return Table("Calls and tokens on one plane", columns, rows, note)


def composition_table(
    prices: CostModel, covers: Mapping[float, float], naming: Mapping[int, float]
) -> Table:
    """A star marks pairs of calls and tokens that no cheaper one matches; in per cent.

    Calls and tokens alone are the cost, as in the paper; listening is charged in a column beside.
    """
    pairs = [
        (share * tokens / prices.tokens, reached * accuracy / 100, share, tokens)
        for share, reached in {**covers, 1.0: 100.0}.items()
        for tokens, accuracy in naming.items()
    ]
    rows: list[Cells] = []
    best = -1.0
    for cost, named, share, tokens in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        star = "*" if named > best else ""
        best = max(best, named)
        listened = 100 * prices.token_cost(share, tokens) / prices.full_scan
        rows.append((100 * cost, percent(share), tokens, named, star, listened))
    columns = ("cost, % of a full scan", "calls", "tokens", "named %", "best", "with listening, %")
    note = (
        "Coverage times naming accuracy; a star where nothing cheaper names as many. The cost is "
        "of calls and tokens; the last column adds listening."
    )
    return Table("Triage and compression together", columns, rows, note)


def estimate_cost(
    prices: CostModel,
    *,
    shares: Sequence[float] = BUDGETS,
    results: Path | None = None,
    naming: Path | None = None,
    out: Path | None = None,
) -> Report:
    """`results` is the `per_recording.csv` of an evaluation, `naming` a CSV by visual tokens."""
    check_shares(shares)
    rows = read_rows(results) if results else []
    covers: dict[float, float] = {}
    if rows:
        reached = BenchmarkResults.of_rows(rows)
        rule = "coverage" if "coverage" in reached.rules else reached.rules[0]
        covers = reached.means(reached.system(rule))
    named = read_naming(naming) if naming else None
    settings = {
        "experiment": "cost",
        **asdict(prices),
        "budgets": list(shares),
        "results": rows_fingerprint(rows) if rows else None,
        "naming": named,
    }
    tables = [
        cost_table(prices, shares),
        break_even_table(prices),
        plane_table(prices, covers, shares),
    ]
    if covers and named:
        tables.append(composition_table(prices, covers, named))
    return _write(Report("What does looking cost?", settings, tuple(tables)), out)


def read_naming(path: Path) -> dict[int, float]:
    with read_errors(path), path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    try:
        return {int(row["tokens"]): float(row["accuracy"]) for row in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise AnnotationError(
            f"{path} needs the columns tokens and accuracy, with numbers under them: {error}"
        ) from error
