from __future__ import annotations

import fcntl
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drawing import windows
from earmark import Track
from earmark.report.report_page import link_to, write_page
from earmark.report.run_report import write_report
from earmark.run.run import Run
from report_runs import tell_many
from small_runs import PLAN, call, fill, open_run, row


def data_of(page: str) -> dict[str, object]:
    """What the page's script reads."""
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    return dict(json.loads(block))


def told(run: Run, folder: Path) -> str:
    """The page of a run, beside the files in `folder`."""
    return write_page(run, folder / "told.html").read_text(encoding="utf-8")


def test_the_page_tells_what_became_of_every_pick(tmp_path: Path):
    with open_run(tmp_path / "run", tags={1: ["hammering"]}) as ledger, Run(ledger.folder) as run:
        fill(ledger, {1: "a board"})
        ledger.begin(call(3))
        ledger.fail(call(3), "too slow")
        data = data_of(told(run, tmp_path))
    (recording,) = data["recordings"]
    first, second = recording["picks"]
    assert (first["caption"], first["tags"], first["status"]) == (
        "a board",
        ["hammering"],
        "answered",
    )
    assert (second["caption"], second["failure"], second["status"]) == (None, "too slow", "failed")
    assert (recording["windows"], len(recording["scores"])) == (6, 6)
    totals = data["totals"]
    assert (totals["answered"], totals["failed"], totals["windows"]) == (1, 1, 6)
    assert (totals["bytes_read"], totals["size_bytes"]) == (50_000, 1_000_000)
    assert totals["touched"] == pytest.approx(first["expected"] + second["expected"], abs=0.02)


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path):
    target = tmp_path / "report.html"
    target.write_text("the old page")
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        no_run = {"not": "a run"}
        with pytest.raises(AttributeError):
            write_page(no_run, target)  # type: ignore[arg-type]
        assert target.read_text() == "the old page"
        write_page(run, target, title="Tuesday")
    assert data_of(target.read_text(encoding="utf-8"))["title"] == "Tuesday"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


@pytest.mark.parametrize(
    ("path", "link"),
    [
        ("{folder}/cams/a b#1%.mp4", "./cams/a%20b%231%25.mp4"),
        ("{folder}/../a.mp4", "./../a.mp4"),
        ("https://cams.example/a.mp4?key=1", "https://cams.example/a.mp4?key=1"),
        ("s3://bucket/a.mp4", None),
        ("javascript:alert(1)", None),
    ],
)
def test_links_lead_from_the_page_to_the_video(tmp_path: Path, path: str, link: str | None):
    assert link_to(path.format(folder=tmp_path), beside=tmp_path) == link


def test_each_moment_is_played_from_the_chapter_that_holds_it(tmp_path: Path):
    chapters = ((str(tmp_path / "GX010042.MP4"), 0.0), (str(tmp_path / "GX020042.MP4"), 10.0))
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), name="cam 7", chapters=chapters))
        (recording,) = data_of(told(run, tmp_path))["recordings"]
        ledger.add(replace(row("a"), path="s3://bucket/a.mp4"))
        (away,) = data_of(told(run, tmp_path))["recordings"]
    assert recording["name"] == "cam 7"
    assert recording["files"] == [["./GX010042.MP4", 0.0], ["./GX020042.MP4", 10.0]]
    assert (away["name"], away["files"]) == ("a.mp4", [])


def test_a_run_with_nothing_in_it_still_has_a_page(tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        data = data_of(told(run, tmp_path))
    assert (data["recordings"], data["title"]) == ([], "run")


def test_a_long_level_is_thinned_and_silence_is_not_nan(tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        ledger.add(row("a"))
        level = np.linspace(-60, -10, 20_000)
        level[:500] = -np.inf
        ledger.hear("a", windows("123"), key="k", level=Track(level, hop=1.0))
        data = data_of(told(run, tmp_path))
    curve = data["recordings"][0]["level"]
    assert len(curve) <= 4000
    assert (min(curve), max(curve)) == (0, 100)


def test_a_caption_of_ten_megabytes_does_not_fill_the_page(tmp_path: Path):
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        fill(ledger, {1: "a board " * 1_250_000})
        page = write_page(run, tmp_path / "report.html")
        (kept,) = run.answers("a", call(1).span)
    assert len(kept.text) == 10_000_000
    assert page.stat().st_size < 200_000
    first, _ = data_of(page.read_text(encoding="utf-8"))["recordings"][0]["picks"]
    assert first["caption"].endswith("(10,000,000 characters in all; the run has them)")


def test_what_a_killed_write_left_is_cleaned_up(tmp_path: Path):
    dead, alive = (tmp_path / f".{name}.scratch.html" for name in ("dead", "alive"))
    for path in (dead, alive):
        path.write_text("half a pa")
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run, alive.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # as the process that writes it does
        write_report(run, tmp_path / "report.html")
    assert (dead.exists(), alive.exists()) == (False, True)


def test_the_pictures_of_a_large_page_are_those_it_shows(tmp_path: Path):
    page = tmp_path / "a report.html"
    many, fewer, few = (tell_many(tmp_path / str(count), count) for count in (1200, 1010, 3))
    own = tmp_path / "a report_pictures" / "holiday.jpg"  # of somebody else
    own.parent.mkdir()
    own.touch()
    for folder in (many, fewer, many):
        with Run(folder) as run:
            write_page(run, page)
        data = data_of(page.read_text(encoding="utf-8"))
        assert data["pictures"] == "a%20report_pictures/"
        named = {pick["picture"] for pick in data["recordings"][0]["picks"]}
        assert {path.name for path in own.parent.iterdir()} == {own.name, *named}
    with Run(few) as run:
        write_page(run, page)
    data = data_of(page.read_text(encoding="utf-8"))
    assert data["pictures"] == "" and len(data["recordings"][0]["picks"][0]["picture"]) > 1000
    assert list(own.parent.iterdir()) == [own]
