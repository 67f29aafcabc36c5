"""What a notebook shows of results made without a model."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser

import pytest

import earmark
from earmark import Pick, Selection
from earmark.errors import MissingExtra
from earmark.gate.listener import Failed
from earmark.selection.result import Chosen
from earmark.text_format import MAX_HTML_ROWS, html_table
from earmark_lab.demo import make_scene


class Tags(HTMLParser):
    """The names of all tags in some HTML, which must be nested as they should."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.seen.append(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


HOSTILE = "<script>alert(1)</script>\udc80.mp4"


def chosen(path: str, picks: int) -> Chosen:
    return Chosen(
        path=path,
        duration=400.0,
        window=4.0,
        windows=100,
        budget=picks,
        rule="rank",
        frontline="flux",
        access="index",
        bytes_read=1,
        bytes_total=2,
        forecast=None,
        picks=tuple(
            Pick(n, 4.0 * n, 4.0 * n + 4, 4.0 * n + 1, 1.0, 0.5, 0.5, f"<b>{n}</b>")
            for n in range(picks)
        ),
        notes=("a <note>",),
    )


def test_a_table_shows_the_first_rows_and_counts_the_others():
    table = html_table([{"n": n} for n in range(MAX_HTML_ROWS + 3)])
    assert Tags(table).seen.count("tr") == MAX_HTML_ROWS + 1
    assert "and 3 more" in table
    assert html_table([]) == ""


def test_nothing_from_outside_becomes_markup():
    selection = Selection({}, (chosen(HOSTILE, 2),), (Failed(HOSTILE, "<i>no</i>"),))
    page = selection._repr_html_()
    assert set(Tags(page).seen) == {"table", "tr", "th", "td"}
    assert "&lt;b&gt;1&lt;/b&gt;" in page
    assert "&lt;script&gt;alert(1)" in page
    page.encode()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return make_scene(tmp_path_factory.mktemp("media") / "scene.mp4", duration=60.0).path


def test_a_selection_shows_its_picks(scene):
    pytest.importorskip("pandas")
    selection = earmark.select([scene], budget="4")
    assert repr(selection) == "Selection(calls=4, windows=15, recordings=1, failures=0)"
    assert repr(selection.recordings[0]) == f"Chosen(path='{scene}', picks=4, windows=15)"
    page = selection._repr_html_()
    assert len(re.findall("<tr>", page)) == 1 + 4
    frame = selection.to_pandas()
    assert list(frame["window"]) == [pick.window for pick in selection.recordings[0].picks]
    assert set(frame["path"]) == {str(scene)}


def test_a_selection_of_nothing_has_its_columns():
    pytest.importorskip("pandas")
    frame = Selection({}, ()).to_pandas()
    assert len(frame) == 0
    assert list(frame.columns)[:3] == ["path", "window", "start"]


def test_a_forecast_shows_its_ladder(scene):
    pytest.importorskip("pandas")
    forecast = earmark.plan([scene], coverage=0.5)
    calls = forecast.goal.calls
    assert repr(forecast) == (
        f"Forecast(recordings=1, windows=15, budgets={len(forecast.rungs)}, goal={calls}, "
        "failures=0)"
    )
    page = forecast._repr_html_()
    assert len(re.findall("<tr>", page)) == 1 + len(forecast.rungs)
    frame = forecast.to_pandas()
    assert list(frame["calls"]) == [rung.calls for rung in forecast.rungs]
    assert list(frame["low"]) == [rung.range.low for rung in forecast.rungs]
    assert list(frame["high"]) == [rung.range.high for rung in forecast.rungs]


def test_without_pandas_the_cure_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'earmark\[notebook\]'"):
        Selection({}, ()).to_pandas()
