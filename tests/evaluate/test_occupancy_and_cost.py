"""How full recordings are, and what looking costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from earmark.evaluate.bench import run_case
from earmark.evaluate.cost import Prices, break_even_table, composition_table, cost_table
from earmark.evaluate.cost import report as cost_report
from earmark.evaluate.occupancy import gain_sweep, measure, read_data_sets, report
from earmark.evaluate.results import Results
from earmark.evaluate.sources import evidence_tasks, plan_fitting
from made_kitchen import kitchen, write_csv


def test_data_sets_are_named_on_the_command_line(tmp_path: Path):
    actions, _ = kitchen(2)
    path = write_csv(tmp_path / "odd#name@x.csv", actions)
    found = read_data_sets([str(path), f"mine={path}#csv"], durations=actions.durations)
    assert [each.name for each in found] == ["odd#name@x", "mine"]
    assert found[0].annotations.recordings == actions.recordings


def test_goalstep_gives_steps_and_substeps(tmp_path: Path):
    step = {"start_time": 0, "end_time": 30, "segments": [{"start_time": 1, "end_time": 3}]}
    path = tmp_path / "g.json"
    path.write_text(
        json.dumps({"videos": [{"video_uid": "v", "end_time": 40, "segments": [step]}]})
    )
    found = read_data_sets([str(path)])
    assert [each.name for each in found] == ["g, steps", "g, substeps"]
    occupied = [measure(each.annotations, window=4.0).occupied for each in found]
    assert occupied == [8, 1]


def test_the_report_sweeps_windows_and_reads_gains(tmp_path: Path):
    actions, events = kitchen(4)
    sets = read_data_sets(
        [str(write_csv(tmp_path / "k.csv", actions))], durations=actions.durations
    )
    tasks = evidence_tasks(actions, events, plan_fitting(actions), window=4.0)
    rows = [
        row for task in tasks.values() for row in run_case(task(), ("uniform", "rank"), [0.1]).rows
    ]
    outcome = report(sets, windows=(2.0, 4.0), rows=rows)
    assert set(outcome.figures) == {"window_sweep", "gain_against_occupancy"}
    titles = [table.title for table in outcome.tables]
    assert titles[0] == "Occupancy of 4 s windows"
    assert titles[-1] == "Gain over uniform against occupancy"
    assert outcome.tables[0].rows[0][1] == 4


def test_gains_by_window_length():
    actions, events = kitchen(4)
    table = gain_sweep(actions, events, evaluated=["K00"], windows=(2.0, 4.0))
    assert [row[:2] for row in table.rows[:3]] == [
        ("2 s", "rank"),
        ("2 s", "separated"),
        ("2 s", "coverage"),
    ]
    assert len(table.rows) == 6


def test_the_paper_s_costs():
    prices = Prices()
    assert round(prices.full) == 185
    assert round(prices.hours / prices.audio_speed) == 6
    flow = prices.triage(0.5, speed=prices.visual_speed)
    assert round(flow) == 209
    assert flow > prices.full  # a frontline that decodes costs more than it saves
    assert prices.break_even(prices.audio_speed) == pytest.approx(0.97, abs=0.001)
    rows = {str(row[0]): row for row in cost_table(prices).rows}
    assert rows["full scan"][3] == pytest.approx(185)
    assert rows["triage, 25 % of calls"][3] == pytest.approx(0.25 * 185 + 1000 / 178)
    assert float(rows["visual frontline, 50 % of calls"][5]) < 0
    assert len(break_even_table(prices).rows) == 2


def test_prices_are_checked():
    with pytest.raises(ValueError, match="call is above 0"):
        Prices(call=0)
    with pytest.raises(ValueError, match="the overhead is a part of a call"):
        Prices(overhead=1.0)


def test_calls_and_tokens_on_one_plane():
    prices = Prices(audio_speed=1e9, tokens=100)
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
    tasks = evidence_tasks(actions, events, plan_fitting(actions), window=4.0)
    rows = [row for t in tasks.values() for row in run_case(t(), ("coverage",), [0.1, 0.5]).rows]
    outcome = cost_report(Prices(), Results.of_rows(rows), {1024: 38.0})
    assert [table.title for table in outcome.tables][2:] == [
        "Calls and tokens on one plane",
        "Triage and compression together",
    ]
    assert outcome.tables[2].columns[:2] == ("calls", "coverage %")
    assert [row[0] for row in outcome.tables[2].rows] == ["10 %", "50 %", "100 %"]
    outcome.write(tmp_path)
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
