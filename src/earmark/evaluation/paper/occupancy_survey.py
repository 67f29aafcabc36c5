"""Occupancy by data set and by window length, which limits what a frontline can gain.

Counting is fast and repeated each time; running the rules at every window length is slow, so its
rows are saved per recording and resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.evaluation import benchmark
from earmark.evaluation.annotations.actions import Annotations
from earmark.evaluation.annotations.readers import READERS, detect, read_annotations
from earmark.evaluation.annotations.table_readers import read_durations
from earmark.evaluation.benchmark import BenchmarkDesign, BenchmarkRow, CaseProgress
from earmark.evaluation.benchmark_results import BenchmarkResults
from earmark.evaluation.experiment_report import Drawing, ExperimentReport, claim_folder
from earmark.evaluation.metrics.coverage_counts import OccupancyCounts, count_each
from earmark.evaluation.paper import published_numbers as published
from earmark.evaluation.paper.published_numbers import RECORDINGS, SWEEP_BUDGETS
from earmark.evaluation.score_sources import FittedScores, split_for_fitting
from earmark.evaluation.tables import figures
from earmark.evaluation.tables.coverage_tables import gain_table, occupancies
from earmark.evaluation.tables.table import Cells, Table, mean, percent
from earmark.version import VERSION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WINDOWS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Window lengths of the sweep in seconds; the paper's."""

PAPER_WINDOW = 4.0
"""Window length of the paper's occupancy table in seconds."""


@dataclass(frozen=True, slots=True)
class OccupancyPlan:
    """Every setting of a survey: data sets, window lengths, and data for gains."""

    sets: tuple[str, ...]
    """Data sets as `read_data_sets` reads them."""
    durations: Path | None = None
    window: float = 4.0
    """Seconds of a window of the occupancy table."""
    windows: tuple[float, ...] = WINDOWS
    """Seconds of the windows of the sweep."""
    results: Path | None = None
    """The `per_recording.csv` of an evaluation of the first set, for gain against occupancy."""
    sound_events: tuple[Path, ...] = ()
    """Annotated sound events of the first set, for what rules gain at each window length."""
    sound_events_format: str | None = None
    recordings: tuple[str, ...] = ()
    """With sound events, the recordings to evaluate; all of the first set if empty."""

    def __post_init__(self) -> None:
        for window in (self.window, *self.windows):
            if not 0 < window < float("inf"):
                raise ValueError(f"a window lasts more than 0 s, not {window:g}")
        if not self.windows:
            raise ValueError("a sweep needs at least one window length")


DataSets = Mapping[str, Annotations]
"""Annotations to measure, by name."""


def read_data_sets(
    words: Sequence[str], *, durations: Mapping[str, float] | None = None
) -> dict[str, Annotations]:
    """Data sets written as `[NAME=]PATH[#FORMAT][@SET]`.

    `FORMAT` is one of `READERS`, `SET` a named set of recordings (`paper`, `paper-primary`,
    `paper-replication`). A GoalStep file without a format gives two sets: steps and substeps.
    Two sets of one name are a `ValueError`.
    """
    found: dict[str, Annotations] = {}
    for word in words:
        name, _, rest = word.rpartition("=")
        rest, chosen = _split_suffix(rest, "@", RECORDINGS)
        rest, kind = _split_suffix(rest, "#", READERS)
        path = Path(rest)
        title = name or path.stem + (f" ({chosen})" if chosen else "")
        levels = {kind: ""}
        if not kind and path.is_file() and detect(path) == "goalstep":
            levels = {"goalstep": ", steps", "goalstep-substeps": ", substeps"}
        for each, level in levels.items():
            marked = read_annotations(path, format=each, durations=durations)
            if title + level in found:
                raise ValueError(f"two data sets are called {title + level}: name them, NAME=PATH")
            found[title + level] = marked.only(RECORDINGS[chosen]) if chosen else marked
    return found


def _split_suffix(word: str, sign: str, known: Mapping[str, Any]) -> tuple[str, str | None]:
    """`word` without a known name after `sign`, and that name; paths may contain the sign."""
    head, found, tail = word.rpartition(sign)
    return (head, tail) if found and tail.partition(":")[0] in known else (word, None)


def count_occupancy(annotations: Annotations, *, window: float) -> OccupancyCounts:
    """Occupancy of all recordings together."""
    return sum(count_each(annotations, window=window), OccupancyCounts())


def occupancy_table(sets: DataSets, *, window: float) -> Table:
    """The paper's occupancy table over `sets`; its own rows beneath, at its own window length."""
    rows: list[Cells] = []
    for name, marked in sets.items():
        full = count_occupancy(marked, window=window)
        size = (len(marked.recordings), marked.hours, marked.actions, mean(marked.lengths))
        rows.append((name, *size, 100 * full.occupancy, full.actions_per_window))
    printed = published.OCCUPANCY.items() if window == PAPER_WINDOW else ()
    for name, (count, hours, share) in printed:
        rows.append((f"{name} (paper)", count, hours, "—", "—", share, "—"))
    sizes = ("recordings", "hours", "actions", "mean length, s")
    columns = ("data set", *sizes, "occupied %", "actions per window")
    return Table(f"Occupancy of {window:g} s windows", columns, rows, decimals=2)


