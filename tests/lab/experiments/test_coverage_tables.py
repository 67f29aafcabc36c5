"""Tables and pages derived from rows."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from earmark.errors import RunError
from earmark.gate.forecast_error import ForecastError, Miscount, Miss, log_density
from earmark_lab.annotations.actions import Action, Annotations
from earmark_lab.experiments.benchmark import BenchmarkRow
from earmark_lab.experiments.coverage_tables import (
    BenchmarkResults,
    count_table,
    coverage_table,
    forecast_table,
    gain_table,
    occupancies,
    paired_table,
    pooled_table,
    recording_table,
    saved_table,
)
from earmark_lab.experiments.figures import figure
from earmark_lab.experiments.report import Drawing, Report, Table, claim_folder, percent

EAR, BLIND = ("ear", "rank"), ("ear", "uniform")


def rows(rule: str, *covered: tuple[float, float]) -> list[BenchmarkRow]:
    """Three recordings of 100 windows and 10 actions, the last without any, at 10 and 20 %."""
    found = []
    for name, pair in zip("abc", (*covered, (0, 0)), strict=True):
        actions = 0 if name == "c" else 10
        for budget, hit in zip((0.1, 0.2), pair, strict=True):
            calls = round(100 * budget)
            found.append(BenchmarkRow(name, "ear", rule, budget, 100, calls, actions, hit, hit / 2))
    return found


RESULTS = BenchmarkResults.of_rows(rows("rank", (3, 6), (5, 6)) + rows("uniform", (2, 4), (2, 8)))
MARKED = Annotations(
    {"a": [Action(0, 40)], "b": [Action(0, 80)], "c": []}, dict.fromkeys("abc", 400.0)
)


def test_results_answer_by_system_and_budget():
    assert RESULTS.recordings == ["a", "b", "c"]
    assert RESULTS.systems == [EAR, BLIND]
    assert RESULTS.points(EAR, 0.1)[:2] == [30, 50]
    assert math.isnan(RESULTS.points(EAR, 0.1)[2])
    assert RESULTS.pooled(EAR, 0.2).coverage == 0.6
    assert RESULTS.curve(BLIND) == [(0.1, 0.2), (0.2, 0.6)]
    assert RESULTS.saved(EAR, 0.1, baseline=BLIND) == pytest.approx(1 - 0.1 / 0.15)
    assert RESULTS.label(EAR) == "rank"
    assert RESULTS.with_actions == 2


def test_coverage_is_a_mean_over_recordings_that_have_actions():
    assert coverage_table(RESULTS).rows == (("10 %", 40.0, 20.0), ("20 %", 60.0, 60.0))


def test_the_paired_table_counts_recordings():
    table = paired_table(RESULTS, EAR)
    assert [row[0] for row in table.rows] == ["20 %", "10 %"]
    assert table.rows[1][1:4] == ("uniform", "+20.0", "+20.0")
    assert [row[5] for row in table.rows] == ["1/1/0", "2/0/0"]


def test_saved_calls_and_pooled_counts():
    (first, second) = saved_table(RESULTS, BLIND).rows
    assert first[1] == pytest.approx(100 / 3)
    assert second[1] == pytest.approx(0.0)
    assert pooled_table(RESULTS).rows[0][:6] == ("rank", "10 %", 300, 30, 20, 40.0)


def test_a_recording_without_actions_is_shown_as_a_dash():
    occupancy = occupancies(MARKED, RESULTS, window=4.0)
    table = recording_table(RESULTS, MARKED, occupancy, budget=0.1, systems=(BLIND, EAR))
    text = table.to_markdown()
    assert "| a | 1 | 400 | 40.0 | 10.0 | 20.0 | 30.0 | 10.0 |" in text
    assert "| c | 0 | 400 | — | 0.0 | — | — | — |" in text


def test_gain_against_occupancy_needs_more_than_two_recordings():
    occupancy = occupancies(MARKED, RESULTS, window=4.0)
    table = gain_table(RESULTS, occupancy, baseline=BLIND)
    assert all(math.isnan(row[2]) for row in table.rows)


def expecting(
    name: str, covered: int, actions: int, *, expected: float, foreseen: float
) -> BenchmarkRow:
    return BenchmarkRow(
        name, "ear", "coverage", 0.1, 100, 10, actions, covered, 0, expected, foreseen
    )


def test_forecasts_in_points():
    rows = [
        expecting("a", covered=2, actions=4, expected=2.0, foreseen=4.0),
        expecting("b", covered=3, actions=6, expected=4.0, foreseen=6.0),
    ]
    table = forecast_table(rows, {}, {})
    assert table.rows[0][2:6] == pytest.approx((60.0, 50.0, 10.0, 100 / 12))
    assert math.isnan(table.rows[0][6])
    assert forecast_table([], {}, {}) is None


def test_how_many_recordings_lie_in_the_range_they_are_told():
    rows = [
        expecting(name, 50 + off, 100, expected=50 * factor, foreseen=100 * factor)
        for name, off, factor in [("a", 0, 1.0), ("b", 5, 1.4), ("c", -5, 0.7), ("d", 45, 3.0)]
    ]
    same = log_density(100.0, 1000.0)
    error = ForecastError(
        misses=tuple(Miss(same + n / 1e3, 0.0, 1.0) for n in range(20)),
        miscounts=tuple(Miscount(same, 1.0) for _ in range(20)),
    )
    durations = dict.fromkeys("abcd", 1000.0)
    assert forecast_table(rows, durations, {"ear": error}).rows[0][-1] == 75.0
    table = count_table(rows, durations, {"ear": error})
    assert table.rows[0][:4] == ("ear", 4, pytest.approx(610.0), 400)
    assert table.rows[0][5:] == (75.0, 75.0)
    assert math.isnan(count_table(rows, durations, {}).rows[0][-1])
    assert count_table([], {}, {}) is None


def test_a_table_writes_itself_three_ways():
    table = Table("T <1>", ("who", "how much"), (("a & b", math.nan), ("c", 1.25)), "so")
    assert "| a & b | — |" in table.to_markdown()
    assert "| a\\|b |" in Table("T", ("who",), (("a|b",),)).to_markdown()
    assert "<h2>T &lt;1&gt;</h2>" in table.to_html()
    assert "<td>a &amp; b</td><td>—</td>" in table.to_html()
    assert table.to_json()["rows"] == [
        {"who": "a & b", "how much": None},
        {"who": "c", "how much": 1.25},
    ]
    assert table.to_csv() == "who,how much\na & b,\nc,1.25\n"
    assert percent(0.335) == "33.5 %"


def test_rows_of_one_budget_stand_together():
    table = Table("T", ("calls", "rule"), (("5 %", "a"), ("5 %", "b"), ("9 %", "a")))
    assert table.to_html().count("<tr class='block'>") == 2
    assert "class='block'" not in Table("T", ("calls",), (("5 %",), ("9 %",))).to_html()


def test_a_report_is_a_folder_with_one_page(tmp_path: Path):
    dot = Drawing("dot", "a dot", lambda: figure(1, 1))
    report = Report("Q?", {"window": 4.0}, (coverage_table(RESULTS),), (dot,))
    report.write(tmp_path / "new")
    written = {path.name for path in (tmp_path / "new").iterdir()}
    assert written == {"tables.md", "tables.json", "index.html", "dot.png", "tables"}
    sheet = tmp_path / "new" / "tables" / "coverage_by_budget_and_rule.csv"
    assert sheet.read_text().splitlines()[1] == "10 %,40.0,20.0"
    page = (tmp_path / "new" / "index.html").read_text()
    assert "data:image/png;base64,iVBOR" in page
    assert "http://" not in page and "https://" not in page
    assert "<a href='#coverage_by_budget_and_rule'>" in page
    assert "<section id='coverage_by_budget_and_rule'>" in page
    assert json.loads((tmp_path / "new" / "tables.json").read_text())["figures"] == ["dot.png"]


def test_a_folder_belongs_to_one_run(tmp_path: Path):
    claim_folder(tmp_path, {"rules": ("a",), "window": 4.0})
    claim_folder(tmp_path, {"rules": ("a",), "window": 4.0})
    with pytest.raises(RunError, match="holds a run with another window; choose another --out"):
        claim_folder(tmp_path, {"rules": ("a",), "window": 2.0})
    with pytest.raises(RunError, match="holds a run of another experiment; choose"):
        claim_folder(tmp_path, {"experiment": "cost"})
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(RunError, match="cannot be read"):
        claim_folder(tmp_path, {})


@pytest.mark.parametrize("name", ["index.html", "per_recording.csv"])
def test_files_of_another_origin_are_not_overwritten(tmp_path: Path, name: str):
    (tmp_path / name).write_text("my own")
    with pytest.raises(RunError, match=rf"holds {name} of another origin; choose another"):
        claim_folder(tmp_path, {"window": 4.0})
    assert [path.name for path in tmp_path.iterdir()] == [name]
