"""The words of `evaluate`, `occupancy` and `cost`: printed, written, refused in one line."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from earmark.errors import AnnotationError
from earmark_lab.cli.evaluate import cost, evaluate, occupancy
from earmark_lab.experiments.benchmark import BenchmarkRow
from made_kitchen import kitchen, write_csv, write_durations

app = typer.Typer()
for command in (evaluate, occupancy, cost):
    app.command()(command)


def earmark(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path: Path) -> list[object]:
    actions, events = kitchen(4)
    lengths = write_durations(tmp_path / "lengths.csv", actions)
    heard = write_csv(tmp_path / "events.csv", events)
    return [write_csv(tmp_path / "k.csv", actions), "--durations", lengths, "--sound-events", heard]


def test_evaluate_prints_tables_and_writes_a_folder(files: list[object], tmp_path: Path):
    words = ["--budgets", "10,25%", "--rules", "uniform,coverage", "--out", tmp_path / "o"]
    found = earmark("evaluate", *files, *words)
    assert found.exit_code == 0, found.output
    assert "| calls | uniform | coverage |" in found.stdout
    assert "index.html" in found.stderr
    assert (tmp_path / "o" / "index.html").exists()


def test_evaluate_speaks_json_and_csv(files: list[object]):
    words = ["--budgets", "25", "--rules", "uniform,rank", "--recordings", "K00,K02"]
    told = json.loads(earmark("evaluate", *files, *words, "--format", "json").stdout)
    assert told["settings"]["recordings"] == ["K00", "K02"]
    assert told["tables"][0]["rows"][0]["calls"] == "25 %"
    text = earmark("evaluate", *files, *words, "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == [field.name for field in fields(BenchmarkRow)]
    assert len(rows) == 4


def test_names_may_stand_in_a_file(files: list[object], tmp_path: Path):
    (tmp_path / "names.txt").write_text("K01\nK03\n")
    words = ["--recordings", tmp_path / "names.txt", "--rules", "uniform", "--format", "csv"]
    rows = list(csv.DictReader(io.StringIO(earmark("evaluate", *files, *words).stdout)))
    assert {row["recording"] for row in rows} == {"K01", "K03"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--dev", "K77"], "K77 not in the annotations"),
        (["--budgets", "lots"], "'lots' is no budget"),
        (["--rules", "best"], "no rule 'best'"),
        (["--recordings", "K77"], "K77 not in the annotations"),
    ],
)
def test_bad_words_are_refused(files: list[object], words: list[str], complaint: str):
    found = earmark("evaluate", *files, *words)
    assert isinstance(found.exception, (ValueError, AnnotationError))
    assert complaint in str(found.exception)
    assert "\n" not in str(found.exception)


def test_media_without_a_frontline_are_refused(files: list[object]):
    found = earmark("evaluate", files[0], "--media", "k/", "--frontlines", ",")
    assert str(found.exception) == "an evaluation of media needs at least one frontline"


def test_occupancy_prints_and_writes(files: list[object], tmp_path: Path):
    spans, *lengths = files[:3]
    words = ["--windows", "2,4", "--out", tmp_path / "o"]
    found = earmark("occupancy", f"kitchen={spans}", *lengths, *words)
    assert found.exit_code == 0, found.output
    assert "| kitchen | 4 |" in found.stdout
    assert (tmp_path / "o" / "index.html").exists()


def test_every_command_speaks_json_and_keeps_its_folder(files: list[object], tmp_path: Path):
    words = ["--rules", "uniform,rank", "--budgets", "25"]
    folder = tmp_path / "o"
    earmark("evaluate", *files, *words, "--out", folder)
    page = (folder / "index.html").read_text()
    for other in (["cost"], ["occupancy", files[0], "--windows", "4"]):
        found = earmark(*other, "--out", folder)
        assert "holds a run of another experiment; choose another --out" in str(found.exception)
        assert json.loads(earmark(*other, "--format", "json").stdout)["tables"]
    assert (folder / "index.html").read_text() == page


def test_bad_windows_are_one_line(files: list[object]):
    found = earmark("occupancy", files[0], "--windows", "two")
    assert str(found.exception) == "'two' is no length of a window: write seconds, as 2,4,8"


def test_cost_at_any_share():
    told = json.loads(earmark("cost", "--budgets", "12.5", "--format", "json").stdout)
    assert told["tables"][0]["rows"][1]["way"] == "triage, 12.5 % of calls"


@pytest.mark.parametrize("share", ["nan", "200", "-5", "inf"])
def test_cost_refuses_what_is_no_share_of_the_windows(share: str):
    found = earmark("cost", f"--budgets={share}")
    assert isinstance(found.exception, ValueError)
    assert "a share of calls lies from 0 to 100 %: " in str(found.exception)


def test_constants_of_the_cost_are_set_by_name():
    words = ("--set", "window=8", "--set", "visual_share=0.25", "--format", "json")
    told = json.loads(earmark("cost", *words).stdout)
    assert told["tables"][0]["rows"][0]["GPU-h"] == pytest.approx(92.5)
    assert told["tables"][0]["rows"][-1]["way"] == "visual frontline, 25 % of calls"
    refused = earmark("cost", "--set", "speed=2")
    assert "--set speed=2: write NAME=VALUE, with one of hours, window" in str(refused.exception)


def test_cost_by_default_is_the_paper_s():
    told = json.loads(earmark("cost", "--format", "json").stdout)
    assert told["tables"][0]["rows"][0]["GPU-h"] == pytest.approx(185)


def test_cost_with_naming(files: list[object], tmp_path: Path):
    earmark("evaluate", *files, "--rules", "uniform,coverage", "--out", tmp_path / "e")
    (tmp_path / "n.csv").write_text("tokens,accuracy\n64,20\n1024,38\n")
    results = ["--results", tmp_path / "e" / "per_recording.csv"]
    found = earmark("cost", *results, "--naming", tmp_path / "n.csv", "--out", tmp_path / "c")
    assert "Triage and compression together" in found.stdout
    (tmp_path / "n.csv").write_text("a,b\n1,2\n")
    bad = earmark("cost", *results, "--naming", tmp_path / "n.csv")
    assert "needs the columns tokens and accuracy" in str(bad.exception)
