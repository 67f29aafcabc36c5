"""The tables that need only annotations or the cost model, and no sound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import get_args

from earmark.gate.lengths import LengthModel
from earmark.grid import Grid
from earmark.models import ModelStore
from earmark_lab.annotations.actions import Annotations
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.experiments import paper as published
from earmark_lab.experiments.benchmark import (
    BUDGETS,
    ORACLE,
    PHASES,
    Case,
    Rounding,
    run_case,
    whole_calls,
)
from earmark_lab.experiments.coverage_tables import BenchmarkResults, coverage_table
from earmark_lab.experiments.occupancy_and_cost import CostModel, count_occupancy
from earmark_lab.experiments.paper import OCCUPANCY, READY, RECORDINGS, systems
from earmark_lab.experiments.report import mean
from earmark_lab.experiments.score_sources import even_windows
from earmark_lab.metrics.counts import count_each
from earmark_lab.reproduce.inputs import PaperInputs
from earmark_lab.reproduce.reproduction import Comparison, Made

ALONE = "annotations alone"
UNUSABLE = {
    "dasm": "its weights are published without a licence",
    "slowfast": "the paper's fine-tuned weights are unpublished",
    "gate": "the paper's weights are unpublished",
}
"""Why a system of the paper cannot be run itself."""

BLIND = ("uniform", "strata", PHASES, ORACLE)
row = partial(Comparison, ran=ALONE)


def make_methods(inputs: PaperInputs) -> Iterator[Comparison]:  # noqa: ARG001 - it needs nothing
    store = ModelStore()
    for system in systems():
        if named := system.paper or system.stands_for:
            state = system.state(store)
            own = f"stands in its place: {UNUSABLE[system.name]}" if system.stands_for else ""
            here = f"{system.kind} {system.name}"
            ran = system.scores if state == READY else f"not ready: {state}"
            listed = "in the text" if system.name == "facility" else "listed"
            yield Comparison(named, listed, here, ran=ran, remarks=own)


def make_occupancy(inputs: PaperInputs) -> Iterator[Comparison]:
    chosen = inputs.paper_set("paper")
    yield from _occupancy_rows("EPIC-KITCHENS-100", chosen)
    full = count_occupancy(chosen, window=4.0)
    occupied = [100 * counts.occupancy for counts in count_each(chosen, window=4.0)]
    yield row("actions per window", 1.41, full.actions_per_window, "24 recordings")
    yield row("emptiest recording, %", 56.2, min(occupied), "24 recordings")
    yield row("fullest recording, %", 99.2, max(occupied), "24 recordings")
    folders = inputs.plan.occupancy
    for name in (*list(OCCUPANCY)[1:], *(name for name in folders if name not in OCCUPANCY)):
        if name in folders:
            form = "dcase" if name in OCCUPANCY else None
            yield from _occupancy_rows(name, read_annotations(folders[name], format=form))
        else:
            why = f"bring its frame-wise annotations, --occupancy '{name}=DIR'"
            yield Comparison.missing(f"{name}: occupied, %", OCCUPANCY[name][2], why)


def _occupancy_rows(name: str, marked: Annotations) -> list[Comparison]:
    counts = count_each(marked, window=4.0)
    size, hours, share = OCCUPANCY.get(name, (None, None, None))
    n = f"{len(counts)} recordings"
    ends = "lengths unknown: each ends with its last event" if marked.guessed else ""
    occupied, windows = [c.occupied for c in counts], [c.windows for c in counts]
    pooled = Comparison.pooled(f"{name}: occupied, %", share, occupied, windows, n=n, remarks=ends)
    return [
        row(f"{name}: recordings", size, len(counts)),
        row(f"{name}: hours", hours, round(marked.hours, 2), n, remarks=ends),
        replace(pooled, ran=ALONE),
    ]


def make_sets(inputs: PaperInputs) -> Iterator[Comparison]:
    names = ("paper-primary", "paper-replication", "paper")
    first, second, both = map(inputs.paper_set, names)
    half = [Grid(4.0).count(first.durations[name]) for name in first.recordings]
    calls = {
        rounding: sum(whole_calls(0.5, size, rounding) for size in half)
        for rounding in get_args(Rounding)
    }
    means = "mean of recordings' means"
    yield row("primary: actions", 2208, first.actions)
    yield row("primary: hours", 2.42, first.hours)
    yield row("primary: mean action, s", 3.3, _mean_of_means(first), remarks=means)
    yield row("replication: actions", 1184, second.actions)
    remarks = "its own table adds up to 3.04 h" if round(second.hours, 2) == 3.04 else ""
    yield row("replication: hours", 2.8, second.hours, remarks=remarks)
    yield row("replication: mean action, s", 7.0, _mean_of_means(second), remarks=means)
    yield row("both: actions", 3392, both.actions)
    others = f"cut (Eq. 3) {calls['floor']}, of all windows at once {round(0.5 * sum(half))}"
    remarks = f"a recording at a time; {others}"
    yield row("primary: calls at half", 1090, calls["round"], remarks=remarks)


def _mean_of_means(marked: Annotations) -> float:
    return mean(mean(action.duration for action in own) for own in marked.recordings.values())


def make_blind(inputs: PaperInputs) -> Iterator[Made]:
    marked = inputs.paper_set("paper")
    rows = []
    for name, actions in marked.recordings.items():
        windows = even_windows(4.0, marked.durations[name], 0.0, LengthModel().usual)
        rows += run_case(Case(name, "none", windows, actions), BLIND, BUDGETS)
    results = BenchmarkResults.of_rows(rows)
    even = ("none", "uniform")
    points = dict(zip(results.recordings, results.points(even, 0.25), strict=True))
    for paper in published.PRIMARY + published.REPLICATION:
        name = paper.recording
        actions = marked.recordings[name]
        length = mean(action.duration for action in actions)
        yield row(f"{name}: actions", paper.actions, len(actions))
        yield row(f"{name}: seconds", paper.duration, marked.durations[name])
        yield row(f"{name}: mean action, s", paper.mean, length)
        yield row(f"{name}: uniform at 25 %, %", paper.uniform, points[name])
    for set_name, share in (("primary", 40.9), ("replication", 53.5)):
        names = RECORDINGS[f"paper-{set_name}"]
        covered = results.by_recording(even, 0.25)
        counts = [covered[name] for name in names]
        quantity = f"{set_name}: uniform at 25 %, pooled, %"
        yield Comparison.coverage(quantity, share, counts, ran=ALONE)
    yield row("mean of 24: uniform at 25 %, %", 48.8, mean(points.values()), "24 recordings")
    yield coverage_table(results)


def make_windows(inputs: PaperInputs) -> Iterator[Comparison]:
    primary = inputs.paper_set("paper-primary")
    for window, (count, share) in published.WINDOW_SWEEP.items():
        full = count_occupancy(primary, window=window)
        yield row(f"{window:g} s: windows", count, full.windows)
        n = f"{full.windows} windows"
        yield row(f"{window:g} s: occupied, %", share, 100 * full.occupancy, n)


def make_cost(inputs: PaperInputs) -> Iterator[Comparison]:  # noqa: ARG001 - it needs nothing
    prices = CostModel()
    listening, looking = prices.hours / prices.audio_speed, prices.hours / prices.visual_speed
    ran = "the paper's constants: 0.74 GPU-s a call, 178 and 8.6 times real time on a V100"
    scan, cost = prices.full_scan, partial(Comparison, ran=ran)
    yield cost("full scan of 1,000 h, GPU-h", 185, scan)
    yield cost("listening, GPU-h", 6, listening)
    yield cost("visual frontline, GPU-h", 117, looking)
    yield cost("visual frontline and half the calls, GPU-h", 209, looking + scan / 2)
    yield cost("listening, % of a full scan", 3, 100 * listening / scan)
    remarks = "the paper's own 117 of 185 GPU-hours are 63 %"
    yield cost("visual frontline, % of a full scan", 75, 100 * looking / scan, remarks=remarks)
    speed = prices.audio_speed / prices.visual_speed
    yield cost("audio against video, times as fast", 21, speed)
