"""The application in a real browser: what people who review hours do with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import pytest

pytest.importorskip("fastapi", reason="earmark[server] is not installed")
pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from archive_runs import PLAN
from chromium import CHROMIUM, DRIVER, chromium, look
from earmark.gate.forecast_error import ForecastRange
from earmark.run.corrections import Correction, correct, read_corrections
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.server.run_jobs import key_of
from large_archive import write_large_archive
from making import make_video
from report_runs import HOSTILE
from served import SECRET, TOKEN, run_named, serving
from servers import range_server, s3_bucket

VIDEO = "bench cam #1.mp4"
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)


@pytest.fixture(scope="module")
def bucket(runs: Path) -> Iterator[str]:
    """The address of an S3 bucket that holds the scene; empty where none can be had."""
    if not (find_spec("moto") and find_spec("boto3") and find_spec("s3fs")):
        yield ""
        return
    with s3_bucket("cards") as client:
        client.upload_file(str(runs / "bench" / VIDEO), "cards", "bench.mp4")
        yield "s3://cards"


@pytest.fixture(scope="module")
def page(
    runs: Path, bucket: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimpleNamespace]:
    shutil.copytree(runs / "bench" / "run", runs / "desk")
    with Run(runs / "archive", PLAN) as ledger:
        name = "<img src=x onerror='window.ran=9'>.mp4"
        ledger.add(RecordingRow("hostile", f"/cams/{name}", 60.0, 1000))
        ledger.choose("hostile", [], forecast=ForecastRange(0.25, 0.5, 0.875, 0.8))
    for name in ("web", "got"):
        (runs / name).mkdir()
    shutil.copy(runs / "bench" / VIDEO, runs / "web" / "bench.mp4")
    with (
        range_server(runs / "web") as web,
        serving(runs, options=("--addresses", f"{web.url('')},s3://cards")) as client,
        chromium(tmp_path_factory.mktemp("profile")) as driver,
    ):
        places = {"web": web.url("bench.mp4")}
        with Run(runs / "remote", PLAN) as ledger:
            for key, path in (places | ({"s3": f"{bucket}/bench.mp4"} if bucket else {})).items():
                ledger.add(RecordingRow(key, path, 60.0, 1000, began="2026-05-04T08:12:00+00:00"))
        base = str(client.base_url)
        driver.get(f"{base}/?token={TOKEN}")
        driver.execute_cdp_cmd(
            "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(runs / "got")}
        )
        yield SimpleNamespace(
            driver=driver,
            base=base,
            client=client,
            folder=runs,
            archive=f"{base}/run/{run_named(client, 'archive')}",
            scene=f"{base}/run/{run_named(client, 'bench/run')}/one",
            desk=f"{base}/run/{run_named(client, 'desk')}/one",
            remote=f"{base}/run/{run_named(client, 'remote')}",
            hostile=run_named(client, "hostile"),
        )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The browser of another person, who has no token yet."""
    with chromium(tmp_path_factory.mktemp("other")) as driver:
        yield driver


def wait(driver: Any, script: str, *values: object) -> Any:
    """What the script gives in the page, once that is something."""
    until = WebDriverWait(driver, 120, poll_frequency=0.05).until
    return until(lambda _: driver.execute_script(script, *values))


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
    driver.find_element(By.CSS_SELECTOR, ".pick .at").click()
    wait(driver, "return document.querySelector('video').currentTime < 20")
    line = driver.find_element(By.CSS_SELECTOR, "canvas.time-line")
    assert line.get_attribute("role") == "slider"
    driver.execute_script("document.querySelector('video').pause()")
    line.click()
    wait(driver, "return Math.abs(document.querySelector('video').currentTime - 28) < 5")
    assert line.get_attribute("aria-valuetext") in ("0:26", "0:27", "0:28", "0:29", "0:30")
    shown = "return document.querySelector('canvas.time-line').dataset.seconds === '{}'"
    wait(driver, shown.format("60.0"))
    press(driver, "+")
    wait(driver, shown.format("40.0"))
    press(driver, *"+" * 15)
    wait(driver, shown.format("1.0"))
    press(driver, "0", Keys.SPACE)
    wait(driver, shown.format("60.0"))
    wait(driver, "return !document.querySelector('video').paused")
    press(driver, Keys.SPACE)
    press(driver, "j")
    wait(driver, "return document.querySelector('.pick.chosen')")


