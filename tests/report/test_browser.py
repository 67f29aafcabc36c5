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
from earmark.search.archive_search import as_moments
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
    wait(driver, "return document.querySelector('#made').textContent")


def wait(driver, script: str):
    """The first true thing `script` returns within a few seconds."""
    return WebDriverWait(driver, 120, poll_frequency=0.05).until(
        lambda _: driver.execute_script(script)
    )


def cards(driver, place: str = ".recording") -> list:
    """The moments of the recordings, or of another place, that are on the page."""
    shown = driver.find_elements(By.CSS_SELECTOR, f"{place} .moment")
    return [card for card in shown if card.is_displayed()]


def found(driver) -> list:
    return cards(driver, "#results")


def show_all(driver) -> None:
    for more in driver.find_elements(By.CSS_SELECTOR, ".moment-list > .more"):
        driver.execute_script("while (!arguments[0].hidden) arguments[0].click()", more)


def press(driver, *keys: str) -> None:
    for key in keys:
        driver.switch_to.active_element.send_keys(key)


def test_a_hostile_caption_is_text_and_runs_nothing(driver, pages, tmp_path: Path):
    see(driver, pages.scene)
    show_all(driver)
    captions = [
        each.get_property("textContent")
        for each in driver.find_elements(By.CSS_SELECTOR, ".recording .caption span")
    ]
    assert HOSTILE in captions
    assert driver.execute_script("return [window.ran, document.scripts.length]") == [None, 2]
    failed = [each.text for each in driver.find_elements(By.CLASS_NAME, "failure")]
    assert any("500 <i>and no more</i>" in text for text in failed)
    driver.find_element(By.ID, "search").send_keys("script")  # marking its words is text too
    within = "#results .caption span *:not(mark)"
    assert driver.find_elements(By.CSS_SELECTOR, within) == []
    assert driver.execute_script("return window.ran") is None
    assert driver.save_screenshot(str(tmp_path / "hostile.png"))


def test_nothing_is_asked_of_the_network_and_nothing_complains(driver, pages):
    driver.get_log("browser")
    see(driver, pages.scene)
    asked = driver.execute_script(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
    )
    assert [name for name in asked if not name.startswith(("data:", "file:"))] == []
    assert driver.get_log("browser") == []


def test_search_as_you_type_lists_moments_in_place_of_the_day(driver, pages):
    see(driver, pages.scene)
    box = driver.find_element(By.ID, "search")
    box.send_keys("r")
    assert found(driver)
    box.send_keys("in ta")
    moments = found(driver)
    assert moments and all("tap" in card.text for card in moments)
    count = len(moments)
    told = driver.find_element(By.ID, "found").text
    assert told == (f"{count} moments" if count > 1 else "1 moment")
    assert not driver.find_element(By.ID, "overview").is_displayed()
    marked = {mark.text.lower() for mark in driver.find_elements(By.TAG_NAME, "mark")}
    assert marked == {"rin", "ta"}
    box.send_keys("zzz")
    assert found(driver) == []
    assert driver.find_element(By.CSS_SELECTOR, "#results .none").is_displayed()
    box.send_keys(Keys.ESCAPE)
    assert cards(driver) and driver.find_element(By.ID, "overview").is_displayed()
    assert driver.find_elements(By.TAG_NAME, "mark") == []


def test_the_keyboard_is_enough(driver, pages):
    see(driver, pages.scene)
    press(driver, "/")
    assert driver.switch_to.active_element.get_attribute("id") == "search"
    press(driver, "j", Keys.ESCAPE)  # in the search box a letter is a letter
    driver.execute_script("document.activeElement.blur()")
    press(driver, "j", "j", "k")
    first = driver.find_element(By.CSS_SELECTOR, ".moment .play")
    assert driver.switch_to.active_element == first
    press(driver, Keys.ENTER)
    wait(driver, "return document.querySelector('.moment video')")
    names = driver.execute_script(
        "return [...document.querySelectorAll('button, input, canvas, a')]"
        ".map((e) => e.getAttribute('aria-label') || e.ariaLabel || e.textContent)"
    )
    assert all(names)


