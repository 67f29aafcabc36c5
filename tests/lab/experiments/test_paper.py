"""The paper's numbers from the public annotations; skipped where these are absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark.gate.survival import Survival
from earmark.grid import Grid, Windows
from earmark_lab.annotations.actions import Annotations
from earmark_lab.annotations.readers import read_annotations
from earmark_lab.annotations.table_readers import read_durations
from earmark_lab.experiments.benchmark import (
    BenchmarkDesign,
    BenchmarkRow,
    Case,
    run,
    run_case,
    whole_calls,
)
from earmark_lab.experiments.coverage_tables import BenchmarkResults
from earmark_lab.experiments.occupancy_and_cost import count_occupancy
from earmark_lab.experiments.paper import (
    OCCUPANCY,
    PRIMARY,
    RECORDINGS,
    REPLICATION,
    RULE,
    WINDOW_SWEEP,
    PaperRow,
)
from earmark_lab.experiments.report import mean
from earmark_lab.experiments.score_sources import SOUND_EVENTS, FittedScores, split_for_fitting
from earmark_lab.metrics.counts import CoverageCounts, count_occupied

PAPER = PRIMARY + REPLICATION
BUDGETS = (0.05, 0.1, 0.15, 0.25, 0.335, 0.5, 0.75)


@pytest.fixture(scope="module")
def epic(shared_data: Path) -> Annotations:
    durations = read_durations(shared_data / "epic" / "EPIC_100_video_info.csv")
    return read_annotations(shared_data / "epic" / "EPIC_100_validation.csv", durations=durations)


@pytest.fixture(scope="module")
def unheard(epic: Annotations) -> list[BenchmarkRow]:
    """The rules that need no score, on the paper's recordings."""
    rows: list[BenchmarkRow] = []
    for name in RECORDINGS["paper"]:
        flat = np.zeros(Grid(4.0).count(epic.durations[name]))
        middles = (np.arange(len(flat)) + 0.5) * 4.0
        lasts = Survival.lognormal(median=2, sigma=1)
        windows = Windows(4.0, epic.durations[name], flat, middles, flat, lasts)
        case = Case(name, "none", windows, epic.recordings[name])
        rows += run_case(case, ("uniform", "strata", "phases", "oracle"), BUDGETS)
    return rows


def pooled(rows: list[BenchmarkRow], rule: str, budget: float, names: tuple[str, ...]) -> float:
    """Coverage of all actions of `names` together, in points."""
    chosen = (
        row.counts
        for row in rows
        if row.rule == rule and row.budget == budget and row.recording in names
    )
    return 100 * sum(chosen, CoverageCounts()).coverage


@pytest.mark.parametrize("printed", PAPER, ids=lambda row: row.recording)
def test_every_row_of_the_per_recording_table(
    epic: Annotations, unheard: list[BenchmarkRow], printed: PaperRow
):
    actions = epic.recordings[printed.recording]
    assert len(actions) == printed.actions
    # Printed to the second; P08_09 lasts 620.487 s in the public table and 621 s in the paper.
    assert epic.durations[printed.recording] == pytest.approx(printed.duration, abs=0.52)
    assert mean(action.duration for action in actions) == pytest.approx(printed.mean, abs=0.051)
    uniform = pooled(unheard, "uniform", 0.25, (printed.recording,))
    assert uniform == pytest.approx(printed.uniform, abs=0.0501)


def test_actions_and_hours(epic: Annotations):
    counts = {name: epic.only(names).actions for name, names in RECORDINGS.items()}
    assert counts == {"paper-primary": 2208, "paper-replication": 1184, "paper": 3392}
    assert round(epic.only(RECORDINGS["paper-primary"]).hours, 2) == 2.42
    # The paper's text says 2.8 h; the durations of its own table add up to 3.04.
    assert round(epic.only(RECORDINGS["paper-replication"]).hours, 2) == 3.04
    assert round(sum(row.duration for row in REPLICATION) / 3600, 2) == 3.04
    assert (len(epic.recordings), epic.actions) == (138, 9668)