def test_a_recording_shows_its_forecast_with_its_range(page: SimpleNamespace):
    driver = see(page, f"{page.archive}/hostile")
    (words,) = texts(driver, ".totals .figure")
    assert "50 %" in words and "25–88 % in 80 % of recordings" in words
    script = """
        const [band, whole] = ["b", ""].map((part) => document.querySelector(
            `.totals .meter ${part}`).getBoundingClientRect());
        return [(band.left - whole.left) / whole.width, band.width / whole.width];
    """
    assert driver.execute_script(script) == pytest.approx([0.25, 0.625], abs=0.01)


def test_video_and_timeline_come_first_and_then_what_happened(page: SimpleNamespace):
    driver = see(page, page.scene, width=1400, height=1000)
    wait(driver, "return document.querySelector('canvas.time-line').dataset.lanes")
    video, line, told = (
        driver.find_element(By.CSS_SELECTOR, name)
        for name in (".video", "canvas.time-line", ".overview")
    )
    assert video.rect["y"] < line.rect["y"] < told.rect["y"]
    assert line.rect["y"] + line.rect["height"] < 1000, "above the fold"
    assert "Seen" in told.text and "Speech" in told.text
    lanes = line.get_attribute("data-lanes").split(",")
    assert "speech" in lanes and "corrections" in lanes


def test_what_was_marked_on_the_camera_leads_there(page: SimpleNamespace):
    driver = see(page, page.scene)
    assert texts(driver, ".marks button") == ["0:07", "0:31"]
    driver.find_elements(By.CSS_SELECTOR, ".marks button")[1].click()
    wait(driver, "return document.querySelector('.clock').textContent.startsWith('0:31')")


def test_who_goes_somewhere_before_the_picks_are_there_stays_there(page: SimpleNamespace):
    late = (
        "const before = window.fetch; window.held = [];"
        "window.fetch = async (path, ...rest) => {"
        " if (String(path).includes('/picks')) await new Promise((go) => window.held.push(go));"
        " return before(path, ...rest); };"
    )
    command = "Page.addScriptToEvaluateOnNewDocument"
    script = page.driver.execute_cdp_cmd(command, {"source": late})
    try:
        driver = see(page, page.scene)
        wait(driver, "return window.held.length")
        driver.find_elements(By.CSS_SELECTOR, ".marks button")[1].click()
        driver.execute_script("for (const go of window.held) go()")
        wait(driver, "return document.querySelectorAll('.pick').length")
        driver.execute_async_script("setTimeout(arguments[0], 500)")  # all that follows is done
        assert texts(driver, ".clock")[0].startswith("0:31")
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_what_is_right_wrong_or_better_said_is_kept_with_a_name(page: SimpleNamespace):
    driver = see(page, page.scene)
    wait(driver, "return document.querySelectorAll('.pick .judge').length")
    driver.find_element(By.CSS_SELECTOR, ".judge .right").click()
    wait(driver, "return document.querySelector('.said').textContent.includes('Enter your name')")
    driver.find_element(By.CSS_SELECTOR, ".judge .reword").click()
    assert not driver.find_elements(By.CSS_SELECTOR, "dialog textarea"), "words would be lost"
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
    with Run(page.folder / "bench" / "run") as run:
        assert [(one.verdict, one.author) for one in read_corrections(run)] == [
            ("right", "Ada"),
            ("reworded", "Ada"),
        ]
    driver.find_element(By.CSS_SELECTOR, ".verdict.reworded .undo").click()
    wait(driver, "return !document.querySelector('.verdict.reworded')")


