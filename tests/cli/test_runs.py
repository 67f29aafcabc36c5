from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import pytest

from acceptance.command_line import earmark
from earmark.run.records import PickFrames
from earmark.run.run import Run
from small_runs import PLAN, cell, fill, open_run, row


def printed(*words: object) -> str:
    """What a command prints on stdout."""
    outcome = earmark(*words)
    assert outcome.code == 0, outcome.err
    return outcome.out


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_run(tmp_path / "tuesday", tags={3: ["water"]}) as ledger:
        fill(ledger, {1: "a red hammer"})
        ledger.keep_frames("a", PickFrames(cell(1), thumbnail=b"\xff\xd8jpeg"))
        ledger.fail_recording("b", "b.mp4", "b.mp4 is empty")
    return tmp_path / "tuesday"


def test_export_warns_of_what_is_left_out(folder: Path):
    assert "b.mp4 is empty" in earmark("export", folder).err


@pytest.mark.parametrize(("kind", "said"), [("parquet", "add --out FILE"), ("srt", "2 recordings")])
def test_export_that_needs_a_place_says_so(folder: Path, kind: str, said: str):
    with Run(folder, PLAN) as ledger:
        ledger.add(row("c"))
    outcome = earmark("export", folder, "--to", kind)
    assert outcome.code == 1
    assert said in outcome.err


def test_an_unknown_format_lists_bundles_too(folder: Path):
    refused = " ".join(earmark("export", folder, "--to", "doc").err.split())
    assert "no export format 'doc'" in refused
    assert "bundle, highlights" in refused


def test_search_shows_times_captions_and_pictures(folder: Path, tmp_path: Path):
    shown = printed("search", folder, "hammer", "--thumbnails", tmp_path / "found")
    assert "a.mp4 0:04.0 - 0:08.0" in shown
    assert "a red hammer" in shown
    (picture,) = (tmp_path / "found").iterdir()
    assert picture.read_bytes() == b"\xff\xd8jpeg"
    assert str(picture) in shown
    (hit,) = json.loads(printed("search", folder, "red", "--format", "json"))
    assert (hit["start"], base64.b64decode(hit["thumbnail"])) == (4.0, b"\xff\xd8jpeg")
    assert "heard: water" in printed("search", folder, "water")
    assert printed("search", folder, "zebra") == ""


def test_search_says_that_more_moments_match_than_it_shows(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a red hammer", 3: "a blue hammer"})
    some = earmark("search", tmp_path, "hammer", "--most", "1")
    assert some.out.count("caption:") == 1
    assert "more moments match: --most 1 shows the best" in some.err
    every = earmark("search", tmp_path, "hammer", "--most", "2")
    assert (every.out.count("caption:"), every.err) == (2, "")


def test_a_found_recording_is_named_in_one_line(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a red hammer"})
        ledger.add(replace(row("a"), path="/cams/a\nb.mp4"))
    assert printed("search", tmp_path, "hammer").splitlines()[0].startswith("'a\\nb.mp4' 0:")


def test_runs_lists_what_there_is(folder: Path, tmp_path: Path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.db").write_bytes(b"nonsense" * 200)
    result = earmark("run", "list", tmp_path)
    assert result.code == 0
    assert "1 of 2" in result.out
    assert "damaged" in result.err
    assert "tuesday: 1 recording could not be processed" in result.err.replace("\n", " ")
    (only,) = json.loads(printed("run", "list", tmp_path, "--format", "json"))
    assert (only["run"], only["answered"]) == (str(folder), 1)


def test_report_says_where_the_page_is(folder: Path):
    assert printed("show", "--page", folder).strip() == str(folder / "report.html")
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_does_not_replace_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with open_run(tmp_path / "run"):
        pass
    Path("a.mp4").write_bytes(b"film")
    refused = earmark("show", "--page", "run", "--out", "a.mp4")
    assert refused.code == 1
    assert refused.err.startswith("earmark: a.mp4 is a recording of this run")
    assert Path("a.mp4").read_bytes() == b"film"


def test_merge_counts_in_words(folder: Path, tmp_path: Path):
    told = printed("run", "merge", folder, "--into", tmp_path / "m")
    assert told.replace("\n", " ").startswith("1 recording and 1 answer of 1 run are in ")


def test_a_folder_that_is_not_there_is_an_error_and_an_empty_one_is_not(tmp_path: Path):
    missing = earmark("run", "list", tmp_path / "missing")
    assert missing.code == 1
    assert "is not a folder" in missing.err
    assert earmark("run", "list", tmp_path).code == 0
