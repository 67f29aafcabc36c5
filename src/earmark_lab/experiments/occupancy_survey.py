from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from earmark.version import VERSION
from earmark_lab.annotations.actions import Annotations
from earmark_lab.annotations.readers import READERS, detect, read_annotations, split_suffix
from earmark_lab.annotations.table_readers import read_durations
from earmark_lab.experiments import published_numbers as published
from earmark_lab.experiments.published_numbers import RECORDINGS
from earmark_lab.experiments.report import Cells, Report, Table, claim_folder, mean
from earmark_lab.metrics.counts import OccupancyCounts, count_each

if TYPE_CHECKING:
    pass

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
    found: dict[str, Annotations] = {}
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
            if title + level in found:
                raise ValueError(f"two data sets are called {title + level}: name them, NAME=PATH")
            found[title + level] = marked.only(RECORDINGS[chosen]) if chosen else marked
    return found


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
    report = Report("How full is the stream?", settings, tables, notes=notes)
    if out:
        claim_folder(out, settings)
        report.write(out)
    return report