def test_a_moment_is_played_in_place(driver, pages, tmp_path: Path):
    see(driver, pages.scene)
    card = cards(driver)[3]
    when = card.find_element(By.CLASS_NAME, "length").text
    minutes, seconds = re.match(r"(\d+):(\d+)", when).groups()
    driver.execute_script("arguments[0].click()", card.find_element(By.CLASS_NAME, "play"))
    wait(driver, "return document.querySelector('.moment video')?.readyState >= 2")
    played = driver.find_element(By.CSS_SELECTOR, ".moment video").get_attribute("src")
    assert played.endswith(f"#t={60 * int(minutes) + int(seconds):.2f}")
    assert card.find_elements(By.TAG_NAME, "video")
    assert driver.save_screenshot(str(tmp_path / "playing.png"))
    other = cards(driver)[0].find_element(By.CLASS_NAME, "play")
    driver.execute_script("arguments[0].click()", other)
    assert len(driver.find_elements(By.CSS_SELECTOR, ".moment video")) == 1, "one at a time"


def test_the_link_of_a_moment_leads_to_it(driver, pages):
    see(driver, pages.scene)
    link = cards(driver)[2].find_element(By.CLASS_NAME, "when").get_attribute("href")
    time = float(link.rpartition(",")[2])
    driver.get("about:blank")
    driver.get(link)
    at = wait(driver, "const v = document.querySelector('.video'); return v && v.currentTime")
    assert at >= time > 0


def test_what_was_marked_on_the_camera_is_shown_and_played(driver, pages):
    see(driver, pages.scene)
    marks = driver.find_elements(By.CSS_SELECTOR, ".marks button")
    assert [mark.text for mark in marks] == ["0:07", "0:31"]
    marks[1].click()
    at = wait(driver, "const v = document.querySelector('.video'); return v && v.currentTime")
    assert at >= 31
    assert "marked on the camera" in driver.find_element(By.CSS_SELECTOR, ".look").text
    see(driver, pages.shift)
    assert not driver.find_elements(By.CSS_SELECTOR, ".marks")


def test_a_moment_of_a_later_chapter_is_played_from_its_file(driver, tmp_path: Path):
    chapters = ((str(tmp_path / "GX010042.MP4"), 0.0), (str(tmp_path / "GX020042.MP4"), 10.0))
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), chapters=chapters))
        see(driver, write_page(run, tmp_path / "report.html"))
    played = driver.execute_script(
        "return pickMoments(run.recordings[0]).map((moment) => host.media(moment))"
    )
    assert [(name.rpartition("/")[2], start) for name, start in played] == [
        ("GX010042.MP4", 4),
        ("GX020042.MP4", 2),
    ]


def test_the_player_goes_on_with_the_next_chapter(driver, tmp_path: Path):
    names = ("GX010042.mp4", "GX020042.mp4")
    paths = [make_video(tmp_path / name, duration=5.0, codec="libx264") for name in names]
    chapters = tuple((str(path), 5.0 * number) for number, path in enumerate(paths))
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), chapters=chapters))
        see(driver, write_page(run, tmp_path / "report.html"))
    driver.execute_script("parts[0].goTo(1)")
    wait(driver, "return document.querySelector('.video').src.includes('GX020042')")


def test_a_video_that_is_gone_is_said_to_be(driver, pages):
    see(driver, pages.shift)
    play = cards(driver)[0].find_element(By.CLASS_NAME, "play")
    driver.execute_script("arguments[0].click()", play)
    said = wait(driver, "return document.querySelector('.shot .failure')?.textContent")
    assert "cannot be played here" in said
    driver.execute_script("parts[0].goTo(3)")
    said = wait(driver, "return document.querySelector('.unplayable').textContent")
    assert "gone.mp4" in said


def test_sound_without_pictures_is_said_to_be(driver, tmp_path: Path):
    options = {"codec": "mjpeg", "pixel_format": "yuvj420p"}
    path = make_video(tmp_path / "old.mp4", duration=12.0, clicks=[1.0], **options)
    with open_run(tmp_path / "run") as ledger, Run(ledger.folder) as run:
        ledger.add(replace(row("a"), path=str(path)))
        see(driver, write_page(run, tmp_path / "report.html"))
    driver.execute_script("parts[0].goTo(3)")
    said = wait(driver, "return document.querySelector('.unplayable').textContent")
    assert "cannot show the video" in said and "old.mp4" in said