@pytest.mark.parametrize(
    ("names", "percent"),
    [("paper-primary", 92.11), ("paper-replication", 79.58), ("paper", 85.13)],
)
def test_occupancy(epic: Annotations, names: str, percent: float):
    full = count_occupancy(epic.only(RECORDINGS[names]), window=4.0)
    assert round(100 * full.occupancy, 2) == percent


def test_actions_per_window_and_the_range_of_occupancy(epic: Annotations):
    chosen = epic.only(RECORDINGS["paper"])
    assert round(count_occupancy(chosen, window=4.0).actions_per_window, 2) == 1.41
    each = [
        100 * count_occupied(actions, chosen.durations[name], window=4.0).occupancy
        for name, actions in chosen.recordings.items()
    ]
    assert (round(min(each), 1), round(max(each), 1)) == (56.2, 99.2)
    hours, share = OCCUPANCY["EPIC-KITCHENS-100"][1:]
    assert round(chosen.hours, 1) == hours
    assert round(100 * count_occupancy(chosen, window=4.0).occupancy, 1) == share


@pytest.mark.parametrize("window", WINDOW_SWEEP)
def test_the_window_table(epic: Annotations, window: float):
    count, percent = WINDOW_SWEEP[window]
    full = count_occupancy(epic.only(RECORDINGS["paper-primary"]), window=window)
    # At half a second the paper prints one window more than its own recordings have.
    assert full.windows == (17401 if window == 0.5 else count)
    assert round(100 * full.occupancy, 1) == percent


def test_even_spacing_pooled(unheard: list[BenchmarkRow]):
    primary, second = RECORDINGS["paper-primary"], RECORDINGS["paper-replication"]
    assert round(pooled(unheard, "uniform", 0.25, primary), 2) == 40.94
    assert round(pooled(unheard, "uniform", 0.25, second), 2) == 53.55
    results = BenchmarkResults.of_rows(unheard)
    assert round(mean(results.points(("none", "uniform"), 0.25)), 1) == 48.8
    # Not in the paper, which prints the quarter alone: held here so that no change goes unseen.
    ours = {0.5: 78.4, 0.335: 58.9, 0.15: 28.0, 0.1: 20.0, 0.05: 9.4}
    everything = RECORDINGS["paper"]
    assert {b: round(pooled(unheard, "uniform", b, everything), 1) for b in ours} == ours
    assert pooled(unheard, "phases", 0.25, primary) == pytest.approx(43.1, abs=0.15)


def test_the_ceiling(unheard: list[BenchmarkRow]):
    """Of our own making: the paper prints no ceiling."""
    ours = {0.5: 96.9, 0.335: 83.1, 0.25: 69.1, 0.15: 48.1, 0.1: 34.9, 0.05: 19.0}
    primary = RECORDINGS["paper-primary"]
    assert {b: round(pooled(unheard, "oracle", b, primary), 1) for b in ours} == ours


def test_half_the_primary_set_in_calls(epic: Annotations):
    """1,089 rounded and 1,087 cut, a recording at a time; the paper says 1,090."""
    sizes = [Grid(4.0).count(epic.durations[name]) for name in RECORDINGS["paper-primary"]]
    for rounding, calls in (("round", 1089), ("floor", 1087)):
        each = [whole_calls(0.5, size, rounding) for size in sizes]
        assert sum(each) == calls
    assert round(0.5 * sum(sizes)) == 1090  # of all windows together: this is the paper's


