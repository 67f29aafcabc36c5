from __future__ import annotations

import base64
import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from earmark.cli.app import app
from earmark.errors import RunError
from earmark.run.records import PickFrames
from earmark.run.run import Run
from small_runs import PLAN, cell, fill, open_run, row


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_run(tmp_path / "tuesday", tags={3: ["water"]}) as ledger:
        fill(ledger, {1: "a red hammer"})
        ledger.keep_frames("a", PickFrames(cell(1), thumbnail=b"\xff\xd8jpeg"))
        ledger.fail_recording("b", "b.mp4", "b.mp4 is empty")
    return tmp_path / "tuesday"


def earmark(*words: str | Path) -> str:
    """What a command prints on stdout."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_export_prints_or_writes(folder: Path, tmp_path: Path):
    first, second = (json.loads(line) for line in earmark("export", folder).splitlines())
    assert (first["caption"], second["caption"]) == ("a red hammer", None)
    table = list(csv.DictReader(io.StringIO(earmark("export", folder, "--to", "csv"))))
    assert table[0]["caption"] == "a red hammer"
    assert earmark("export", folder, "--to", "vtt").startswith("WEBVTT")
    target = tmp_path / "out.parquet"
    assert earmark("export", folder, "--to", "parquet", "--out", target).strip() == str(target)
    assert target.read_bytes()[:4] == b"PAR1"


def test_export_warns_of_what_is_left_out(folder: Path):
    result = CliRunner().invoke(app, ["export", str(folder)])
    assert "b.mp4 is empty" in result.stderr


@pytest.mark.parametrize(("kind", "said"), [("parquet", "add --out FILE"), ("srt", "2 recordings")])
def test_export_that_needs_a_place_says_so(folder: Path, kind: str, said: str):
    with Run(folder, PLAN) as ledger:
        ledger.add(row("c"))
    with pytest.raises(ValueError, match=said):
        earmark("export", folder, "--to", kind)


def test_an_unknown_format_lists_bundles_too(folder: Path):
    with pytest.raises(ValueError, match=r"no export format 'doc'; .*jsonl, .*bundle, highlights"):
        earmark("export", folder, "--to", "doc")


def test_search_shows_times_captions_and_pictures(folder: Path, tmp_path: Path):
    shown = earmark("search", folder, "hammer", "--thumbnails", tmp_path / "found")
    assert "a.mp4  0:04.0 - 0:08.0" in shown
    assert "a red hammer" in shown
    (picture,) = (tmp_path / "found").iterdir()
    assert picture.read_bytes() == b"\xff\xd8jpeg"
    assert str(picture) in shown
    (hit,) = json.loads(earmark("search", folder, "red", "--format", "json"))
    assert (hit["start"], base64.b64decode(hit["thumbnail"])) == (4.0, b"\xff\xd8jpeg")
    assert "heard: water" in earmark("search", folder, "water")
    assert earmark("search", folder, "zebra") == ""


def test_search_says_that_more_moments_match_than_it_shows(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a red hammer", 3: "a blue hammer"})
    some = CliRunner().invoke(app, ["search", str(tmp_path), "hammer", "--most", "1"])
    assert some.stdout.count("caption:") == 1
    assert "more moments match: --most 1 shows the best" in some.stderr
    every = CliRunner().invoke(app, ["search", str(tmp_path), "hammer", "--most", "2"])
    assert (every.stdout.count("caption:"), every.stderr) == (2, "")


def test_a_found_recording_is_named_in_one_line(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a red hammer"})
        ledger.add(replace(row("a"), path="/cams/a\nb.mp4"))
    assert earmark("search", tmp_path, "hammer").splitlines()[0].startswith("'/cams/a\\nb.mp4'  0:")


def test_runs_lists_what_there_is(folder: Path, tmp_path: Path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"nonsense" * 200)
    result = CliRunner().invoke(app, ["run", "list", str(tmp_path)])
    assert result.exit_code == 0
    assert "1 of 2" in result.stdout
    assert "damaged" in result.stderr
    assert "tuesday: 1 recording could not be processed" in result.stderr.replace("\n", " ")
    (only,) = json.loads(earmark("run", "list", tmp_path, "--format", "json"))
    assert (only["run"], only["answered"]) == (str(folder), 1)


def test_report_says_where_the_page_is(folder: Path):
    assert earmark("show", "--page", folder).strip() == str(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_does_not_replace_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with open_run(tmp_path / "run"):
        pass
    Path("a.mp4").write_bytes(b"film")
    with pytest.raises(ValueError, match=r"^a\.mp4 is a recording of this run"):
        earmark("show", "--page", "run", "--out", "a.mp4")
    assert Path("a.mp4").read_bytes() == b"film"


def test_merge_counts_in_words(folder: Path, tmp_path: Path):
    told = earmark("run", "merge", folder, "--into", tmp_path / "m")
    assert told.replace("\n", " ").startswith("1 recording and 1 answer of 1 run are in ")


def test_a_folder_that_is_not_there_is_an_error_and_an_empty_one_is_not(tmp_path: Path):
    with pytest.raises(RunError, match="is not a folder"):
        earmark("run", "list", tmp_path / "missing")
    assert CliRunner().invoke(app, ["run", "list", str(tmp_path)]).exit_code == 0


def test_a_folder_that_is_no_run_is_named(tmp_path: Path):
    with pytest.raises(RunError, match="no run in"):
        earmark("show", "--page", tmp_path)