def luminance(colour: str) -> float:
    """Of `rgb(r, g, b)`, as contrast is reckoned (WCAG 2)."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(driver, pages, scheme: str, tmp_path: Path):
    see(driver, pages.scene, scheme=scheme)
    show_all(driver)
    colour = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    paper = luminance(driver.execute_script(colour, "body", "backgroundColor"))
    card = luminance(driver.execute_script(colour, ".moment", "backgroundColor"))
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
    wait(driver, "return parts[0].line.data && parts[0].line.lanes.length > 2")
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    cells = driver.execute_script("""
        const { line, recording } = parts[0], lane = line.lanes.find((each) => each.name === "picks");
        const pen = line.canvas.getContext("2d");
        return [...Array(recording.scores.length).keys()].map((index) => {
            const time = (index + 0.5) * recording.window;
            const [red, green, blue] = pen.getImageData(line.x(time), lane.top + lane.high / 2, 1, 1).data;
            const isIn = (pick) => pick.start <= time && time < pick.end;
            return [recording.picks.some(isIn), red - blue > 60];
        });
    """)  # noqa: E501
    assert driver.save_screenshot(str(tmp_path / "scene.png"))
    assert {is_picked for is_picked, _ in cells} == {True, False}
    assert all(is_picked == is_marked for is_picked, is_marked in cells)


def test_hours_of_windows_make_a_short_page(driver, pages, tmp_path: Path):
    see(driver, pages.shift)
    made, tall = driver.execute_script(
        "return [document.querySelectorAll('.moment').length, document.body.scrollHeight]"
    )
    assert made < 60, "the rest is shown on request"
    assert tall < 4000
    assert "deaf.mp4 has no audio stream" in driver.find_element(By.ID, "missed").text
    assert driver.save_screenshot(str(tmp_path / "shift.png"))


@pytest.mark.parametrize("hours", [2, 10])
def test_a_long_recording_has_one_scale_for_all_lanes(driver, tmp_path: Path, hours: int):
    duration = 3600.0 * hours
    sounds = [(600.0, "Drill"), (duration / 2, "Hammer"), (duration - 600, "Drill")]
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        began = "2026-11-16T07:30:00+01:00"
        ledger.add(replace(row("a"), duration=duration, began=began))
        entries = [
            EvidenceEntry(Span(start, start + 60), "heard", name, 0.8, "mn04 track")
            for start, name in sounds
        ]
        ledger.keep_evidence("a", entries, kinds=["heard"])
        page = write_page(run, tmp_path / "report.html")
    for width in (1400, 390):
        see(driver, page, width=width)
        wait(driver, "return parts[0].line.data")
        lanes, canvas, tall, across, ends = driver.execute_script("""
            const { line } = parts[0], root = document.documentElement;
            return [line.canvas.dataset.lanes, line.canvas.clientHeight, document.body.scrollHeight,
                root.scrollWidth - root.clientWidth, [line.x(0) - line.gutter, line.x(line.duration)]];
        """)  # noqa: E501
        assert lanes == "Drill,Hammer", "nothing else is there, and empty lanes are not drawn"
        assert canvas < 200 and tall < 3500 and across <= 0
        assert ends[0] == 0 and ends[1] <= width
        day = driver.find_element(By.CLASS_NAME, "day").text
        assert "07:40:00" in day
        assert "(+01:00)" in driver.find_element(By.ID, "subtitle").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 390])
def test_the_day_is_on_one_screen(driver, told_run, width: int, scheme: str, tmp_path: Path):
    with Run(told_run) as run:
        page = write_page(run, told_run / "pages" / "day.html")
    see(driver, page, width=width, height=1000, scheme=scheme)
    tops = driver.execute_script(
        "return ['.ribbon', '.what', '.facts', '.look .moment'].map((each) =>"
        " document.querySelector(each).getBoundingClientRect().top)"
    )
    assert tops == sorted(tops) or width == 1400, "in this order on a phone"
    assert max(tops) < (900 if width == 1400 else 1400)
    links = driver.find_elements(By.CSS_SELECTOR, ".day .times a, .day .track a, .day .when")
    assert links and all("#t=" in link.get_attribute("href") for link in links)
    across, room = driver.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert across <= room
    assert driver.save_screenshot(str(tmp_path / f"day-{width}-{scheme}.png"))


def test_an_empty_run_says_so(driver, tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        see(driver, write_page(run, tmp_path / "report.html"))
    assert "no recordings yet" in driver.find_element(By.ID, "overview").text


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
            told.append(driver.find_element(By.CLASS_NAME, "facts").text)
            ledger.keep(call(1), answer("a board"))
    assert ["no model was asked" in line for line in told] == [True, False]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run with 20,000 picks."""
    folder = tmp_path_factory.mktemp("large")
    with Run(tell_many(folder / "run", 20_000)) as run:
        return write_page(run, folder / "report.html")