def test_a_missed_moment_is_marked_by_dragging_and_by_keys(page: SimpleNamespace):
    driver = see(page, page.scene)
    settled = "document.querySelector('.pick') && document.querySelector('video').readyState > 1"
    wait(driver, f"return {settled}")  # nothing moves on the page any more
    driver.execute_script("document.getElementById('author').value = ''")
    press(driver, Keys.HOME, "m", Keys.ARROW_RIGHT, "m")
    wait(driver, "return document.querySelector('.said').textContent.includes('Enter your name')")
    assert driver.execute_script("return !document.querySelector('dialog textarea')")
    driver.execute_script(
        "document.getElementById('author').value = 'Bo'; document.activeElement.blur()"
    )
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
        with Run(page.folder / "bench" / "run") as run:
            missed = [one for one in read_corrections(run) if one.verdict == "missed"]
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
    driver.find_element(By.ID, "search").send_keys("shift-0113")
    wait(driver, "return document.querySelector('.count').textContent.startsWith('1 of')")
    assert texts(driver, ".row-name") == ["shift-0113.mp4"]
    field = driver.find_element(By.ID, "search")
    field.clear()
    field.send_keys(" ", Keys.BACKSPACE, Keys.ESCAPE)
    wait(driver, "return document.querySelectorAll('.row-name').length > 5")
    driver.execute_script(
        "const sort = document.getElementById('sort'); sort.value = 'name';"
        "sort.dispatchEvent(new Event('change'))"
    )
    wait(driver, "return document.querySelector('.row-name')?.textContent.startsWith('<img')")
    press(driver, Keys.END)
    last = "return [...document.querySelectorAll('.row-name')].at(-1)?.textContent"
    wait(driver, f"{last} === 'shift-0119.mp4'")
    press(driver, Keys.HOME, "j", "j", Keys.ENTER)
    wait(driver, "return location.pathname.split('/').length === 4")
    wait(driver, "return document.querySelector('canvas.time-line')")
    press(driver, "u")
    wait(driver, "return location.pathname.split('/').length === 3")


def test_an_archive_is_filtered_and_the_address_says_how(page: SimpleNamespace):
    driver = see(page, page.archive)
    driver.find_element(By.CSS_SELECTOR, ".filter-panel summary").click()
    sound = driver.find_element(By.CSS_SELECTOR, "[aria-label='Only with this sound']")
    sound.send_keys("hammer")
    wait(driver, "return document.querySelector('.count').textContent.startsWith('2 of')")
    wait(driver, "return document.querySelectorAll('datalist option').length === 2")
    script = (
        "for (const [label, value] of Object.entries(arguments[0])) {"
        "const input = document.querySelector(`[aria-label='${label}']`); input.value = value;"
        "input.dispatchEvent(new Event('input')); }"
    )
    driver.execute_script(
        script, {"From this day": "2026-05-05", "Actions per hour, at least": "1"}
    )
    wait(driver, "return document.querySelector('.count').textContent.startsWith('1 of')")
    wait(driver, "return location.search.includes('since=2026-05-05')")
    address = driver.current_url
    driver.execute_script("document.activeElement.blur()")
    press(driver, Keys.ENTER)
    wait(driver, "return document.querySelector('canvas.time-line')")
    press(driver, "u")
    wait(driver, "return location.href === arguments[0]", address)
    wait(driver, "return document.querySelector('.row-name')?.textContent === 'shift-0004.mp4'")
    see(page, address)
    wait(driver, "return document.querySelector('.count').textContent.startsWith('1 of')")
    assert driver.find_element(By.CSS_SELECTOR, ".filter-panel").get_attribute("open")


def test_corrections_and_clips_are_downloaded(page: SimpleNamespace):
    real = f"{page.base}/run/{run_named(page.client, 'real')}"
    driver = see(page, real)
    wait(driver, "return document.querySelector('.row-name')")
    press(driver, Keys.ENTER)
    wait(driver, "return document.querySelectorAll('.pick .clip').length")
    driver.find_element(By.CSS_SELECTOR, "[download='corrections.jsonl']").click()
    press(driver, "j", "d")
    got = page.folder / "got"
    WebDriverWait(driver, 60).until(lambda _: len([*got.glob("*.mp4"), *got.glob("*.jsonl")]) == 2)
    (clip,) = got.glob("*.mp4")
    with av.open(str(clip)) as video:
        assert 4.0 <= video.duration / 1e6 <= 7.0


