"""The day: when work went on, what it was, what is worth a look, cost and gaps."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from drawing import SHORT
from earmark import Span, Track
from earmark.captioning.request import Answer
from earmark.cli.app import app
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.evidence.sound_taste import SoundTaste
from earmark.grid import Windows
from earmark.report.day import fold_repeats, read_day, summarise_run
from earmark.report.find_result import SOUNDS_MEANT, seen_moments
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.selection.pick import explain
from earmark.timeline import merge
from small_runs import CallRow

HOUR = 3600.0


def heard(start: float, end: float, name: str) -> EvidenceEntry:
    return EvidenceEntry(Span(start, end), "heard", name, 0.8, "mn04 track")


def listen(ledger: Run, name: str, *, loud: tuple[int, ...] = ()) -> Windows:
    """An hour of quiet; some of its windows of four seconds are loud."""
    count = round(HOUR / 4)
    scores = np.zeros(count)
    scores[list(loud)] = 1.0
    windows = Windows(4.0, HOUR, scores, (np.arange(count) + 0.5) * 4, scores, SHORT)
    level = Track(np.repeat(np.where(scores > 0, -20.0, -60.0), 4), hop=1.0)
    ledger.add(RecordingRow(name, f"/cams/{name}.mp4", HOUR, 1000))
    ledger.hear(name, windows, key="k", level=level)
    return windows


@pytest.fixture
def folder(tmp_path):
    with Run(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        listen(ledger, "a quiet one")
        windows = listen(ledger, "b", loud=(10, 11, 12, 500))
        sounds = [heard(40.0, 48.0, "Drill"), heard(600.0, 608.0, "Power tool")]
        sounds += [heard(2000.0, 2004.0, "Drill")]
        speech = [heard(100.0, 110.0, "Speech"), heard(130.0, 140.0, "Conversation")]
        ledger.keep_evidence("b", [*sounds, *speech], kinds=["heard"], origin="mn04 track")
        picks = explain(windows, np.arange(10, 16), "{0} {1}".format)
        ledger.choose("b", picks)
        said = ["A drill turns. It is red."] + 4 * ["A bench, nobody there."] + ["A hand waves."]
        for pick, text in zip(picks, said, strict=True):
            call = CallRow(f"c{pick.window}", "b", pick.span, "m")
            ledger.unanswered([call])
            ledger.begin(call)
            ledger.keep(call, Answer(text, "m"))
    return tmp_path / "run"


def days(folder) -> tuple:
    with Run(folder) as run:
        return read_day(run).recordings


def test_the_recording_with_something_comes_first_and_tells_it(folder):
    told, quiet = days(folder)
    assert (told.row.title, quiet.row.title) == ("b.mp4", "a quiet one.mp4")
    lines = list(told.lines())
    assert ("Speech", "1:40–2:20") in lines
    assert [text for heading, text in lines if heading == "Seen"] == [
        "0:40–0:44 A drill turns.",
        "0:44–1:00 A bench, nobody there.",
        "1:00–1:04 A hand waves.",
    ]
    assert dict(lines)["Sounds"] == "Drill 3× (0:40–0:48, 10:00–10:08, 33:20–33:24)"
    assert dict(quiet.lines()) == {"Sounds": "none with a name"}


def test_what_matters_comes_first_and_each_time_is_a_moment(tmp_path):
    """A radio all day and animals that are none do not hide the drill."""
    with Run(tmp_path, {"model": "m"}) as ledger:
        listen(ledger, "a", loud=(100, 101, 200))
        sounds = [heard(0.0, 3400.0, "Music"), heard(500.0, 520.0, "Purr")]
        sounds += [heard(530.0 + 20 * n, 532.0 + 20 * n, "Cricket") for n in range(19)]
        sounds += [heard(400.0, 408.0, "Drill"), heard(402.0, 408.0, "Power tool")]
        sounds += [heard(800.0, 804.0, "Hammer")]
        ledger.keep_evidence("a", sounds, kinds=["heard"], origin="mn04 track")
        with Run(tmp_path) as run:
            day = read_day(run)
            loud = read_day(run, taste=SoundTaste(favour=("music",), ignore=("drill",)))
    assert [line.name for line in day.lines][:2] == ["Drill", "Hammer"]
    assert [moment.span for moment in day.lines[0].moments] == [Span(400.0, 408.0)]
    assert {"Drill", "Hammer"} <= {moment.text for moment in day.moments}
    assert any(span.overlaps(Span(400.0, 408.0)) for span in day.recordings[0].work)
    assert "Drill" not in [line.name for line in loud.lines], "ignored"


def test_names_given_to_one_sound_are_one_line(tmp_path):
    with Run(tmp_path, {"model": "m"}) as ledger:
        listen(ledger, "a")
        sounds = [heard(100.0, 130.0, "Rub"), heard(102.0, 128.0, "Sawing")]
        sounds += [heard(300.0, 310.0, "Drill")]
        ledger.keep_evidence("a", sounds, kinds=["heard"], origin="mn04 track")
        with Run(tmp_path) as run:
            first, second = read_day(run).lines
    assert (first.name, first.also, first.count) == ("Sawing", ("Rub",), 1)
    assert second.name == "Drill"


def test_a_day_has_its_date_times_and_zone_and_each_moment_its_clock(tmp_path):
    began = {"a": "2026-11-16T07:30:00+01:00", "b": "2026-11-16T13:15:00+01:00"}
    with Run(tmp_path, {"model": "m"}) as ledger:
        for name, time in began.items():
            row = RecordingRow(name, f"/cams/{name}.mp4", 600.0, 1000, began=time)
            ledger.add(row)
            ledger.keep_evidence(name, [heard(60.0, 70.0, "Drill")], kinds=["heard"])
        with Run(tmp_path) as run:
            day, other = read_day(run), read_day(run, date="2026-11-17")
    assert day.title == "Monday 16 November 2026, 07:30–13:25 (+01:00)"
    assert [moment.clock for moment in day.moments] == [
        "2026-11-16 07:31:00 +01:00",
        "2026-11-16 13:16:00 +01:00",
    ]
    assert day.days == (("2026-11-16", 2),) and other.recordings == ()
    said = CliRunner().invoke(app, ["show", str(tmp_path)]).stdout
    assert "Drill 2×, 20 s: 07:31:00, 13:16:00" in said


@pytest.mark.parametrize(
    ("drawn", "silent"),
    [
        ("qqLqq.....", "30:00–1:00:00"),
        ("..qqLqqqq.", "0:00–12:00, 54:00–1:00:00"),
        ("qqLq..qqqq", None),
    ],
)
def test_where_there_is_no_sound_is_told(tmp_path, drawn, silent):
    """q quiet, L loud, . no sound: each a tenth of an hour."""
    levels = {"q": -60.0, "L": -20.0, ".": -100.0}
    level = Track(np.repeat([levels[each] for each in drawn], 360), hop=1.0)
    rates = np.full(900, 0.001)
    rates[200:205] = 1.0
    with Run(tmp_path, {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a.mp4", HOUR, 1000))
        ledger.hear("a", Windows(4.0, HOUR, rates, rates, rates, SHORT), key="k", level=level)
    (told,) = days(tmp_path)
    assert dict(told.lines()).get("Silent") == silent


@pytest.mark.parametrize("busy", [20, 60, 300])
def test_work_is_where_the_actions_are(tmp_path, busy):
    """So many windows of work in the middle of an hour."""
    with Run(tmp_path, {"model": "m"}) as ledger:
        listen(ledger, "a", loud=tuple(range(400, 400 + busy)))
    (told,) = days(tmp_path)
    (work,) = told.work
    assert abs(work.start - 1600) < 20 and abs(work.end - 1600 - 4 * busy) < 20


def lasting_draws(rates: np.ndarray, rng: np.random.Generator) -> float:
    """Seconds in which something goes on, once, where so many actions begin in each window."""
    spans = []
    for place, count in enumerate(rng.poisson(rates)):
        starts = (place + rng.random(count)) * 4
        lasts = np.interp(1 - rng.random(count), SHORT.shares[::-1], SHORT.times[::-1])
        spans += [Span(*pair) for pair in zip(starts, np.minimum(starts + lasts, 400), strict=True)]
    return sum(span.duration for span in merge(spans))


def test_what_is_active_is_how_long_the_actions_expected_go_on(tmp_path):
    """However loud it is: 0.8 actions in a loud hour are seconds, and said to be expected."""
    rng = np.random.default_rng(4)
    rates = rng.choice([0.0, 0.1, 0.5, 1.5], 100)
    drawn = np.mean([lasting_draws(rates, rng) for _ in range(400)])
    level = Track(np.where(np.arange(400) < 300, -20.0, -60.0), hop=1.0)
    told = []
    for name, each in (("busy", rates), ("rare", rates * 0.8 / rates.sum()), ("flat", 0 * rates)):
        with Run(tmp_path / name, {"model": "m"}) as ledger, Run(tmp_path / name) as run:
            ledger.add(RecordingRow("a", "/cams/a.mp4", 400.0, 1000))
            windows = Windows(4.0, 400.0, each, each, each, SHORT)
            ledger.hear("a", windows, key="k", level=level)
            told += read_day(run).recordings
    busy, rare, flat = told
    assert busy.active == pytest.approx(drawn, rel=0.03)
    assert rare.active is not None and 0 < rare.active < 4
    assert flat.active is None


def test_two_remarks_of_a_short_recording_are_not_one_long_talk(tmp_path):
    with Run(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        ledger.add(RecordingRow("c", "/cams/c.mp4", 90.0, 1000))
        speech = [heard(10.0, 16.0, "Speech"), heard(50.1, 50.4, "Speech")]
        ledger.keep_evidence("c", speech, kinds=["heard"], origin="mn04 track")
    (told,) = days(tmp_path / "run")
    assert dict(told.lines())["Speech"] == "0:10–0:16, 0:50", "a word within a second"


def look(folder, seen: dict[int, bool], meant: list[str]) -> tuple[Span, ...]:
    """When `find` saw a drill, by the answers of windows; drillings are heard at 2:01 and 5:00."""
    with Run(folder, {"find": "a drill"}) as ledger:
        windows = listen(ledger, "a")
        sounds = [heard(121.0, 130.5, "Drill"), heard(122.0, 140.0, "Rain")]
        sounds += [heard(300.0, 308.0, "Drill")]
        ledger.keep_evidence("a", sounds, kinds=["heard"], origin="mn04 track")
        ledger.set_note(f"{SOUNDS_MEANT}a drill", json.dumps(meant))
        picks = explain(windows, np.array(sorted(seen)), "{0} {1}".format)
        ledger.choose("a", picks)
        for pick in picks:
            call = CallRow(f"c{pick.window}", "a", pick.span, "m")
            ledger.unanswered([call])
            ledger.begin(call)
            is_seen = seen[pick.window]
            ledger.keep(call, Answer("Yes." if is_seen else "No.", "m", data={"seen": is_seen}))
    with Run(folder) as run:
        (told,) = read_day(run).recordings
        assert told.sought is not None and told.sought.seen == seen_moments(run, "a")
        return seen_moments(run, "a")


def test_a_moment_that_was_seen_lasts_as_long_as_the_sound_that_is_meant_in_it(tmp_path):
    yes = {31: True, 75: False, 100: True}  # windows of four seconds
    lone = Span(400.0, 404.0)
    assert look(tmp_path / "a", yes, ["Drill"]) == (Span(121.0, 130.5), lone)
    assert look(tmp_path / "b", yes, []) == (Span(124.0, 128.0), lone)
    assert look(tmp_path / "c", {30: True, 32: True}, ["Drill"]) == (Span(120.0, 132.0),)
    assert look(tmp_path / "d", {30: False}, ["Drill"]) == ()


def test_what_find_saw_comes_first_in_the_day(tmp_path):
    look(tmp_path / "seen", {31: True, 75: True, 100: False}, ["Drill"])
    with Run(tmp_path / "seen") as run:
        day = read_day(run)
    assert next(day.sections()) == ("Found", ["“a drill” 2×"])
    assert [moment.text for moment in day.moments][:2] == ["a drill", "a drill"]


def test_a_list_of_runs_tells_each_in_a_line(folder, tmp_path):
    with Run(folder, {"model": "m", "sounds": "yamnet"}) as ledger:
        rain = EvidenceEntry(Span(0.0, 4.0), "heard", "Rain", 0.8, "yamnet")  # of a pick alone
        ledger.keep_evidence("b", 9 * [rain], kinds=["heard"], origin="yamnet")
    with Run(folder) as run:
        assert summarise_run(run) == (
            "Heard Drill; Power tool; Conversation · Seen first, at 0:40: A drill turns."
        )
    look(tmp_path / "seen", {31: True}, ["Drill"])
    with Run(tmp_path / "seen") as run:
        assert summarise_run(run) == "Looked for “a drill” · Heard Drill; Rain"
    with Run(tmp_path / "empty", {"model": "m"}) as ledger, Run(ledger.folder) as run:
        assert summarise_run(run) == ""


def test_the_command_prints_the_day_and_its_json(folder):
    said = CliRunner().invoke(app, ["show", str(folder)])
    assert said.exit_code == 0
    assert said.stdout.startswith("time of day unknown · 2 recordings, 2 h")
    headings = [line[2:15].strip() for line in said.stdout.splitlines()[1:] if line[2:3].strip()]
    assert headings[:4] == ["Work", "What it was", "Worth a look", "Cost"]
    plain = json.loads(CliRunner().invoke(app, ["show", str(folder), "--format", "json"]).stdout)
    assert [each["name"] for each in plain["recordings"]] == ["b.mp4", "a quiet one.mp4"]
    assert plain["recordings"][1]["active"] is None, "a flat score tells nothing"
    assert plain["lines"][0]["moments"][0]["reasons"][0]["text"] == "Drill"


@pytest.mark.parametrize(
    ("texts", "leaders"),
    [
        (["x y z", "X y, z!", "x y z", "q"], [0, 0, 0, 3]),
        (["x y z", "x y z", "q"], [0, 1, 2]),  # two are shown
        (["x y", "x z", "x w"], [0, 1, 2]),
        (["x", None, "x", "x"], [0, 1, 2, 3]),
        ([None, None, None], [0, 1, 2]),
        ([], []),
    ],
)
def test_only_what_says_the_same_in_a_row_is_folded(texts, leaders):
    assert fold_repeats(texts) == leaders


def test_a_recording_that_was_not_listened_to_says_so(tmp_path):
    with Run(tmp_path / "run", {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a.mp4", 60.0, 1000))
        with Run(ledger.folder) as run:
            day = read_day(run)
    ((heading, text),) = day.recordings[0].lines()
    assert heading == "Sounds" and text.startswith("not listened to")
    assert "1 recording could not be listened to" in day.missing
