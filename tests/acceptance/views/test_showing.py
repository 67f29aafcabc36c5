"""`earmark show`: what happened in a run, as text, as JSON and as a page that stands alone."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from acceptance.command_line import earmark
from acceptance.model_server import model_server
from acceptance.views.conftest import Place
from acceptance.views.scene import CAPTIONS


class PageReader(HTMLParser):
    """Collects the addresses a page loads and the data it carries."""

    LOADING = ("src", "href", "poster", "data", "action")

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.data = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.addresses += [values[name] or "" for name in self.LOADING if name in values]
        is_data = tag == "script" and values.get("type") == "application/json"
        self._inside = "data" if is_data else tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "data":
            self.data += data


def read_page(path: Path) -> PageReader:
    reader = PageReader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def picks_of(data: Any) -> dict[str, list[dict[str, Any]]]:
    return {recording["name"]: recording["picks"] for recording in data["recordings"]}


@pytest.fixture
def page(place: Place, tmp_path: Path) -> Path:
    path = tmp_path / "page.html"
    outcome = earmark("show", place.run, "--page", "--out", path)
    assert outcome.code == 0, outcome.err
    return path


def test_the_text_tells_what_was_done_when(place: Place):
    outcome = earmark("show", place.run)
    assert outcome.code == 0, outcome.err
    text = outcome.out
    assert text.index("bench.mp4") < text.index("sink.mp4")
    assert CAPTIONS["drill"] in text
    assert CAPTIONS["water"] in text
    assert re.search(r"0:0?4\b", text)


def test_the_json_has_every_recording_with_its_activities(place: Place):
    recordings = earmark("show", place.run, "--format", "json").json["recordings"]
    assert [recording["name"] for recording in recordings] == ["bench.mp4", "sink.mp4"]
    bench, sink = recordings
    assert (bench["duration"], sink["duration"]) == pytest.approx((40, 24), abs=0.2)
    for recording in recordings:
        assert 0 < recording["active"] <= recording["duration"]
        assert recording["work"]
        assert all(0 <= start < end <= recording["duration"] for start, end in recording["work"])
    texts = [activity["text"] for activity in sink["activities"]]
    assert CAPTIONS["water"] in texts
    assert CAPTIONS["drill"] not in texts


def test_activities_of_one_text_are_joined_and_none_is_lost(place: Place):
    rows = earmark("export", place.run, "--to", "jsonl").lines
    recordings = earmark("show", place.run, "--format", "json").json["recordings"]
    activities = {one["name"]: one["activities"] for one in recordings}
    assert len(rows) == 6
    for row in rows:
        (activity,) = (
            each
            for each in activities[Path(row["path"]).name]
            if each["start"] <= row["start"] and row["end"] <= each["end"]
        )
        assert activity["text"] == row["caption"]
    for listed in activities.values():
        texts = [each["text"] for each in listed]
        assert not any(len(set(texts[first : first + 3])) == 1 for first in range(len(texts) - 2))


def test_show_of_what_is_no_run_is_an_error_of_one_line(tmp_path: Path):
    for words in ((), ("--page",), ("--format", "json")):
        outcome = earmark("show", tmp_path / "nowhere", *words)
        assert outcome.code != 0
        assert "nowhere" in outcome.err
        assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "nowhere").exists()


def test_caption_leaves_a_page_in_the_run(place: Place):
    written = read_page(place.run / "report.html")
    assert sum(map(len, picks_of(json.loads(written.data)).values())) == 6


def test_the_page_loads_nothing_from_anywhere(page: Path):
    addresses = read_page(page).addresses
    outside = [one for one in addresses if not one.startswith(("#", "data:", "blob:"))]
    assert outside == []
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"url\((?!['\"]?(data:|#))", text)
    assert not re.search(r"@import|\bimport\s*\(", text)


def test_the_page_may_fetch_nothing(page: Path):
    policy = re.search(r"Content-Security-Policy[^>]*content=\"([^\"]+)\"", page.read_text())
    assert policy
    directives = [directive.split() for directive in policy[1].split(";")]
    assert ["default-src", "'none'"] in directives
    # The page plays the recordings themselves, which may be addresses.
    assert {name for name, *sources in directives if "https:" in sources} <= {"media-src"}


def test_the_data_of_the_page_has_every_pick_and_caption(place: Place, page: Path):
    shown = picks_of(json.loads(read_page(page).data))
    rows = earmark("export", place.run, "--to", "jsonl").lines
    for name in ("bench.mp4", "sink.mp4"):
        exported = [row for row in rows if Path(row["path"]).name == name]
        assert exported
        fields = ("window", "start", "end", "instant", "caption", "status", "reason")
        for pick, row in zip(shown[name], exported, strict=True):
            assert {field: pick[field] for field in fields} == {
                field: row[field] for field in fields
            }
            assert pick["caption"] == place.caption_at(name, pick["instant"])


def test_the_pictures_of_the_page_are_inside_it(page: Path):
    for picks in picks_of(json.loads(read_page(page).data)).values():
        for pick in picks:
            with Image.open(io.BytesIO(base64.b64decode(pick["picture"]))) as picture:
                assert picture.format == "JPEG"


def test_the_page_carries_totals_and_scores(page: Path):
    data = json.loads(read_page(page).data)
    totals = data["totals"]
    assert (totals["recordings"], totals["windows"], totals["picks"]) == (2, 16, 6)
    assert (totals["answered"], totals["failed"]) == (6, 0)
    assert totals["duration"] == pytest.approx(64, abs=0.2)
    assert [len(recording["scores"]) for recording in data["recordings"]] == [10, 6]


def test_a_page_may_have_a_title_and_escapes_it(place: Place, tmp_path: Path):
    title = "Tuesday </script><script>alert(1)</script>"
    path = tmp_path / "page.html"
    assert earmark("show", place.run, "--page", "--out", path, "--title", title).code == 0
    written = read_page(path)
    assert json.loads(written.data)["title"] == title
    assert "<script>alert" not in path.read_text(encoding="utf-8")


def test_a_caption_that_is_markup_stays_text(place: Place, tmp_path: Path):
    hostile = "</script><img src=x onerror=alert(1)>"
    with model_server(then=f"ok:{hostile}") as server:
        words = ("--budget", "1", "--run", tmp_path / "run", "--model", server.model)
        assert earmark("caption", place.bench, *words).code == 0
    written = tmp_path / "run" / "report.html"
    (pick,) = picks_of(json.loads(read_page(written).data))["bench.mp4"]
    assert pick["caption"] == hostile
    assert "<img src=x" not in written.read_text(encoding="utf-8")
