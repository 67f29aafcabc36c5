"""The application in a real browser: what people who review hours do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from archive_runs import PLAN, tell_archive
from chromium import CHROMIUM, DRIVER, chromium, look
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from large_archive import write_large_archive
from report_runs import HOSTILE, tell_scene
from served import TOKEN, run_named, serving

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "bench").mkdir()
    tell_scene(folder / "bench", duration=60.0, share=0.6)
    tell_archive(folder / "archive", recordings=260)
    with Ledger.open(folder / "archive", PLAN) as ledger:
        name = "<img src=x onerror='window.ran=9'>.mp4"
        ledger.add(RecordingRow("hostile", f"/cams/{name}", 60.0, 1000))
    with (
        serving(folder) as client,
        chromium(tmp_path_factory.mktemp("profile")) as driver,
    ):
        base = str(client.base_url)
        driver.get(f"{base}/?token={TOKEN}")
        yield SimpleNamespace(
            driver=driver,
            base=base,
            client=client,
            folder=folder,
            archive=f"{base}/run/{run_named(client, 'archive')}",
            scene=f"{base}/run/{run_named(client, 'bench/run')}/one",
        )


def wait(driver: Any, script: str, *values: object) -> Any:
    """What the script gives in the page, once that is something."""
    return WebDriverWait(driver, 120).until(lambda _: driver.execute_script(script, *values))


def see(page: SimpleNamespace, address: str, **window: Any) -> Any:
    look(page.driver, **window)
    page.driver.get(address)
    wait(page.driver, "return document.querySelector('.view h1')?.textContent")
    return page.driver


def texts(driver: Any, kind: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
    return driver.execute_script(script, kind)


def press(driver: Any, *keys: str) -> None:
    ActionChains(driver).send_keys(*keys).perform()


def test_the_page_opens_at_a_moment_plays_and_zooms(page: SimpleNamespace):
    driver = see(page, f"{page.scene}#t=21.5")
    wait(driver, "return document.querySelector('video').readyState >= 2")
    assert wait(driver, "return document.querySelector('video').currentTime") == 21.5
    wait(driver, "return document.querySelectorAll('.pick').length")
    assert len(texts(driver, ".pick")) == 9
    driver.find_element(By.CSS_SELECTOR, ".pick .moment").click()
    wait(driver, "return document.querySelector('video').currentTime < 20")
    driver.find_element(By.CSS_SELECTOR, "canvas.time-line").click()
    press(driver, "+", "+", "+", Keys.SPACE)
    line = driver.find_element(By.CSS_SELECTOR, "canvas.time-line")
    assert line.get_attribute("role") == "slider"
    assert line.get_attribute("aria-valuetext")
    press(driver, "j")
    wait(driver, "return document.querySelector('.pick.chosen')")


def test_what_was_marked_on_the_camera_leads_there(page: SimpleNamespace):
    driver = see(page, page.scene)
    assert texts(driver, ".marks button") == ["0:07", "0:31"]
    driver.find_elements(By.CSS_SELECTOR, ".marks button")[1].click()
    wait(driver, "return document.querySelector('.clock').textContent.startsWith('0:31')")


def test_what_is_right_wrong_or_better_said_is_kept_with_a_name(page: SimpleNamespace):
    driver = see(page, page.scene)
    wait(driver, "return document.querySelectorAll('.pick .judge').length")
    driver.find_element(By.CSS_SELECTOR, ".judge .right").click()
    wait(driver, "return document.querySelector('.said').textContent.includes('Say who you are')")
    name = driver.find_element(By.ID, "author")
    name.clear()
    name.send_keys("Ada", Keys.TAB)
    driver.find_element(By.CSS_SELECTOR, ".judge .right").click()
    wait(driver, "return document.querySelector('.verdict.right')")
    ask = driver.find_elements(By.CSS_SELECTOR, ".judge .reword")[1]
    ask.click()
    field = driver.find_element(By.CSS_SELECTOR, "dialog textarea")
    field.clear()
    field.send_keys("A <b>mallet</b>, not a hammer")
    driver.find_element(By.CSS_SELECTOR, "dialog .yes").click()
    wait(driver, "return document.querySelector('.verdict.reworded')")
    assert "“A <b>mallet</b>, not a hammer”" in texts(driver, ".verdict.reworded")[0]
    with Run.open(page.folder / "bench" / "run") as run:
        assert [(one.verdict, one.author) for one in run.corrections()] == [
            ("right", "Ada"),
            ("reworded", "Ada"),
        ]
    driver.find_element(By.CSS_SELECTOR, ".verdict.reworded .undo").click()
    wait(driver, "return !document.querySelector('.verdict.reworded')")


def test_a_missed_moment_is_marked_by_dragging_and_by_keys(page: SimpleNamespace):
    driver = see(page, page.scene)
    driver.execute_script("document.getElementById('author').value = 'Bo'")
    line = driver.find_element(By.CSS_SELECTOR, "canvas.time-line")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", line)
    wide, high = line.size["width"], line.size["height"]
    lowest = high // 2 - 8
    drag = ActionChains(driver).move_to_element_with_offset(line, int(wide * 0.4), lowest)
    drag.click_and_hold().move_by_offset(40, 0).move_by_offset(20, 0).release().perform()
    field = wait(driver, "return document.querySelector('dialog textarea')")
    field.send_keys("a door shuts")
    driver.find_element(By.CSS_SELECTOR, "dialog .yes").click()
    wait(driver, "return document.querySelector('.said').textContent.includes('missed: kept')")
    driver.execute_script("document.activeElement.blur()")
    press(driver, Keys.HOME, "m", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "m")
    field = wait(driver, "return document.querySelector('dialog textarea')")
    field.send_keys("a cough")
    driver.find_element(By.CSS_SELECTOR, "dialog .yes").click()

    def marked() -> list[tuple[str, str, float]]:
        with Run.open(page.folder / "bench" / "run") as run:
            missed = [one for one in run.corrections() if one.verdict == "missed"]
        return [(one.text, one.author, round(one.span.duration)) for one in missed]

    WebDriverWait(driver, 120).until(lambda _: len(marked()) == 2)
    door, cough = marked()
    assert door[:2] == ("a door shuts", "Bo")
    assert 2 <= door[2] <= 5
    assert cough == ("a cough", "Bo", 2)


def test_an_archive_is_searched_sorted_and_walked_by_keys(page: SimpleNamespace):
    driver = see(page, page.archive)
    wait(driver, "return document.querySelectorAll('.row-name').length")
    assert len(texts(driver, ".strip-row")) < 40, "only rows in view are made"
    driver.find_element(By.ID, "search").send_keys("shift-0123")
    wait(driver, "return document.querySelector('.tools .quiet').textContent.startsWith('1 of')")
    assert texts(driver, ".row-name") == ["shift-0123.mp4"]
    field = driver.find_element(By.ID, "search")
    field.clear()
    field.send_keys(" ", Keys.BACKSPACE, Keys.ESCAPE)
    wait(driver, "return document.querySelectorAll('.row-name').length > 5")
    press(driver, Keys.END)
    last = "return [...document.querySelectorAll('.row-name')].at(-1)?.textContent"
    wait(driver, f"{last} === 'shift-0259.mp4'")
    press(driver, Keys.HOME, "j", "j", Keys.ENTER)
    wait(driver, "return location.pathname.split('/').length === 4")
    wait(driver, "return document.querySelector('canvas.time-line')")
    press(driver, "u")
    wait(driver, "return location.pathname.split('/').length === 3")


def test_hostile_captions_and_names_stay_text(page: SimpleNamespace):
    driver = see(page, page.scene)
    wait(driver, "return document.querySelectorAll('.pick .caption').length")
    assert HOSTILE in texts(driver, ".caption")
    see(page, page.archive)
    driver.find_element(By.ID, "search").send_keys("onerror")
    wait(driver, "return document.querySelector('.row-name')?.textContent.startsWith('<img')")
    assert driver.execute_script("return window.ran") is None
    logged = [entry["message"] for entry in driver.get_log("browser")]
    assert [line for line in logged if "Content Security" in line or "Uncaught" in line] == []


def test_a_run_at_work_shows_how_far_it_is_while_another_person_corrects(page: SimpleNamespace):
    driver = see(page, page.archive)
    with Ledger.open(page.folder / "archive", PLAN):
        wait(driver, "return document.querySelector('.live .pill')?.textContent === 'asking'")
        bar = driver.find_element(By.CSS_SELECTOR, ".live progress")
        assert float(bar.get_attribute("value")) > 100
        where = f"/api/runs/{page.archive.rpartition('/')[2]}/recordings"
        row = page.client.get(where).json()["rows"][0]["row"]
        said = {"start": 1.0, "end": 2.0, "verdict": "missed", "author": "Cy"}
        assert page.client.post(f"{where}/{row['id']}/corrections", json=said).status_code == 201
    wait(driver, "return !document.querySelector('.live .pill')")


def test_without_the_token_there_is_nothing_to_see(page: SimpleNamespace, tmp_path: Path):
    with chromium(tmp_path / "profile") as stranger:
        stranger.get(f"{page.base}/?token=wrong")
        assert "carries the token" in stranger.find_element(By.TAG_NAME, "body").text
        stranger.get(page.archive)
        assert "carries the token" in stranger.find_element(By.TAG_NAME, "body").text
        assert stranger.get_cookies() == []


@pytest.mark.parametrize(("scheme", "width"), [("dark", 1200), ("light", 360)])
def test_nothing_is_wider_than_the_window_and_all_is_named(
    page: SimpleNamespace, scheme: str, width: int
):
    for address in (page.scene, page.archive, page.base):
        driver = see(page, address, scheme=scheme, width=width, height=800)
        wait(driver, "return document.querySelector('.view').childElementCount > 1")
        fits = "return document.documentElement.scrollWidth <= innerWidth"
        assert driver.execute_script(fits), address
        unnamed = driver.execute_script(
            "return [...document.querySelectorAll('button, input, select, .time-line, video')]"
            ".filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length))"
            ".map((one) => one.outerHTML)"
        )
        assert unnamed == []
        paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(21, 23, 27)") == (scheme == "dark")


@pytest.mark.slow
def test_ten_thousand_recordings_with_two_hundred_thousand_picks_are_scrolled(
    page: SimpleNamespace, tmp_path: Path
):
    write_large_archive(tmp_path / "large", recordings=10_000, picks=20)
    with serving(tmp_path) as client:
        driver = page.driver
        driver.get(f"{client.base_url}/?token={TOKEN}")
        driver.get(f"{client.base_url}/run/{run_named(client, 'large')}")
        wait(driver, "return document.querySelectorAll('.row-name').length > 5")
        press(driver, Keys.END)
        last = "return [...document.querySelectorAll('.row-name')].at(-1)?.textContent"
        wait(driver, f"{last} === 'shift-10000.mp4'")
        for part in (0.13, 0.57, 0.91, 0.02):
            driver.execute_script(
                "const box = document.querySelector('.scroller');"
                "box.scrollTop = arguments[0] * box.scrollHeight",
                part,
            )
            seen = f"shift-{int(part * 10_000) + 3:05d}.mp4"
            names = "[...document.querySelectorAll('.row-name')].map((one) => one.textContent)"
            wait(driver, f"return {names}.includes({seen!r})")
            assert len(texts(driver, ".strip-row")) < 60