@pytest.mark.parametrize("key", ["web", "s3"])
def test_the_video_plays_from_the_web_and_from_s3(page: SimpleNamespace, bucket: str, key: str):
    if key == "s3" and not bucket:
        pytest.skip("moto, boto3 or s3fs is not installed")
    driver = see(page, f"{page.remote}/{key}#t=21.5")
    wait(driver, "return document.querySelector('video').readyState >= 2")
    assert driver.execute_script("return document.querySelector('video').currentTime") == 21.5
    assert "08:12:21" in texts(driver, ".clock")[0], "the time of day"


def test_sound_without_pictures_is_said_to_be(page: SimpleNamespace):
    options: dict[str, Any] = {"codec": "mjpeg", "pixel_format": "yuvj420p"}
    path = make_video(page.folder / "old.mp4", duration=4.0, clicks=[1.0], **options)
    with Run(page.folder / "old", PLAN) as ledger:
        ledger.add(RecordingRow("one", str(path), 4.0, 1000))
    told = "return document.querySelector('.unplayable:not([hidden])')?.textContent"
    driver = see(page, f"{page.base}/run/{run_named(page.client, 'old')}/one")
    assert "cannot show its video" in wait(driver, told)
    see(page, page.scene)
    wait(driver, "return document.querySelector('video').readyState >= 2")
    assert driver.execute_script(told) is None


def test_no_address_leads_out_of_the_folders(page: SimpleNamespace):
    out = ("/run/..%2f..%2fetc%2fpasswd", "/static/..%2fserved.py")
    for path in (f"/media/{page.hostile}/a/0", f"/media/{page.hostile}/b/0", *out):
        page.driver.get(f"{page.base}{path}")
        shown = page.driver.find_element(By.TAG_NAME, "body").text
        assert "root:" not in shown
        assert SECRET not in shown


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
    recordings = "return document.querySelectorAll('.figure .value')[1]?.textContent === '{}'"
    wait(driver, recordings.format(120))
    with Run(page.folder / "archive", PLAN) as ledger:
        ledger.add(RecordingRow("late", "/cams/late.mp4", 60.0, 1000))
        wait(driver, recordings.format(121))
        wait(driver, "return document.querySelector('.live .pill')?.textContent === 'asking'")
        bar = driver.find_element(By.CSS_SELECTOR, ".live progress")
        assert float(bar.get_attribute("value")) > 100
        where = f"/api/runs/{page.archive.rpartition('/')[2]}/recordings"
        row = page.client.get(where).json()["rows"][0]["row"]
        said = {"start": 1.0, "end": 2.0, "verdict": "missed", "author": "Cy"}
        assert page.client.post(f"{where}/{row['id']}/corrections", json=said).status_code == 201
    wait(driver, "return !document.querySelector('.live .pill')")


def test_without_the_token_there_is_nothing_to_see(page: SimpleNamespace, other: Any):
    for address in (f"{page.base}/?token=wrong", page.archive):
        other.get(address)
        assert "carries the token" in other.find_element(By.TAG_NAME, "body").text
    assert other.get_cookies() == []


def test_two_people_see_what_the_other_says_as_it_is_said(page: SimpleNamespace, other: Any):
    other.get(f"{page.base}/?token={TOKEN}")
    for driver, name in ((page.driver, "Ada"), (other, "Bo")):
        driver.get(page.desk)
        wait(driver, "return document.querySelectorAll('.judge .right').length")
        driver.execute_script(
            "localStorage.setItem('earmark-author', arguments[0]);"
            "document.getElementById('author').value = arguments[0]",
            name,
        )
    say = "document.querySelectorAll('.judge .{}')[{}].click()"
    every = "[...document.querySelectorAll('.verdict')].map((one) => one.firstChild.data)"
    page.driver.execute_script(say.format("right", 0))
    wait(other, f"return {every}.includes('Ada: right')")
    other.execute_script(say.format("wrong", 0) + ";" + say.format("wrong", 1))
    for driver in (page.driver, other):
        wait(driver, f"return {every}.length === 3")
        said = driver.execute_script(f"return {every}")
        assert said == ["Ada: right", "Bo: wrong", "Bo: wrong"]
    with Run(page.folder / "desk") as run:
        kept = [(one.author, one.verdict) for one in read_corrections(run)]
    assert kept == [("Ada", "right"), ("Bo", "wrong"), ("Bo", "wrong")]


