"""The index of an archive: what it says, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from archive_runs import PLAN, tell_archive
from chromium import CHROMIUM, DRIVER, chromium, look
from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.gate.forecast_error import ForecastError, ForecastRange, Miss, log_density
from earmark.report.run_report import MOST_ON_A_PAGE, curve, write_index, write_report
from earmark.run.records import PickFrames, RecordingRow
from earmark.run.run import Run
from small_runs import CallRow

HOSTILE = 's3://b/<img src=x onerror="document.title=1">.mp4'


def data_of(path: Path) -> dict[str, Any]:
    found = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.S
    )
    assert found
    told: dict[str, Any] = json.loads(found[1])
    return told


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    folder = tell_archive(tmp_path_factory.mktemp("run"), recordings=110, windows=12)
    with Run(folder, PLAN) as ledger:
        ledger.add(RecordingRow("hostile", HOSTILE, 8.0, 100))
        heard = EvidenceEntry(Span(4.0, 9.0), "heard", "Hammer", 0.9, "yamnet")
        ledger.keep_evidence(f"{41:064x}", [heard], kinds=["heard"])
    with Run(folder) as run:
        write_report(run, folder / "report.html", title="May")
    return folder


def test_the_index_adds_up_to_the_run(archive):
    told = data_of(archive / "report.html")
    with Run(archive) as run:
        totals = run.totals()
        assert len(told["missed"]) == len(run.failed_recordings()) == 1
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["recordings"]]
    assert len(rows) == totals.recordings == 110
    for column in ("windows", "picks", "answered", "failed"):
        assert sum(row[column] for row in rows) == getattr(totals, column)
    assert sum(row["spend"] for row in rows) == pytest.approx(totals.spend)
    sounds = {row["recording"]: row["sounds"] for row in told["day"]["recordings"]}
    assert [sound["name"] for sound in sounds[f"{41:064x}"]] == ["Hammer"]
    assert all((archive / row["page"].replace("%20", " ")).is_file() for row in rows[1:])


def test_each_recording_has_a_page_of_its_own(archive):
    told = data_of(archive / "report.html")
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["recordings"]]
    row = max(rows, key=lambda row: row["picks"])
    page = data_of(archive / row["page"])
    assert page["title"] == row["name"]
    assert [recording["path"] for recording in page["recordings"]] == [row["path"]]
    for column in ("windows", "picks", "answered", "failed"):
        assert page["totals"][column] == row[column]


def test_only_pages_that_changed_are_written_again(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE + 2, windows=10)
    with Run(folder) as run:
        write_report(run, folder / "report.html")
        pages = sorted((folder / "recordings").glob("*.html"))
        for page in pages:
            os.utime(page, (0, 0))
        recording = run.recordings()[0]
        row = run.picks(recording.id)[0]
    pages[3].unlink()
    with Run(folder, {"budget": "20%", "across": True, "model": "m1"}) as ledger:
        ledger.choose(recording.id, [row])
    with Run(folder) as run:
        write_report(run, folder / "report.html")
    changed = [page for page in pages if page.stat().st_mtime_ns]
    assert len(changed) == 2
    assert pages[3] in changed
    (folder / "recordings" / "written.json").write_text('{"half')
    with Run(folder) as run:
        write_report(run, folder / "report.html")  # what cannot be read is written anew
    assert len(json.loads((folder / "recordings" / "written.json").read_text())) == len(pages)


def test_pages_are_written_again_where_faces_are_to_be_blurred(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE + 1, windows=10)
    blur: Any = SimpleNamespace(jpeg=lambda picture: picture and b"blurred")
    with Run(folder, PLAN) as ledger, Run(folder) as run:
        recording = run.recordings()[0]
        (row, *_) = run.picks(recording.id)
        ledger.keep_frames(recording.id, PickFrames(row.span, b"face"))
    stem, shown = Path(recording.path).stem, []
    for each in (None, blur, None):
        with Run(folder, blur=each) as run:
            write_report(run, folder / "report.html")
        (page,) = (folder / "recordings").glob(f"{stem}-*.html")
        shown.append(base64.b64decode(data_of(page)["recordings"][0]["picks"][0]["picture"]))
    assert shown == [b"face", b"blurred", b"face"]


def test_a_page_says_why_a_call_failed_the_last_time(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE + 1, windows=10)
    with Run(folder, PLAN) as ledger, Run(ledger.folder) as run:
        recording = run.recordings()[1]
        (pick, *_) = run.picks(recording.id)
        call = CallRow("again", recording.id, Span(pick.start, pick.end), "m1")
        ledger.unanswered([call])
        for reason in ("busy", "gone"):
            ledger.fail(call, reason)
            write_report(run, folder / "report.html")
    (page,) = (folder / "recordings").glob(f"{Path(recording.path).stem}-*.html")
    said = [told["failure"] for told in data_of(page)["recordings"][0]["picks"]]
    assert "gone" in said and "busy" not in said


def test_pages_are_as_private_as_the_user_has_files_be(tmp_path):
    before = os.umask(0o077)
    try:
        folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE + 1, windows=2)
        with Run(folder) as run:
            write_report(run, folder / "report.html")
    finally:
        os.umask(before)
    pages = [folder / "report.html", *(folder / "recordings").iterdir()]
    assert {page.stat().st_mode & 0o077 for page in pages} == {0}


def test_a_recording_may_have_the_longest_of_names(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE, windows=2)
    path = f"/cams/{'早' * 80}.mp4"  # 244 bytes, of 255 that a file system takes
    with Run(folder, PLAN) as ledger, Run(ledger.folder) as run:
        ledger.add(RecordingRow("long", path, 8.0, 100))
        write_report(run, folder / "report.html")
    assert len(list((folder / "recordings").glob("早*-long.html"))) == 1


def test_the_forecast_rises_to_everything_and_passes_through_the_run(archive):
    with Run(archive) as run:
        points, totals = curve(run), run.totals()
    calls, shares = zip(*points, strict=True)
    assert (points[0], points[-1]) == ((0, 0.0), (totals.windows, 1.0))
    assert list(calls) == sorted(calls)
    assert list(shares) == sorted(shares)
    budget = round(0.2 * totals.windows)
    assert dict(points)[budget] == pytest.approx(totals.touched / totals.expected, abs=0.03)


def test_a_forecast_is_told_as_a_range_or_says_why_not(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE + 1, windows=8)
    with Run(folder, PLAN) as ledger, Run(ledger.folder) as run:
        density = log_density(run.totals().expected, run.totals().duration)
        misses = tuple(Miss(density + place / 1e3, 0.0, place / 10) for place in range(40))
        ledger.keep_forecast_error(ForecastError(misses=misses))
        first, second, third = (row.id for row in run.recordings()[:3])
        ledger.choose(first, [], forecast=ForecastRange(0.31, 0.5, 0.69, 0.8))
        ledger.choose(second, [], forecast=ForecastRange(0.0, 0.4, 1.0, 0.8, is_unlike=True))
        ledger.choose(third, [], forecast=0.25)
        told = data_of(write_index(run, folder / "report.html"))
        assert run.choice(second).forecast_range == ForecastRange(0.0, 0.4, 1.0, 0.8, True)
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["recordings"]]
    assert [row["words"] for row in rows[:3]] == [
        "50.0 % (31–69 % in 80 % of recordings)",
        "40.0 % (0–100 %: too few recordings like this were measured)",
        "25.0 % (its uncertainty was not measured)",
    ]
    assert [(row["low"], row["high"]) for row in rows[:3]] == [
        (0.31, 0.69),
        (0.0, 1.0),
        (None,) * 2,
    ]
    page = data_of(folder / rows[1]["page"])
    assert page["coverage"]["words"] == page["recordings"][0]["coverage"]["words"]
    assert page["coverage"]["sure"] == "0–100 %: too few recordings like this were measured"
    assert "in 80 % of recordings" in told["coverage"]["sure"]
    assert "80 % of the recordings it was measured on" in told["sure"]
    for _, expected, low, high in told["curve"]:
        assert low <= expected <= high
    assert max(high - low for _, _, low, high in told["curve"]) > 0.02


def test_few_recordings_stay_on_one_page(tmp_path):
    folder = tell_archive(tmp_path, recordings=MOST_ON_A_PAGE, windows=5)
    with Run(folder) as run:
        page = write_report(run, folder / "report.html")
    assert not (folder / "recordings").exists()
    assert len(data_of(page)["recordings"]) == MOST_ON_A_PAGE


def test_a_run_that_does_not_say_how_long_actions_last_has_no_curve(tmp_path):
    with Run(tmp_path, {}) as ledger:
        ledger.add(RecordingRow("a", "a.mp4", 8.0, 100))
    with Run(tmp_path) as run:
        assert curve(run) == []
        assert data_of(write_index(run, tmp_path / "index.html"))["curve"] == []


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (CHROMIUM and DRIVER):
        pytest.skip("Debian's chromium and chromium-driver are not installed")
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture
def driver(browser: Any) -> Any:
    look(browser, width=1280, height=1800)
    browser.get_log("browser")  # what was said before is another test's
    return browser


def names(driver: Any) -> list[str]:
    found: list[str] = driver.execute_script(
        "return [...document.querySelectorAll('#rows a')].map((link) => link.textContent)"
    )
    return found


@pytest.mark.slow
def test_it_says_first_what_happened(archive, driver):
    driver.get((archive / "report.html").as_uri())
    first = driver.find_element("id", "overview")
    assert "Hammer" in first.text and "1×" in first.text
    assert first.location["y"] < driver.find_element("id", "main").location["y"]


@pytest.mark.slow
def test_it_sorts_filters_and_leads_on(archive, driver):
    driver.get((archive / "report.html").as_uri())
    assert driver.title == "May – earmark"
    assert len(names(driver)) == 100
    driver.execute_script("document.querySelector('#more').click()")
    assert len(names(driver)) == 110
    aimed = "return document.querySelector('#columns [aria-sort=descending]').dataset.name"
    assert driver.execute_script(aimed) == "picks", "those with the most to look at come first"
    assert any("<img" in name for name in names(driver)), "a path is words, never markup"
    picks = driver.find_elements("css selector", "#columns button")[3]
    picks.click()
    cells = (
        "return [...document.querySelectorAll('#rows td:nth-child(4)')].map((c) => +c.textContent)"
    )
    falling = driver.execute_script(cells)
    assert falling == sorted(falling, reverse=True)
    picks.click()
    assert driver.execute_script(cells) == sorted(falling)
    driver.find_element("id", "search").send_keys("cam-07 0047")
    assert names(driver) == ["shift-0047.mp4"]
    driver.execute_script("document.querySelector('#rows a').click()")
    assert driver.title.startswith("shift-0047.mp4")
    assert driver.get_log("browser") == []


@pytest.mark.slow
def test_the_curve_can_be_read_on_a_narrow_screen(archive, driver):
    size = {"width": 360, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get((archive / "report.html").as_uri())
    from selenium.webdriver.support.ui import WebDriverWait

    drawn = "return document.querySelectorAll('#curve text').length"
    WebDriverWait(driver, 60).until(lambda page: page.execute_script(drawn))
    heights, right, across, room = driver.execute_script("""
        const words = [...document.querySelectorAll("#curve text")].map((e) => e.getBoundingClientRect());
        const page = document.documentElement;
        return [words.map((e) => e.height), Math.max(...words.map((e) => e.right)),
            page.scrollWidth, page.clientWidth];
    """)  # noqa: E501
    assert len(heights) > 6
    assert min(heights) >= 11
    assert right <= room
    assert across <= room


@pytest.mark.slow
def test_two_thousand_recordings_open_fast(driver, tmp_path_factory):
    folder = tell_archive(tmp_path_factory.mktemp("large"), recordings=2000, windows=5)
    with Run(folder) as run:
        page = write_index(run, folder / "report.html")
    driver.get(page.as_uri())
    ready = driver.execute_script(
        "return performance.getEntriesByType('navigation')[0].loadEventEnd"
    )
    assert len(names(driver)) == 100, "the rest is shown on request"
    assert driver.execute_script("return document.body.scrollHeight") < 8000
    assert page.stat().st_size < 1_500_000
    assert 0 < ready < 30_000, "milliseconds, on the busiest of machines"
