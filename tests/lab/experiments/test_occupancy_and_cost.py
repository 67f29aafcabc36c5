"""How full recordings are, and what looking costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from earmark.errors import AnnotationError, RunError
from earmark_lab.experiments.benchmark import BenchmarkRow, rows_to_csv, run_case
from earmark_lab.experiments.occupancy_and_cost import (
    CostModel,
    break_even_table,
    composition_table,
    cost_table,
    count_occupancy,
    estimate_cost,
    measure_occupancy,
    read_data_sets,
)
from earmark_lab.experiments.paper import OCCUPANCY
from earmark_lab.experiments.score_sources import FittedScores, split_for_fitting
from made_kitchen import kitchen, write_csv, write_durations


def test_data_sets_are_named_on_the_command_line(tmp_path: Path):
    actions, _ = kitchen(2)
    path = write_csv(tmp_path / "odd#name@x.csv", actions)
    found = read_data_sets([str(path), f"mine={path}#csv"], durations=actions.durations)
    assert list(found) == ["odd#name@x", "mine"]
    assert found["odd#name@x"].recordings == actions.recordings
    with pytest.raises(ValueError, match=r"two data sets are called odd#name@x: name them, NAME="):
        read_data_sets([str(path), str(path)], durations=actions.durations)
    (tmp_path / "old.csv").write_bytes("recording,start,end,label\na,1,2,Küche\n".encode("latin-1"))
    with pytest.raises(AnnotationError, match=r"old.csv is not UTF-8 text"):
        read_data_sets([str(tmp_path / "old.csv")])


@pytest.mark.parametrize(
    ("folder", "recordings", "actions", "occupied"),
    [
        ("captaincook4d", 384, 5413, 87.9),
        ("egoexolearn", 421, 24954, 40.8),
        ("factory10k", 322, 10698, 93.1),
    ],
)
def test_other_worlds_are_as_full_as_was_measured(
    shared_data: Path, folder: str, recordings: int, actions: int, occupied: float
):
    if not (shared_data / folder).is_dir():
        pytest.skip(f"no {folder}/ among the annotations")
    ((_, marked),) = read_data_sets([str(shared_data / folder)]).items()
    assert (len(marked.recordings), marked.actions) == (recordings, actions)
    share = count_occupancy(marked, window=4.0).occupancy
    assert 100 * share == pytest.approx(occupied, abs=0.06)


def test_a_tier_can_be_named_in_a_data_set(tmp_path: Path):
    path = tmp_path / "s.eaf"
    path.write_text(
        '<ANNOTATION_DOCUMENT><TIME_SLOT TIME_SLOT_ID="1" TIME_VALUE="0"/><TIME_SLOT '
        'TIME_SLOT_ID="2" TIME_VALUE="9000"/><TIER TIER_ID="hands"><ALIGNABLE_ANNOTATION '
        'TIME_SLOT_REF1="1" TIME_SLOT_REF2="2"/></TIER><TIER TIER_ID="speech"/>'
        "</ANNOTATION_DOCUMENT>"
    )
    found = read_data_sets([f"hands={path}#elan:hands", f"speech={path}#elan:speech"])
    assert [marked.actions for marked in found.values()] == [1, 0]


def test_goalstep_gives_steps_and_substeps(tmp_path: Path):
    step = {"start_time": 0, "end_time": 30, "segments": [{"start_time": 1, "end_time": 3}]}
    path = tmp_path / "g.json"
    path.write_text(
        json.dumps({"videos": [{"video_uid": "v", "end_time": 40, "segments": [step]}]})
    )
    found = read_data_sets([str(path)])
    assert list(found) == ["g, steps", "g, substeps"]
    occupied = [count_occupancy(marked, window=4.0).occupied for marked in found.values()]
    assert occupied == [8, 1]


@pytest.fixture
def marked(tmp_path: Path) -> tuple[str, Path]:
    actions, _ = kitchen(4)
    path = write_csv(tmp_path / "k.csv", actions)
    return f"kitchen={path}", write_durations(tmp_path / "lengths.csv", actions)


def test_the_report_sweeps_windows(marked: tuple[str, Path], tmp_path: Path):
    data, lengths = marked
    report = measure_occupancy([data], durations=lengths, windows=(2.0, 4.0), out=tmp_path / "out")
    assert [table.title for table in report.tables] == [
        "Occupancy of 4 s windows",
        "Occupancy by window length",
    ]
    assert report.tables[0].rows[0][:2] == ("kitchen", 4)
    assert [row[0] for row in report.tables[0].rows[1:]] == [
        f"{name} (paper)" for name in OCCUPANCY
    ]
    assert [row[1] for row in report.tables[1].rows[:2]] == ["2 s", "4 s"]
    assert (tmp_path / "out" / "index.html").exists()


def test_another_survey_needs_another_folder(marked: tuple[str, Path], tmp_path: Path):
    data, lengths = marked
    measure_occupancy([data], durations=lengths, out=tmp_path / "out")
    measure_occupancy([data], durations=lengths, out=tmp_path / "out")
    with pytest.raises(RunError, match="holds a run with another windows; choose another --out"):
        measure_occupancy([data], durations=lengths, windows=(2.0,), out=tmp_path / "out")
    with (tmp_path / "k.csv").open("a") as file:
        file.write("K00,1,2,more\n")
    with pytest.raises(RunError, match="holds a run with another sets"):
        measure_occupancy([data], durations=lengths, out=tmp_path / "out")


@pytest.mark.parametrize("windows", [(0.0,), (-1.0, 4.0), (float("nan"),), ()])
def test_windows_last_some_time(windows: tuple[float, ...]):
    with pytest.raises(ValueError, match="window lengths are seconds above 0"):
        measure_occupancy(["a"], windows=windows)


def test_the_paper_s_costs():
    prices = CostModel()
    assert round(prices.full_scan) == 185
    assert round(prices.hours / prices.audio_speed) == 6
    assert prices.break_even(prices.audio_speed) == pytest.approx(0.97, abs=0.001)
    rows = {str(row[0]): row for row in cost_table(prices).rows}
    assert rows["full scan"][3] == pytest.approx(185)
    assert rows["triage, 25 % of calls"][3] == pytest.approx(0.25 * 185 + 1000 / 178)
    visual = rows["visual frontline, 50 % of calls"]  # decoding costs more than it saves
    assert round(float(visual[3])) == 209 and float(visual[5]) < 0
    assert len(break_even_table(prices).rows) == 2
    (_, audio), (_, visual) = (row[1:] for row in break_even_table(replace(prices, call=0.1)).rows)
    assert audio > visual == 0.0, "what costs more than the scan never pays"


def test_prices_are_checked():
    with pytest.raises(ValueError, match="call is above 0"):
        CostModel(call=0)
    with pytest.raises(ValueError, match="the overhead is a part of a call"):
        CostModel(overhead=1.0)
    with pytest.raises(ValueError, match="a share of calls lies from 0 to 100 %: 500 %"):
        CostModel(visual_share=5.0)
    with pytest.raises(ValueError, match="a GPU-hour costs nothing or more"):
        CostModel(gpu_hour=-1.0)


def test_the_cost_of_calls_and_tokens_leaves_out_listening():
    """Listening is 3 % of a scan by the paper's constants: below that no pair could lie."""
    table = composition_table(CostModel(), {0.05: 12.0}, {1024: 38.0, 64: 20.0})
    cheapest = table.rows[0]
    assert cheapest[:3] == (pytest.approx(5 / 16), "5 %", 64)
    assert float(cheapest[5]) == pytest.approx(5 / 16 + 100 * (1000 / 178) / 185)