FIRST_HELD = """
const ask = window.fetch;
let calls = 0;
window.fetch = async (path, options) => {
  const answer = await ask(path, options);
  if (!path.includes('/picks?') || ++calls > 1) return answer;
  const page = await answer.json();
  await new Promise((go) => { window.release = go; });
  setTimeout(() => { window.isRead = true; }, 0); // after whatever the page does with the answer
  return new Response(JSON.stringify(page));
};
"""


def test_an_answer_that_arrives_late_does_not_hide_what_was_said_since(page: SimpleNamespace):
    folder = page.folder / "late"
    shutil.copytree(page.folder / "bench" / "run", folder)
    with Run(folder) as run:
        span, _ = next(iter(run.captions("one")))
    hold = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": FIRST_HELD}
    )
    try:
        driver = see(page, f"{page.base}/run/{key_of(folder.resolve())}/one")
        wait(driver, "return window.release && document.querySelectorAll('.judge .right').length")
        correct(folder, Correction("one", span, "right", author="Cy"))
        said = "return document.body.textContent.includes('Cy: right')"
        wait(driver, said)
        driver.execute_script("window.release()")
        wait(driver, "return window.isRead")
        assert driver.execute_script(said)
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", hold)


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


WATCHED = """
window.opened = [];
window.EventSource = class extends EventSource {
  constructor(address) { super(address); window.opened.push(this); }
};
"""


@pytest.mark.slow
def test_a_page_that_is_left_holds_no_connection(page: SimpleNamespace):
    """A browser has six to a server; the seventh page would wait for one of them to time out."""
    watch = page.driver.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument", {"source": WATCHED}
    )
    states = "return window.opened.map((one) => one.readyState === EventSource.CLOSED)"
    try:
        for address in (page.scene, page.archive):
            driver = see(page, address)
            wait(driver, "return window.opened.length === 1 && window.opened[0].readyState === 1")
            driver.execute_script("window.dispatchEvent(new Event('pagehide'))")
            assert driver.execute_script(states) == [True]
            driver.execute_script("window.dispatchEvent(new Event('pageshow'))")
            assert driver.execute_script(states) == [True, False]
        for _ in range(8):
            see(page, page.scene)
    finally:
        page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", watch)


@pytest.mark.slow
def test_ten_thousand_recordings_with_two_hundred_thousand_picks_are_scrolled(
    page: SimpleNamespace,
):
    write_large_archive(page.folder / "large", recordings=10_000, picks=20)
    driver = see(page, f"{page.base}/run/{key_of((page.folder / 'large').resolve())}")
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


def test_a_run_is_started_as_it_was_forecast(page: SimpleNamespace):
    """A forecast is of one budget over all recordings chosen, and a folder is none of them."""
    driver = see(page, page.base)
    button = (
        "return [...document.querySelectorAll('button')].find((one) => one.textContent === '{}')"
    )
    wait(driver, button.format("New run …")).click()
    wait(driver, "return document.querySelector('dialog option')")
    assert all(name.endswith(".mp4") for name in texts(driver, "dialog option"))
    driver.execute_script(
        "for (const one of document.querySelectorAll('dialog option')) one.selected = true;"
        "window.asked = [];"
        "window.fetch = (path, options) => { window.asked.push([path, options.body]);"
        " return Promise.reject(new Error('not here')); };"
    )
    wait(driver, button.format("Forecast")).click()
    path, body = wait(driver, "return window.asked[0]")
    assert (path, json.loads(body)["across"]) == ("/api/forecasts", True)


FORECAST = """
for (const one of document.querySelectorAll('dialog option')) one.selected = true;
window.started = 0;
const job = { id: 'j', state: 'done', progress: {}, run: '', failure: '',
              result: { rungs: [], recordings: 1, duration: 10, actions: null } };
window.fetch = async (path, options) => {
  if (path === '/api/runs' && options.method === 'POST') window.started += 1;
  if (path === '/api/forecasts') await new Promise((go) => { window.answer = go; });
  return new Response(JSON.stringify(job), { headers: { 'content-type': 'application/json' } });
};
"""