def test_twenty_thousand_picks_are_shown_on_request_and_found(driver, large: Path):
    assert large.stat().st_size < 20e6
    assert list((large.parent / "report_pictures").iterdir())
    driver.get_log("browser")
    see(driver, large)
    wait(driver, "return document.querySelector('.recording .moment img').naturalWidth > 0")
    before = len(cards(driver))
    assert before < 20
    more = driver.find_element(By.CSS_SELECTOR, ".recording .moment-list > .more")
    assert more.text == "Show more of 20,000 moments"
    driver.execute_script("arguments[0].click()", more)
    assert len(cards(driver)) > before
    assert driver.get_log("browser") == []
    box = driver.find_element(By.ID, "search")
    box.send_keys("number 19999")
    (card,) = found(driver)
    assert "number 19999" in card.text


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
    shown = driver.execute_script(
        "return findMoments(run.recordings[0], asQuery(arguments[0])).map((moment) =>"
        " [moment.start, moment.end, moment.kinds.join(),"
        " moment.reasons.map(({kind, text}) => `${kind} ${text}`).sort()])",
        typed,
    )
    with Run(told_run) as run:
        moments = list(as_moments(run, run.search(typed)))
    told = [
        [
            each.span.start,
            each.span.end,
            ",".join(each.kinds),
            sorted(f"{reason.kind} {reason.text}" for reason in each.reasons),
        ]
        for each in moments
    ]
    assert sorted(shown) == sorted(told)
    driver.find_element(By.ID, "search").send_keys(typed)
    assert 0 < len(found(driver)) <= len(moments) or not moments


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


def test_the_day_comes_first_and_lanes_show_when(driver, told_run, tmp_path: Path):
    with Run(told_run) as run:
        see(driver, write_page(run, told_run / "pages" / "told.html"))
    tile = driver.find_element(By.ID, "overview")
    assert "Drill" in tile.text and "2×" in tile.text
    assert tile.rect["y"] < driver.find_element(By.CLASS_NAME, "recording").rect["y"]
    wait(driver, "return parts[0].line.data")
    lanes = driver.execute_script("return parts[0].line.canvas.dataset.lanes").split(",")
    assert lanes == ["sound", "score", "Drill", "speech", "chosen", "answers"]
    spoken = driver.execute_script("return parts[0].line.data.speech.map(({text}) => text)")
    assert spoken == ["hand me the drills, the rinsed ones"], "as in the summary"
    assert driver.save_screenshot(str(tmp_path / "overview.png"))


def test_answers_that_say_the_same_are_one_moment(driver, tmp_path: Path):
    with Run(tell_many(tmp_path / "run", 12, same=range(3, 9))) as run:
        see(driver, write_page(run, tmp_path / "folded.html"))
    show_all(driver)
    assert len(cards(driver)) == 12 - 5
    assert "6×" in cards(driver)[3].text


def test_a_moment_tells_what_is_known_where_no_model_was_asked(driver, tmp_path):
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
    first, _ = cards(driver)
    lines = [line.text for line in first.find_elements(By.CSS_SELECTOR, ".reason")]
    assert lines == [
        "Hammer 91 %",
        f"said {hostile} 80 %",
        "read EXIT 42 98 %",
        "seen cup 70 %",
    ]


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
    assert "Windows chosen" in tiles and "Calls answered" not in tiles
    facts = driver.find_element(By.CLASS_NAME, "facts").text
    assert "2 moments chosen; no model was asked, nothing was spent" in facts
    for typed, when, sure in (("saw", "0:06 – 0:08", "91 %"), ("drill", "0:18", "60 %")):
        driver.find_element(By.ID, "search").send_keys(typed)
        (told,) = found(driver)  # also where no window was chosen
        assert when in told.text and sure in told.text
        driver.find_element(By.ID, "search").send_keys(Keys.ESCAPE)
