"""How full recordings are, and what looking costs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from earmark.errors import AnnotationError, LedgerError
from earmark.evaluation.benchmark import BenchmarkRow, read_rows, rows_to_csv, run_case
from earmark.evaluation.paper.cost_model import (
    CostModel,
    break_even_table,
    composition_table,
    cost_table,
    estimate_cost,
)
from earmark.evaluation.paper.occupancy_survey import (
    OccupancyPlan,
    count_occupancy,
    gain_sweep,
    measure_occupancy,
    occupancy_table,
    read_data_sets,
    report_occupancy,
)
from earmark.evaluation.paper.published_numbers import RECORDINGS
from earmark.evaluation.score_sources import FittedScores, split_for_fitting
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


def test_the_paper_s_rows_stand_beneath_its_own_window_length_alone():
    actions, _ = kitchen(1)
    mine = {"mine": actions}
    assert [row[0] for row in occupancy_table(mine, window=2.0).rows] == ["mine"]
    assert len(occupancy_table(mine, window=4.0).rows) == 5


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


def test_the_report_sweeps_windows_and_reads_gains(tmp_path: Path):
    actions, events = kitchen(4)
    sets = read_data_sets(
        [str(write_csv(tmp_path / "k.csv", actions))], durations=actions.durations
    )
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    rows = [
        row for task in tasks.values() for row in run_case(task(), ("uniform", "rank"), [0.1]).rows
    ]
    outcome = report_occupancy(sets, OccupancyPlan(("k",), windows=(2.0, 4.0)), rows=rows)
    drawn = [each.name for each in outcome.figures]
    assert drawn == ["window_sweep", "gain_against_occupancy"]
    titles = [table.title for table in outcome.tables]
    assert titles[0] == "Occupancy of 4 s windows"
    assert titles[-1] == "Gain over uniform against occupancy"
    assert outcome.tables[0].rows[0][1] == 4


@pytest.fixture
def asked(tmp_path: Path) -> OccupancyPlan:
    actions, events = kitchen(4)
    return OccupancyPlan(
        sets=(f"kitchen={write_csv(tmp_path / 'k.csv', actions)}",),
        durations=write_durations(tmp_path / "lengths.csv", actions),
        windows=(2.0, 4.0),
        sound_events=(write_csv(tmp_path / "events.csv", events),),
    )


def test_a_survey_goes_on_where_it_was_and_equals_an_unbroken_one(
    asked: OccupancyPlan, tmp_path: Path
):
    unbroken = measure_occupancy(asked)
    seen: list[str] = []

    def stop(done: int, total: int, name: str) -> None:
        seen.append(name)
        if len(seen) == 7:  # four recordings at 2 s are done, and two at 4 s
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_occupancy(asked, out=tmp_path / "out", progress=stop)
    assert not (tmp_path / "out" / "index.html").exists()
    kept = [tmp_path / "out" / "windows" / name / "per_recording.csv" for name in ("2s", "4s")]
    assert [len({row.recording for row in read_rows(path)}) for path in kept] == [4, 2]
    resumed = measure_occupancy(asked, out=tmp_path / "out")
    assert resumed.tables == unbroken.tables
    assert (tmp_path / "out" / "index.html").exists()


def test_rows_that_were_kept_are_not_reckoned_again(asked: OccupancyPlan, tmp_path: Path):
    first = measure_occupancy(asked, out=tmp_path / "out")
    rows = tmp_path / "out" / "windows" / "2s" / "per_recording.csv"
    kept = [replace(row, covered=0) for row in read_rows(rows)]
    rows.write_text(
        rows_to_csv(BenchmarkRow, kept)
    )  # a mark that only rows taken up again can leave
    again = measure_occupancy(asked, out=tmp_path / "out")
    assert first.tables[2].rows[0] != again.tables[2].rows[0]
    assert set(again.tables[2].rows[0][2:]) == {0.0}
    fresh = measure_occupancy(asked, out=tmp_path / "out", fresh=True)
    assert fresh.tables == first.tables


def test_a_survey_knows_the_recordings_it_was_fitted_on(tmp_path: Path):
    """Those beside a named set are not among its own, and change what is heard in them."""
    actions, events = kitchen(14)
    named = (*RECORDINGS["paper-primary"], "P90_01", "P90_02")
    names = dict(zip(actions.recordings, named, strict=True))
    for path, marked in (("k.csv", actions), ("e.csv", events)):
        own = {names[name]: spans for name, spans in marked.recordings.items()}
        lasts = {names[name]: length for name, length in marked.durations.items()}
        write_csv(tmp_path / path, replace(marked, recordings=own, durations=lasts))
    path, heard = f"{tmp_path / 'k.csv'}@paper-primary", (tmp_path / "e.csv",)
    plan = OccupancyPlan((path,), windows=(8.0,), sound_events=heard)
    measure_occupancy(plan, out=tmp_path / "out")
    with (tmp_path / "k.csv").open("a") as file:
        file.write("P90_01,1,200,wait\n")
    with pytest.raises(LedgerError, match="holds a run with another fitted; choose another --out"):
        measure_occupancy(plan, out=tmp_path / "out")


def test_another_survey_needs_another_folder(asked: OccupancyPlan, tmp_path: Path):
    measure_occupancy(asked, out=tmp_path / "out")
    with pytest.raises(LedgerError, match="holds a run with another window; choose another --out"):
        measure_occupancy(replace(asked, window=2.0), out=tmp_path / "out")
    with (tmp_path / "k.csv").open("a") as file:
        file.write("K00,1,2,more\n")
    with pytest.raises(LedgerError, match="holds a run with another sets"):
        measure_occupancy(asked, out=tmp_path / "out")


def test_results_of_other_recordings_are_refused_before_the_work(
    asked: OccupancyPlan, tmp_path: Path
):
    kept = [BenchmarkRow("Z9", "ear", "rank", 0.1, 10, 1, 5, 1, 1)]
    (tmp_path / "r.csv").write_text(rows_to_csv(BenchmarkRow, kept))
    with pytest.raises(AnnotationError, match="Z9 not in the annotations, which know K00"):
        measure_occupancy(
            replace(asked, results=tmp_path / "r.csv"), progress=lambda *_: pytest.fail("too late")
        )


@pytest.mark.parametrize("windows", [(0.0,), (-1.0, 4.0), (float("nan"),), ()])
def test_windows_last_some_time(windows: tuple[float, ...]):
    with pytest.raises(ValueError, match=r"a window lasts more than 0 s|at least one window"):
        OccupancyPlan(sets=("a",), windows=windows)


def test_gains_by_window_length():
    actions, events = kitchen(4)
    split = split_for_fitting(actions, ["K00"])
    table = gain_sweep([FittedScores(actions, events, split, w) for w in (2.0, 4.0)])
    assert [row[:2] for row in table.rows[:3]] == [
        ("2 s", "rank"),
        ("2 s", "separated"),
        ("2 s", "coverage"),
    ]
    assert len(table.rows) == 6


def test_the_paper_s_costs():
    prices = CostModel()
    assert round(prices.full_scan) == 185
    assert round(prices.hours / prices.audio_speed) == 6
    flow = prices.triage(0.5, speed=prices.visual_speed)
    assert round(flow) == 209
    assert flow > prices.full_scan  # a frontline that decodes costs more than it saves
    assert prices.break_even(prices.audio_speed) == pytest.approx(0.97, abs=0.001)
    rows = {str(row[0]): row for row in cost_table(prices).rows}
    assert rows["full scan"][3] == pytest.approx(185)
    assert rows["triage, 25 % of calls"][3] == pytest.approx(0.25 * 185 + 1000 / 178)
    assert float(rows["visual frontline, 50 % of calls"][5]) < 0
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


def test_calls_and_tokens_on_one_plane():
    prices = CostModel(audio_speed=1e9, tokens=100)
    table = composition_table(prices, {0.1: 40.0}, {100: 50.0, 10: 20.0})
    #        cost    calls  tokens  named
    assert [(round(float(row[0])), row[1], row[2], row[3], row[4]) for row in table.rows] == [
        (1, "10 %", 10, 8.0, "*"),
        (10, "100 %", 10, 20.0, "*"),
        (10, "10 %", 100, 20.0, ""),
        (100, "100 %", 100, 50.0, "*"),
    ]


def test_a_cost_report_with_results(tmp_path: Path):
    actions, events = kitchen(2)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    rows = [row for t in tasks.values() for row in run_case(t(), ("coverage",), [0.1, 0.5]).rows]
    (tmp_path / "r.csv").write_text(rows_to_csv(BenchmarkRow, rows))
    (tmp_path / "n.csv").write_text("tokens,accuracy\n1024,38\n")
    outcome = estimate_cost(CostModel(), results=tmp_path / "r.csv", naming=tmp_path / "n.csv")
    assert [table.title for table in outcome.tables][2:] == [
        "Calls and tokens on one plane",
        "Triage and compression together",
    ]
    assert outcome.tables[2].columns[:2] == ("calls", "coverage %")
    assert [row[0] for row in outcome.tables[2].rows] == ["10 %", "50 %", "100 %"]
    outcome.write(tmp_path)
    for name in ("cost.png", "calls_and_tokens.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_a_full_scan_is_listed_once_and_listens_to_nothing(tmp_path: Path):
    rows = [
        BenchmarkRow("a", "ear", "coverage", share, 10, round(10 * share), 4, 4, 4)
        for share in (0.5, 1)
    ]
    (tmp_path / "r.csv").write_text(rows_to_csv(BenchmarkRow, rows))
    outcome = estimate_cost(CostModel(), results=tmp_path / "r.csv", shares=(0.2,))
    assert [row[0] for row in outcome.tables[2].rows] == ["50 %", "100 %"]
    assert outcome.tables[2].rows[-1][-1] == pytest.approx(185)
    assert [row[0] for row in outcome.tables[0].rows] == [
        "full scan",
        "triage, 20 % of calls",
        "visual frontline, 50 % of calls",
    ]