def test_calls_and_tokens_on_one_plane():
    prices = CostModel(audio_speed=1e9, tokens=100)
    table = composition_table(prices, {0.1: 40.0}, {100: 50.0, 10: 20.0})
    #        cost    calls  tokens  named
    assert [(round(float(row[0])), row[1], row[2], row[3], row[4]) for row in table.rows] == [
        (1, "10 %", 10, 8.0, "*"),
        (10, "10 %", 100, 20.0, "*"),
        (10, "100 %", 10, 20.0, ""),
        (100, "100 %", 100, 50.0, "*"),
    ]


def test_a_cost_report_with_results(tmp_path: Path):
    actions, events = kitchen(2)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    rows = [row for t in tasks.values() for row in run_case(t(), ("coverage",), [0.1, 0.5])]
    (tmp_path / "r.csv").write_text(rows_to_csv(rows))
    (tmp_path / "n.csv").write_text("tokens,accuracy\n1024,38\n")
    outcome = estimate_cost(CostModel(), results=tmp_path / "r.csv", naming=tmp_path / "n.csv")
    assert [table.title for table in outcome.tables][2:] == [
        "Calls and tokens on one plane",
        "Triage and compression together",
    ]
    assert outcome.tables[2].columns[:2] == ("calls", "coverage %")
    assert [row[0] for row in outcome.tables[2].rows] == ["10 %", "50 %", "100 %"]


def test_a_full_scan_is_listed_once_and_listens_to_nothing(tmp_path: Path):
    rows = [
        BenchmarkRow("a", "ear", "coverage", share, 10, round(10 * share), 4, 4, 4)
        for share in (0.5, 1)
    ]
    (tmp_path / "r.csv").write_text(rows_to_csv(rows))
    outcome = estimate_cost(CostModel(), results=tmp_path / "r.csv", shares=(0.2,))
    assert [row[0] for row in outcome.tables[2].rows] == ["50 %", "100 %"]
    assert outcome.tables[2].rows[-1][-1] == pytest.approx(185)
    assert [row[0] for row in outcome.tables[0].rows] == [
        "full scan",
        "triage, 20 % of calls",
        "visual frontline, 50 % of calls",
    ]
