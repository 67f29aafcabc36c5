"""The day, the moments and the question box of `earmark serve`, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from annotation_server import annotation_server
from chromium import CHROMIUM, DRIVER, chromium, look
from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark_lab.demo import make_scene
from served import TOKEN, run_named, serving

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)
SOUNDS = {
    "morning.mp4": [(5.0, 12.0, "Drill"), (30.0, 36.0, "Hammer")],
    "noon.mp4": [(8.0, 11.0, "Hammer"), (13.0, 16.0, "Hammer")],
}
REPLY = {
    "sentences": [
        {"text": "The drill was used.", "sources": [{"entry": 1, "quote": "Drill"}]},
        {"text": "It was a red one.", "sources": [{"entry": 1, "quote": "red"}]},
    ],
    "unknown": "",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """Two recordings of a day, served with a model and prices."""
    folder = tmp_path_factory.mktemp("day")
    with Run(folder / "monday", {"model": "tags"}) as ledger:
        for hour, (name, sounds) in zip((7, 13), SOUNDS.items(), strict=True):
            scene = make_scene(folder / name, duration=60.0)
            began = f"2026-11-16T{hour:02d}:30:00+01:00"
            size = scene.path.stat().st_size
            ledger.add(RecordingRow(name, str(scene.path), 60.0, size, began=began))
            entries = [
                EvidenceEntry(Span(start, end), "heard", text, 0.9, "mn04 track")
                for start, end, text in sounds
            ]
            ledger.keep_evidence(name, entries, kinds=["heard"])
    with annotation_server(reply=json.dumps(REPLY)) as server:
        options = ("--model", server.url, "--set", "limits.input_price=1000000")
        with (
            serving(folder, options=options) as client,
            chromium(tmp_path_factory.mktemp("profile")) as driver,
        ):
            base = str(client.base_url)
            driver.get(f"{base}/?token={TOKEN}")
            run = run_named(client, "monday")
            yield SimpleNamespace(
                driver=driver, base=base, address=f"{base}/run/{run}", server=server
            )


def wait(driver: Any, script: str) -> Any:
    until = WebDriverWait(driver, 120, poll_frequency=0.05).until
    return until(lambda _: driver.execute_script(f"return {script}"))


def see(page: SimpleNamespace, address: str = "", **window: Any) -> Any:
    look(page.driver, **window)
    page.driver.get("about:blank")
    page.driver.get(address or page.address)
    return page.driver


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_day_is_shown_with_clock_times_and_a_zone(
    page: SimpleNamespace, width: int, scheme: str, tmp_path: Path
):
    driver = see(page, width=width, height=900, scheme=scheme)
    wait(driver, "document.querySelector('.day .look .moment')")
    title = driver.find_element(By.CLASS_NAME, "day-title").text
    assert "Monday 16 November 2026, 07:30–13:31 (+01:00)" in title
    names = [each.text for each in driver.find_elements(By.CSS_SELECTOR, ".lines .sound")]
    assert sorted(names) == ["Drill", "Hammer"]
    times = [each.text for each in driver.find_elements(By.CSS_SELECTOR, ".lines .times a")]
    assert sorted(times) == ["07:30:05", "07:30:30", "13:30:08"], "neighbours are one"
    bars = driver.find_elements(By.CSS_SELECTOR, ".ribbon .whole")
    assert [bar.get_attribute("title").partition(",")[0] for bar in bars] == list(SOUNDS)
    assert bars[0].rect["x"] < bars[1].rect["x"], "on one scale, by the clock"
    across, room = driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert across <= room
    assert driver.save_screenshot(str(tmp_path / f"day-{width}-{scheme}.png"))


def test_words_list_moments_of_all_recordings_and_play_in_place(page: SimpleNamespace):
    driver = see(page, width=1400, height=900)
    wait(driver, "document.querySelector('.day')")
    driver.find_element(By.ID, "question").send_keys("hammer")
    wait(driver, "document.querySelectorAll('.results .moment').length === 2")
    shown = [card.text for card in driver.find_elements(By.CSS_SELECTOR, ".results .moment")]
    assert any("07:30:30" in text and "morning.mp4" in text for text in shown)
    assert any("13:30:08" in text and "2×" in text and "noon.mp4" in text for text in shown)
    assert not driver.find_element(By.CLASS_NAME, "day-place").is_displayed()
    cards = driver.find_elements(By.CSS_SELECTOR, ".results .moment")
    (card,) = [card for card in cards if "noon" in card.text]
    card.find_element(By.CLASS_NAME, "play").click()
    wait(driver, "document.querySelector('.results video')?.readyState >= 2")
    played = driver.find_element(By.CSS_SELECTOR, ".results video").get_attribute("src")
    assert played.endswith("#t=8.00")
    clip = card.find_element(By.CLASS_NAME, "clip").get_attribute("href")
    assert "/clip?" in clip and "start=8" in clip
    link = card.find_element(By.CLASS_NAME, "when")
    link.click()
    wait(driver, "location.hash === '#t=8.0' && document.querySelector('canvas.time-line')")


def test_all_runs_are_searched_from_the_first_page(page: SimpleNamespace):
    driver = see(page, page.base)
    wait(driver, "document.querySelector('#question')")
    driver.find_element(By.ID, "question").send_keys("drill")
    wait(driver, "document.querySelectorAll('.results .moment').length === 1")
    assert "07:30:05" in driver.find_element(By.CSS_SELECTOR, ".results .moment").text


def test_a_question_shows_its_price_and_is_answered_with_its_moments(page: SimpleNamespace):
    driver = see(page, width=1400, height=900)
    wait(driver, "document.querySelector('.day')")
    driver.find_element(By.ID, "question").send_keys("When was the drill used?")
    before = len(page.server.asked())
    driver.find_element(By.CLASS_NAME, "ask-run").click()
    cheap = wait(driver, "document.querySelector('.price')?.textContent")
    assert cheap.startswith("1 call to ") and "tokens" in cheap
    driver.execute_script(
        "const input = document.querySelector('.ask-dialog input'); input.value = 3;"
        "input.dispatchEvent(new Event('input'))"
    )
    wait(driver, "document.querySelector('.price').textContent.startsWith('4 calls')")
    driver.execute_script(
        "const input = document.querySelector('.ask-dialog input'); input.value = 0;"
        "input.dispatchEvent(new Event('input'))"
    )
    wait(driver, "document.querySelector('.price').textContent.startsWith('1 call ')")
    assert len(page.server.asked()) == before, "nothing is spent before it is confirmed"
    driver.find_element(By.CSS_SELECTOR, ".ask-dialog .yes").click()
    told = wait(driver, "document.querySelector('.results .paragraph')?.textContent")
    assert told.startswith("The drill was used.") and "07:30:05" in told
    assert "red" not in told, "a sentence whose source does not hold is dropped"
    notes = driver.find_element(By.CLASS_NAME, "results").text
    assert "1 sentence left out" in notes
    (moment,) = driver.find_elements(By.CSS_SELECTOR, ".results .moment")
    assert "Drill" in moment.text
    assert len(page.server.asked()) == before + 1