def test_a_run_is_started_once_and_only_as_it_was_forecast(page: SimpleNamespace):
    driver = see(page, page.base)
    button = (
        "return [...document.querySelectorAll('button')].find((one) => one.textContent === '{}')"
    )
    wait(driver, button.format("New run …")).click()
    wait(driver, "return document.querySelector('dialog option')")
    driver.execute_script(FORECAST)
    start, forecast = (wait(driver, button.format(word)) for word in ("Start", "Forecast"))
    forecast.click()
    budget = driver.find_element(By.CSS_SELECTOR, "dialog .field input")
    wait(driver, "return Boolean(window.answer)")
    budget.send_keys("0")  # while the forecast of another budget is made
    driver.execute_script("window.answer()")
    wait(driver, "return document.querySelector('dialog table')")
    driver.execute_async_script("setTimeout(arguments[0], 200)")
    assert not start.is_enabled(), "nobody has seen what this budget costs"
    driver.execute_script("window.answer = null")
    forecast.click()
    wait(driver, "return Boolean(window.answer)")
    driver.execute_script("window.answer()")
    WebDriverWait(driver, 60).until(lambda _: start.is_enabled())
    driver.execute_script("arguments[0].click(); arguments[0].click()", start)
    driver.execute_async_script("setTimeout(arguments[0], 200)")
    assert driver.execute_script("return window.started") == 1


def test_a_dialog_is_opened_once_and_only_where_it_was_asked_for(page: SimpleNamespace):
    driver = see(page, page.base)
    wait(driver, "return document.querySelector('.head-line button')")
    driver.execute_script(
        "const before = window.fetch; window.held = [];"
        "window.fetch = async (path, ...rest) => {"
        " if (path === '/api/sources') await new Promise((go) => window.held.push(go));"
        " return before(path, ...rest); };"
    )
    answer = "for (const go of window.held.splice(0)) go()"
    click = "document.querySelector('.head-line button').click();"
    driver.execute_script(2 * click + answer)
    wait(driver, "return document.querySelector('dialog.plan-dialog[open]')")
    driver.execute_async_script("setTimeout(arguments[0], 500)")
    assert len(driver.find_elements(By.CSS_SELECTOR, "dialog.plan-dialog")) == 1
    driver.execute_script("document.querySelector('dialog.plan-dialog').close();" + click)
    driver.find_element(By.CSS_SELECTOR, ".run-name").click()
    driver.execute_script(answer)
    driver.execute_async_script("setTimeout(arguments[0], 500)")
    assert not driver.find_elements(By.CSS_SELECTOR, "dialog.plan-dialog")
    assert driver.find_element(By.ID, "said").text == ""


def test_a_page_that_arrives_late_does_not_replace_the_one_gone_to_since(page: SimpleNamespace):
    driver = see(page, page.base)
    driver.execute_script(
        "const before = window.fetch; window.held = [];"
        "window.fetch = async (path, ...rest) => {"
        " if (path.startsWith('/api/runs/')) await new Promise((go) => window.held.push(go));"
        " return before(path, ...rest); };"
    )
    driver.find_element(By.CSS_SELECTOR, ".run-name").click()
    wait(driver, "return window.held.length")
    press(driver, "u")
    wait(driver, "return document.querySelector('.run-name')")
    driver.execute_script("for (const go of window.held) go()")
    driver.execute_async_script("setTimeout(arguments[0], 500)")  # all that follows is done
    assert (driver.title, texts(driver, "#trail a, #trail span")) == ("earmark", [])


def test_the_list_of_runs_says_what_happened_in_each(page: SimpleNamespace):
    driver = see(page, page.base)
    wait(driver, "return document.querySelector('.run .told')")
    told = dict(zip(texts(driver, ".run-name"), texts(driver, ".run"), strict=True))
    assert "Heard Hammer; Water tap · Seen first, at 0:04: someone works" in told["archive"]
