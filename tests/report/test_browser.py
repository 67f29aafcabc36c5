"""The page in a real browser, as a person opens it: from disk, with no network."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from chromium import CHROMIUM, DRIVER, chromium, look
from earmark import Span
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.report.report_page import write_page
from earmark.run.run import Run
from earmark.search.archive_search import search
from making import make_video
from report_runs import HOSTILE, tell_many, tell_scene, tell_shift
from small_runs import PLAN, answer, call, open_run, row

pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="Debian's chromium and chromium-driver are not installed"
)
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    with chromium(tmp_path_factory.mktemp("profile")) as chrome:
        yield chrome


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """A short run beside its video, and a long one whose video is gone."""
    folder = tmp_path_factory.mktemp("told")
    told = SimpleNamespace()
    for name, make in (
        ("scene", lambda: tell_scene(folder, duration=60.0, share=0.6)),
        ("shift", lambda: tell_shift(folder)),
    ):
        with Run(make()) as run:
            setattr(told, name, write_page(run, folder / "pages" / f"{name}.html"))
    return told


def see(
    driver, page: Path, *, scheme: str = "light", width: int = 1200, height: int = 1000
) -> None:
    """Open the page in a window of this size, light or dark."""
    look(driver, scheme=scheme, width=width, height=height)
    driver.get(page.as_uri())
    wait(driver, "return document.querySelector('#found').textContent")


def wait(driver, script: str):
    """The first true thing `script` returns within a few seconds."""
    return WebDriverWait(driver, 120, poll_frequency=0.05).until(
        lambda _: driver.execute_script(script)
    )


def cards(driver) -> list:
    return driver.find_elements(By.CSS_SELECTOR, ".card:not([hidden])")


def press(driver, *keys: str) -> None:
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def test_a_hostile_caption_is_text_and_runs_nothing(driver, pages, tmp_path: Path):
    see(driver, pages.scene)
    captions = [
        each.get_property("textContent") for each in driver.find_elements(By.CLASS_NAME, "caption")
    ]
    assert HOSTILE in captions
    assert driver.execute_script("return [window.ran, document.scripts.length]") == [None, 2]
    assert "500 <i>and no more</i>" in driver.find_element(By.CLASS_NAME, "failure").text
    driver.find_element(By.ID, "search").send_keys("script")  # marking its words is text too
    assert (
        driver.execute_script("return document.querySelectorAll('.caption *:not(mark)').length")
        == 0
    )
    assert driver.execute_script("return window.ran") is None
    assert driver.save_screenshot(str(tmp_path / "hostile.png"))


def test_nothing_is_asked_of_the_network_and_nothing_complains(driver, pages):
    driver.get_log("browser")
    see(driver, pages.scene)
    asked = driver.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    assert [name for name in asked if not name.startswith("data:")] == []
    assert driver.get_log("browser") == []


def test_search_as_you_type(driver, pages):
    see(driver, pages.scene)
    at_first, everything = len(cards(driver)), driver.execute_script("return picks.length")
    box = driver.find_element(By.ID, "search")
    counts = []
    for letter in "rin ta":
        box.send_keys(letter)
        counts.append(len(cards(driver)))
    assert counts == sorted(counts, reverse=True)
    assert 0 < counts[-1] < everything
    assert all("tap" in card.text for card in cards(driver))
    told = driver.find_element(By.ID, "found").text
    # Windows side by side that say the same are one moment.
    assert told == f"2 moments · {counts[-1]} of {everything} picks"
    marked = {
        mark.text.lower()
        for mark in driver.find_elements(By.TAG_NAME, "mark")
        if mark.is_displayed()
    }
    assert marked == {"rin", "ta"}
    box.send_keys("zzz")
    assert cards(driver) == []
    assert driver.find_element(By.CLASS_NAME, "none").is_displayed()
    box.send_keys(Keys.ESCAPE)
    assert len(cards(driver)) == at_first
    assert driver.find_elements(By.TAG_NAME, "mark") == []


def test_what_is_shown_can_be_narrowed_to_failures(driver, pages):
    see(driver, pages.scene)
    (failed,) = [
        button
        for button in driver.find_elements(By.CSS_SELECTOR, ".filters button")
        if button.text == "Failed"
    ]
    failed.click()
    (card,) = cards(driver)
    assert "the server said 500" in card.text
    assert failed.get_attribute("aria-pressed") == "true"


def test_the_keyboard_is_enough(driver, pages):
    see(driver, pages.scene)
    press(driver, "/")
    assert driver.switch_to.active_element.get_attribute("id") == "search"
    press(driver, "j", Keys.ESCAPE)  # in the search box a letter is a letter
    driver.execute_script("document.activeElement.blur()")
    press(driver, "j", "j", "k")
    first = cards(driver)[0].find_element(By.CLASS_NAME, "when")
    assert driver.switch_to.active_element == first
    press(driver, Keys.ENTER)
    assert driver.find_element(By.ID, "player").is_displayed()
    press(driver, Keys.ESCAPE)
    assert not driver.find_element(By.ID, "player").is_displayed()
    names = driver.execute_script(
        "return [...document.querySelectorAll('button, input, canvas')]"
        ".map((e) => e.getAttribute('aria-label') || e.textContent)"
    )
    assert all(names)


def test_a_click_plays_the_video_at_that_moment(driver, pages, tmp_path: Path):
    see(driver, pages.scene)
    button = cards(driver)[3].find_element(By.CLASS_NAME, "when")
    minutes, seconds = re.match(r"(\d+):(\d+)", button.text).groups()
    button.click()
    wait(driver, "return document.querySelector('#video').readyState >= 2")
    now = driver.execute_script("return document.querySelector('#video').currentTime")
    assert 0 <= now - (60 * int(minutes) + int(seconds)) < 5
    assert not driver.find_element(By.ID, "unplayable").is_displayed()
    assert driver.save_screenshot(str(tmp_path / "playing.png"))


def test_what_was_marked_on_the_camera_is_shown_and_played(driver, pages):
    see(driver, pages.scene)
    marks = driver.find_elements(By.CSS_SELECTOR, ".marks button")
    assert [mark.text for mark in marks] == ["0:07", "0:31"]
    assert driver.find_elements(By.CSS_SELECTOR, ".legend .flag")
    marks[1].click()
    at = wait(driver, "const v = document.querySelector('video'); return v && v.currentTime")
    assert 31 <= at < 36
    see(driver, pages.shift)
    assert not driver.find_elements(By.CSS_SELECTOR, ".marks, .legend .flag")


def test_a_moment_of_a_later_chapter_is_played_from_its_file(driver, tmp_path: Path):
    chapters = ((str(tmp_path / "GX010042.MP4"), 0.0), (str(tmp_path / "GX020042.MP4"), 10.0))
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), chapters=chapters))
        see(driver, write_page(run, tmp_path / "report.html"))
    played = []
    for card in cards(driver):
        card.find_element(By.CLASS_NAME, "when").click()
        played.append(driver.find_element(By.ID, "video").get_attribute("src").rpartition("/")[2])
    assert played == ["GX010042.MP4#t=4.000", "GX020042.MP4#t=2.000"]


def test_the_player_goes_on_with_the_next_chapter(driver, tmp_path: Path):
    names = ("GX010042.mp4", "GX020042.mp4")
    paths = [make_video(tmp_path / name, duration=5.0, codec="libx264") for name in names]
    chapters = tuple((str(path), 5.0 * number) for number, path in enumerate(paths))
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), chapters=chapters))
        see(driver, write_page(run, tmp_path / "report.html"))
    cards(driver)[0].find_element(By.CLASS_NAME, "when").click()
    wait(driver, "return document.querySelector('#video').src.includes('GX020042')")


def test_a_video_that_is_gone_is_said_to_be(driver, pages):
    see(driver, pages.shift)
    cards(driver)[0].find_element(By.CLASS_NAME, "when").click()
    said = wait(
        driver,
        "const p = document.querySelector('#unplayable'); return p.hidden ? '' : p.textContent",
    )
    assert "cannot be played here" in said
    assert "gone.mp4" in said


def test_sound_without_pictures_is_said_to_be(driver, tmp_path: Path):
    options = {"codec": "mjpeg", "pixel_format": "yuvj420p"}
    path = make_video(tmp_path / "old.mp4", duration=12.0, clicks=[1.0], **options)
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), path=str(path)))
        see(driver, write_page(run, tmp_path / "report.html"))
    cards(driver)[0].find_element(By.CLASS_NAME, "when").click()
    said = wait(
        driver,
        "const p = document.querySelector('#unplayable'); return p.hidden ? '' : p.textContent",
    )
    assert "cannot show the video" in said and "old.mp4" in said


def luminance(colour: str) -> float:
    """Of `rgb(r, g, b)`, as contrast is reckoned (WCAG 2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(driver, pages, scheme: str, tmp_path: Path):
    see(driver, pages.scene, scheme=scheme)
    colour = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    paper = luminance(driver.execute_script(colour, "body", "backgroundColor"))
    card = luminance(driver.execute_script(colour, ".card", "backgroundColor"))
    assert (paper > 0.5) == (scheme == "light")
    for place, behind in [
        ("body", paper),
        (".quiet", paper),
        (".brand", paper),
        (".failure", card),
        (".why", card),
    ]:
        text = luminance(driver.execute_script(colour, place, "color"))
        low, high = sorted((text, behind))
        assert (high + 0.05) / (low + 0.05) >= 4.5, place
    assert driver.save_screenshot(str(tmp_path / f"{scheme}.png"))


@pytest.mark.parametrize("name", ["scene", "shift"])
def test_a_narrow_screen_needs_no_scrolling_sideways(driver, pages, name: str, tmp_path: Path):
    see(driver, getattr(pages, name), width=360, height=800)
    across, room = driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert across <= room
    wide = cards(driver)[0].size["width"]
    assert 0.8 * room < wide <= room
    assert driver.save_screenshot(str(tmp_path / f"{name}.png"))


def test_the_time_line_marks_the_picked_windows_and_no_others(driver, pages, tmp_path):
    see(driver, pages.scene)
    cells = driver.execute_script("""
        const { canvas, plan, recording } = strips[0];
        const pen = canvas.getContext("2d");
        return [...Array(recording.scores.length).keys()].map((index) => {
            const time = (index + 0.5) * recording.window;
            const x = 58 + (time / plan.length) * plan.room;
            const [red, green, blue] = pen.getImageData(x, plan.height - 9, 1, 1).data;
            const isIn = (pick) => pick.start <= time && time < pick.end;
            return [recording.picks.some(isIn), red - blue > 90];
        });
    """)
    assert driver.save_screenshot(str(tmp_path / "scene.png"))
    assert {is_picked for is_picked, _ in cells} == {True, False}
    assert all(is_picked == is_marked for is_picked, is_marked in cells)


def test_hours_of_windows_open_without_decoding_every_picture(driver, pages, tmp_path: Path):
    see(driver, pages.shift)
    made, shown = driver.execute_script(
        "return ['.card', 'img[src]'].map((each) => document.querySelectorAll(each).length)"
    )
    assert made == 540
    assert shown < 60
    assert "deaf.mp4 has no audio stream" in driver.find_element(By.ID, "missed").text
    assert driver.save_screenshot(str(tmp_path / "shift.png"))


def test_an_empty_run_says_so(driver, tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        see(driver, write_page(run, tmp_path / "report.html"))
    assert "no recordings yet" in driver.find_element(By.TAG_NAME, "main").text


def test_several_recordings_have_a_list_that_leads_to_them(driver, tmp_path: Path):
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(row("second"))
        see(driver, write_page(run, tmp_path / "report.html"))
    links = driver.find_elements(By.CSS_SELECTOR, ".contents a")
    assert [link.text for link in links] == ["a.mp4", "second.mp4"]
    links[1].click()
    assert (
        driver.execute_script("return document.querySelector(':target h2').textContent")
        == "second.mp4"
    )


def test_a_run_asked_by_post_was_asked(driver, tmp_path):
    """Its plan names no model, and says so only until answers have come."""
    told = []
    with open_run(tmp_path) as ledger:
        ledger.unanswered([call(1)])
    with Run(tmp_path, PLAN | {"model": "tags"}) as ledger, Run(ledger.folder) as run:
        for _ in range(2):
            see(driver, write_page(run, tmp_path / "report.html"))
            told.append(driver.find_element(By.ID, "subtitle").text)
            ledger.keep(call(1), answer("a board"))
    assert ["no model asked" in line for line in told] == [True, False]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with 20,000 picks."""
    folder = tmp_path_factory.mktemp("large")
    with Run(tell_many(folder / "run", 20_000)) as run:
        return write_page(run, folder / "report.html")


def test_twenty_thousand_picks_are_drawn_as_they_are_scrolled_to(driver, large: Path):
    assert large.stat().st_size < 20e6
    assert list((large.parent / "report_pictures").iterdir())
    driver.get_log("browser")
    see(driver, large)
    driver.execute_script("document.querySelector('.card').scrollIntoView()")
    wait(driver, "return document.querySelector('.card img').naturalWidth > 0")
    assert 200 <= len(cards(driver)) <= 400
    shown = driver.execute_script("return document.querySelectorAll('img[src]').length")
    assert shown < 100
    before = len(cards(driver))
    driver.execute_script("run.recordings[0].more.scrollIntoView()")
    wait(driver, f"return document.querySelectorAll('.card').length > {before}")
    assert driver.get_log("browser") == []
    box = driver.find_element(By.ID, "search")
    box.send_keys("number 19999")
    (card,) = cards(driver)
    assert "number 19999" in card.text
    box.send_keys(Keys.ESCAPE)
    assert driver.find_element(By.ID, "found").text == "20,000 picks"


def test_a_pick_far_away_gets_its_card_when_it_is_gone_to(driver, large: Path):
    see(driver, large)
    driver.execute_script("goTo(picks[15000])")
    wait(driver, "return document.activeElement === picks[15000].button")
    assert len(cards(driver)) < 700
    assert "number 15000" in driver.execute_script("return picks[15000].card.textContent")
    earlier = driver.find_element(By.XPATH, "//button[text()='Show earlier']")
    driver.execute_script("arguments[0].click()", earlier)
    assert driver.execute_script("return picks[14800].card.isConnected")


@pytest.fixture(scope="module")
def told_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with evidence beside its captions, some of which repeat each other."""
    folder = tell_scene(tmp_path_factory.mktemp("evidence"), duration=60.0, share=0.6)
    with Run(folder) as run:
        plan = run.plan()
        picks = list(run.picks("one"))
    with Run(folder, plan) as ledger:
        spans = [Span(3.0, 9.5), Span(20.0, 31.0), picks[0].span, Span(40.0, 42.0)]
        spans += [Span(50.0, 52.0), Span(52.0, 54.0), Span(54.0, 56.0)]
        said = [
            ("heard", "Power tool", "yamnet track"),
            ("heard", "Drill", "yamnet track"),
            ("read", "Hämmer & rinsing-agent 5%", "ocr"),
            ("said", "hand me the drills, the rinsed ones", "whisper"),
            ("read", "EXIT", "ocr"),
            ("read", "EXIT", "ocr"),
            ("read", "exit 5", "ocr"),
        ]
        entries = [
            EvidenceEntry(span, kind, text, 0.75, origin)
            for span, (kind, text, origin) in zip(spans, said, strict=True)
        ]
        ledger.keep_evidence("one", entries, kinds=["heard", "read", "said"])
    return folder


WORDS = [
    "drilling",
    "drill",
    "tools",
    "power-tool",
    "hammers",
    "rins",
    "exit",
    "rinse hand",
    "room",
    "noise rins",
    "5",
    '"nail',
    "x",
]


@pytest.mark.parametrize("typed", WORDS)
def test_the_page_finds_what_the_command_finds(driver, told_run, typed: str):
    with Run(told_run) as run:
        page = write_page(run, told_run / "pages" / "told.html")
    see(driver, page)
    driver.find_element(By.ID, "search").send_keys(typed)
    shown = driver.execute_script(
        "return run.recordings[0].moments.map(({start, end, kinds, telling}) =>"
        " [start, end, kinds.join(), telling.map(({kind, text}) => `${kind} ${text}`).sort()])"
    )
    moments = search(told_run, typed)
    found = [
        [
            each.span.start,
            each.span.end,
            ",".join(each.kinds),
            sorted(f"{hit.kind} {hit.told}" for hit in each.telling),
        ]
        for each in moments
    ]
    assert sorted(shown) == sorted(found)
    listed = driver.find_elements(By.CSS_SELECTOR, ".moments li")
    assert len(listed) == sum(any(hit.text for hit in each.telling) for each in moments)


def test_the_page_stems_every_word_as_the_index_of_the_run_does(driver, told_run):
    """Words of all sorts: those of the documentation, and letters of other languages."""
    root = Path(__file__).resolve().parents[2]
    text = " ".join(path.read_text(encoding="utf-8") for path in root.glob("docs/*.md"))
    every = sorted({word for word in re.findall(r"[^\W_]+", text) if len(word) < 60})
    every += ["ies", "skies", "naïve", "Übung", "agreed", "hopping", "electricity", "наука", "the"]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(
            "CREATE VIRTUAL TABLE t USING fts5(x, tokenize='porter unicode61 remove_diacritics 2')"
        )
        database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, 'instance')")
        rows = ((number, word) for number, word in enumerate(every))
        database.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", rows)
        indexed = dict(database.execute("SELECT doc, term FROM v"))
    with Run(told_run) as run:
        see(driver, write_page(run, told_run / "pages" / "told.html"))
    stemmed = driver.execute_script(
        "return arguments[0].map((word) => decodeURIComponent(escape(wordsOf(word).at(-1).stem)))",
        every,
    )
    assert len(every) > 2000
    assert dict(enumerate(stemmed)) == indexed


def test_the_first_tile_says_what_happened_and_lanes_show_when(driver, told_run, tmp_path: Path):
    with Run(told_run) as run:
        see(driver, write_page(run, told_run / "pages" / "told.html"))
    tile = driver.find_element(By.ID, "overview")
    assert "Power tool (Drill) 2× at 0:03, 0:20" in tile.text
    assert tile.rect["y"] < driver.find_element(By.ID, "totals").rect["y"]
    lanes = [each.text for each in driver.find_elements(By.CSS_SELECTOR, ".lane .name")]
    assert lanes[:2] == ["Drill", "Power tool"]
    bar = driver.find_element(By.CSS_SELECTOR, ".lane .track button")
    track = driver.find_element(By.CSS_SELECTOR, ".lane .track")
    assert (bar.rect["x"] - track.rect["x"]) / track.rect["width"] == pytest.approx(
        20 / 60, abs=0.01
    )
    assert driver.save_screenshot(str(tmp_path / "overview.png"))


def test_answers_that_say_the_same_are_folded_and_can_be_unfolded(driver, tmp_path: Path):
    with Run(tell_many(tmp_path / "run", 12, same=range(3, 9))) as run:
        see(driver, write_page(run, tmp_path / "folded.html"))
    assert len(cards(driver)) == 12 - 5
    button = driver.find_element(By.CSS_SELECTOR, ".fold")
    assert button.text == "The same for 1 min 24 s (5 more picks)"
    driver.execute_script("arguments[0].click()", button)
    assert len(cards(driver)) == 12
    driver.execute_script("arguments[0].click()", button)
    driver.find_element(By.ID, "search").send_keys("bench")
    assert len(cards(driver)) == 6  # what is looked for is not hidden


def test_a_card_tells_what_is_known_where_no_model_was_asked(driver, tmp_path):
    hostile = "<img src=x onerror=alert(1)>"
    entries = [
        EvidenceEntry(Span(2.0, 6.0), "heard", "Hammer", 0.91, "yamnet track"),
        EvidenceEntry(Span(5.0, 6.0), "said", hostile, 0.8, "whisper-base"),
        EvidenceEntry(Span(4.0, 8.0), "read", "EXIT 42", 0.98, "pp-ocr"),
        EvidenceEntry(Span(4.0, 8.0), "seen", "cup", 0.7, "efficientdet-lite0"),
        EvidenceEntry(Span(20.0, 22.0), "heard", "Drill", 0.6, "yamnet track"),
    ]
    with open_run(tmp_path, tags={1: ("Hammer", "loud")}) as ledger:
        ledger.keep_evidence("a", entries, kinds=["heard", "said", "read", "seen"])
        with Run(ledger.folder) as run:
            page = write_page(run, tmp_path / "report.html")
    see(driver, page)
    first, second = driver.find_elements(By.CSS_SELECTOR, ".card")
    lines = first.find_element(By.CSS_SELECTOR, ".evidence").text.splitlines()
    assert lines == [
        *("heard", "Hammer 91 % yamnet"),
        *("said", f"{hostile} 80 % whisper-base"),
        *("read", "EXIT 42 98 % pp-ocr"),
        *("seen", "cup 70 % efficientdet-lite0"),
    ]
    assert "Caption not asked" not in first.text and "Caption not asked" in second.text
    shown = first.find_elements(By.CSS_SELECTOR, ".tags li")
    assert [tag.text for tag in shown] == ["loud"], "a sound is told once"


def test_a_run_without_a_model_is_found_by_what_its_cards_tell(driver, tmp_path):
    """
    0   4   8   12  16  20
    ·   ├ 1 ┤   ├ 3 ┤           picked
          ├─┤         ├┤        a saw is heard, a drill for less than a second
    """
    entries = [
        EvidenceEntry(Span(6.0, 8.0), "heard", "Sawing", 0.91, "yamnet track"),
        EvidenceEntry(Span(18.1, 18.9), "heard", "Drill", 0.6, "yamnet track"),
    ]
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.keep_evidence("a", entries, kinds=["heard"])
        picks = run.picks("a")
    with Run(tmp_path, PLAN | {"model": "tags"}) as ledger, Run(ledger.folder) as run:
        ledger.choose("a", picks)
        run.refresh()
        page = write_page(run, tmp_path / "report.html")
    see(driver, page)
    tiles = driver.find_element(By.ID, "totals").text
    assert "Windows picked" in tiles and "no model asked" in tiles
    assert "Calls answered" not in tiles and "Tokens" not in tiles
    for typed, found, moment in (
        ("saw", 1, "0:06 – 0:08\nheard: Sawing (91 %)"),
        ("drill", 0, "0:18\nheard: Drill (60 %)"),  # in no picked window
    ):
        driver.find_element(By.ID, "search").send_keys(typed)
        assert len(cards(driver)) == found
        (told,) = driver.find_elements(By.CSS_SELECTOR, ".moments li")
        assert told.text == moment
        driver.find_element(By.ID, "search").send_keys(Keys.ESCAPE)