def test_the_paper_s_table_follows_rounding_and_not_its_equation(epic: Annotations):
    """Equation 3 cuts to whole calls; 24 of its 24 rows follow rounding, 17 of them cutting."""
    agree = dict.fromkeys(("round", "floor"), 0)
    for row in PAPER:
        size = Grid(4.0).count(epic.durations[row.recording])
        flat = np.zeros(size)
        lasts = Survival.lognormal(median=2, sigma=1)
        windows = Windows(4.0, epic.durations[row.recording], flat, flat, flat, lasts)
        case = Case(row.recording, "none", windows, epic.recordings[row.recording])
        for rounding in agree:
            found = run_case(case, ["uniform"], [0.25], rounding=rounding)[0].counts
            agree[rounding] += abs(100 * found.coverage - row.uniform) <= 0.0501
    assert agree == {"round": 24, "floor": 17}


@pytest.fixture(scope="module")
def heard(epic: Annotations, shared_data: Path) -> BenchmarkResults:
    """Every rule of the comparison on annotated sound events, fitted on the other recordings."""
    files = ("EPIC_Sounds_validation.csv", "sound_events_not_categorised.csv")
    paths = [shared_data / "epic" / name for name in files]
    durations = read_durations(shared_data / "epic" / "EPIC_100_video_info.csv")
    events = read_annotations(paths, durations=durations)
    fitting = split_for_fitting(epic, RECORDINGS["paper"])
    assert len(fitting.fitted["P01_14"]) == 114
    rules = ("uniform", "strata", "rank", "separated", "aks", "bolt", "facility", "coverage")
    design = BenchmarkDesign(rules=rules, budgets=BUDGETS)
    tasks = FittedScores(epic, events, fitting).tasks()
    return BenchmarkResults.of_rows(run(tasks, design).rows)


def points(results: BenchmarkResults, rule: str, budget: float) -> float:
    return mean(results.points((SOUND_EVENTS, rule), budget))


@pytest.mark.parametrize("budget", [0.05, 0.15, 0.25, 0.335, 0.5, 0.75])
def test_expected_coverage_is_at_or_above_every_other_rule(heard: BenchmarkResults, budget: float):
    best = points(heard, "coverage", budget)
    others = {rule: points(heard, rule, budget) for rule in heard.rules if rule != "coverage"}
    assert best >= max(others.values()), others


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.15, 0.25, 0.335])
@pytest.mark.parametrize("other", ["uniform", "rank", "aks"])
def test_below_half_the_paper_s_rule_leads(heard: BenchmarkResults, budget: float, other: str):
    gain = points(heard, RULE, budget) - points(heard, other, budget)
    # At 5 % the paper's own lead over AKS is not significant; here the two are level.
    assert gain > (-0.2 if (budget, other) == (0.05, "aks") else 0.0)


def test_at_half_even_spacing_beats_the_paper_s_rule(heard: BenchmarkResults):
    assert points(heard, "uniform", 0.5) - points(heard, RULE, 0.5) > 2.0


def test_goalstep_is_long_and_sparser(shared_data: Path):
    path = shared_data / "goalstep" / "goalstep_valid.json"
    steps = read_annotations(path, format="goalstep")
    substeps = read_annotations(path, format="goalstep-substeps")
    assert (len(steps.recordings), steps.actions, substeps.actions) == (134, 3349, 4347)
    assert round(steps.hours) == 62
    assert round(100 * count_occupancy(steps, window=4.0).occupancy, 1) == 79.2
    assert round(100 * count_occupancy(substeps, window=4.0).occupancy, 1) == 45.1


def test_starss_is_full(shared_data: Path):
    marked = read_annotations(shared_data / "starss22" / "metadata_dev")
    assert len(marked.recordings) == 122
    assert marked.guessed == set(marked.recordings)
    assert round(100 * count_occupancy(marked, window=4.0).occupancy, 1) == 96.4


def test_the_train_split_is_read(shared_data: Path):
    durations = read_durations(shared_data / "epic" / "EPIC_100_video_info.csv")
    path = shared_data / "epic" / "EK100_trainsplit_actions_from_UDA.csv"
    marked = read_annotations(path, durations=durations)
    assert (len(marked.recordings), marked.actions) == (389, 55138)