def sweep_table(sets: DataSets, windows: Sequence[float] = WINDOWS) -> Table:
    """Windows and occupancy by window length, the paper's primary set beneath."""
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
    plan: OccupancyPlan,
    *,
    out: str | Path | None = None,
    fresh: bool = False,
    progress: CaseProgress | None = None,
) -> ExperimentReport:
    """The report of the survey, also written to the folder `out`, from which a run resumes.

    `LedgerError` if `out` holds another run, and `AnnotationError` for results of recordings that
    are not in the first set.
    """
    folder = None if out is None else Path(out)
    lengths = read_durations(plan.durations) if plan.durations else None
    sets = read_data_sets(plan.sets, durations=lengths)
    rows = benchmark.read_rows(plan.results) if plan.results else []
    first = next(iter(sets.values()))
    first.only(row.recording for row in rows)  # raises for those that are not in the first set
    events, sources, fitted = None, [], {}
    if plan.sound_events:
        events = read_annotations(
            plan.sound_events, format=plan.sound_events_format, durations=lengths
        )
        every, _ = _split_suffix(plan.sets[0], "@", RECORDINGS)  # whatever set it names
        whole = next(iter(read_data_sets([every], durations=lengths).values()))
        chosen = plan.recordings or tuple(first.recordings)
        split = split_for_fitting(whole, chosen if len(chosen) < len(whole.recordings) else ())
        sources = [FittedScores(whole, events, split, window) for window in plan.windows]
        # More recordings than the first set has: what is heard in it depends on them too.
        fitted = {"fitted": whole.fingerprint} if whole.recordings != first.recordings else {}
    settings = {
        "experiment": "occupancy",
        "window": plan.window,
        "windows": list(plan.windows),
        "sets": {name: marked.fingerprint for name, marked in sets.items()},
        "sound_events": events.fingerprint if events else None,
        "recordings": list(plan.recordings),
        "results": benchmark.rows_fingerprint(rows) if rows else None,
        "earmark": VERSION,
        **fitted,
    }
    if folder:
        kept = [
            f"{_rows_folder(window)}/{name}" for window in plan.windows for name in benchmark.ROWS
        ]
        claim_folder(folder, settings, fresh=fresh, rows=kept)
    report = report_occupancy(sets, plan, rows=rows, settings=settings)
    if sources:
        sweep = gain_sweep(sources, folder=folder, progress=progress)
        report = replace(report, tables=(*report.tables[:2], sweep, *report.tables[2:]))
    if folder:
        report.write(folder)
    return report


def _rows_folder(window: float) -> str:
    return f"windows/{window:g}s"


def gain_sweep(
    sources: Sequence[FittedScores],
    *,
    folder: Path | None = None,
    progress: CaseProgress | None = None,
) -> Table:
    """The gain of score-driven rules over `uniform` by window length, one for each of `sources`.

    With a `folder`, the rows of every length are saved in it and resumed.
    """
    rows: list[Cells] = []
    rules = ("uniform", "rank", "separated", "coverage")
    for source in sources:
        window = source.window
        design = BenchmarkDesign(rules=rules, budgets=SWEEP_BUDGETS, window=window)
        place = folder / _rows_folder(window) if folder else None
        ran = benchmark.run(source.tasks(), design, folder=place, progress=progress)
        results = BenchmarkResults.of_rows(ran.rows)
        even = [results.pooled(results.system("uniform"), b).coverage for b in SWEEP_BUDGETS]
        for rule in rules[1:]:
            ours = [results.pooled(results.system(rule), b).coverage for b in SWEEP_BUDGETS]
            gains = (100 * (more - less) for more, less in zip(ours, even, strict=True))
            rows.append((f"{window:g} s", rule, *gains))
    columns = ("window", "rule", *map(percent, SWEEP_BUDGETS))
    note = f"Points of pooled coverage over uniform; scores from {sources[0].describe()}."
    return Table("Gain over uniform by window length", columns, rows, note)


def report_occupancy(
    sets: DataSets,
    plan: OccupancyPlan,
    *,
    rows: Sequence[BenchmarkRow] = (),
    settings: Mapping[str, Any] | None = None,
) -> ExperimentReport:
    """Occupancy of `sets`; with `rows` of an evaluation of the first, gain against occupancy."""
    tables = [occupancy_table(sets, window=plan.window), sweep_table(sets, plan.windows)]
    draw = partial(_draw_sweep, sets, plan.windows)
    drawn = [Drawing("window_sweep", "Occupancy by window length.", draw)]
    if rows:
        results = BenchmarkResults.of_rows(rows)
        rules = results.rules
        baseline = results.system("uniform" if "uniform" in rules else rules[0])
        subject = results.system("coverage" if "coverage" in rules else rules[-1])
        occupancy = occupancies(next(iter(sets.values())), results, window=plan.window)
        tables.append(gain_table(results, occupancy, baseline=baseline))
        caption = f"Gain of {subject[1]} over {baseline[1]} against occupancy."
        draw = partial(figures.gain_scatter, results, occupancy, subject, baseline)
        drawn.append(Drawing("gain_against_occupancy", caption, draw))
    notes = tuple(f"{name}: {note}" for name, marked in sets.items() for note in marked.notes())
    title = "How full is the stream?"
    return ExperimentReport(title, dict(settings or {}), tuple(tables), tuple(drawn), notes)


def _draw_sweep(sets: DataSets, windows: Sequence[float]) -> Figure:
    lengths = sorted(windows)
    series = {
        name: [(w, 100 * count_occupancy(marked, window=w).occupancy) for w in lengths]
        for name, marked in sets.items()
    }
    title, across = "How full windows are", "seconds of a window"
    up = "occupancy: windows that touch an action, %"
    return figures.lines(series, title=title, across=across, up=up, ticks=lengths)
