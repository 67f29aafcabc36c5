"""What happened, in a few lines."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from drawing import SHORT
from earmark import Span, Track
from earmark.captioning.request import Answer
from earmark.cli.app import app
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.grid import Windows
from earmark.report.run_overview import (
    SOUNDS_MEANT,
    Activity,
    fold_repeats,
    overview,
    seen_moments,
    summarise_run,
    total_lines,
)
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


def test_the_recording_with_something_comes_first_and_tells_it(folder):
    with Run(folder) as run:
        told, quiet = overview(run)
    assert (told.name, quiet.name) == ("b.mp4", "a quiet one.mp4")
    lines = dict(told.lines())
    assert lines["Heard"] == ("Power tool (Drill) 3× at 0:40, 10:00, 33:20",)
    assert lines["Speech"] == ("1:40 – 2:20",)
    assert "Busiest" not in lines, "ten seconds are no stretch"
    assert lines["Activities"] == (
        "0:40 A drill turns.",
        "0:44 – 1:00 A bench, nobody there.",
        "1:00 A hand waves.",
    )
    # Windows: loud 3 and 1, in which both drillings lie; the tool 2; speech 3 and 3.
    assert told.louder == 4 * (3 + 1 + 2 + 3 + 3)
    assert lines["Louder"] == ("48 s of 1 h (12 dB above the background, or a named sound)",)
    assert dict(quiet.lines()) == {
        "Heard": ("no named sound",),
        "Louder": ("0 s of 1 h (12 dB above the background, or a named sound)",),
    }


@pytest.mark.parametrize("busy", [20, 60, 300])
def test_the_busiest_stretches_are_together_no_longer_than_what_is_active(tmp_path, busy):
    """So many windows of work in the middle of an hour, and one at its end."""
    with Run(tmp_path, {"model": "m"}) as ledger:
        listen(ledger, "a", loud=(*range(400, 400 + busy), 850))
        with Run(tmp_path) as run:
            (told,) = overview(run)
    assert told.active is not None and told.busiest
    assert sum(span.duration for span in told.busiest) <= told.active
    assert all(1600 <= span.start <= 1600 + 4 * busy for span in told.busiest)


@pytest.mark.parametrize(
    ("drawn", "silent"),
    [
        ("qqLqq.....", ("30:00 – 1:00:00: no sound",)),
        (
            "..qqLqqqq.",
            ("0:00 – 12:00: no sound", "54:00 – 1:00:00: no sound"),
        ),
        ("qqLq..qqqq", None),
    ],
)
def test_where_there_is_no_sound_nothing_is_made_of_it(tmp_path, drawn, silent):
    """q quiet, L loud, . no sound: each a tenth of an hour."""
    levels = {"q": -60.0, "L": -20.0, ".": -100.0}
    level = Track(np.repeat([levels[each] for each in drawn], 360), hop=1.0)
    rates = np.full(900, 0.001)
    rates[200:205] = 1.0
    with Run(tmp_path, {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a.mp4", HOUR, 1000))
        ledger.hear("a", Windows(4.0, HOUR, rates, rates, rates, SHORT), key="k", level=level)
        with Run(tmp_path) as run:
            (told,) = overview(run)
    lines = dict(told.lines())
    assert lines.get("Silent") == silent
    sounding = {"qqLqq.....": "30 min", "..qqLqqqq.": "42 min"}.get(drawn, "1 h")
    assert f"of {sounding}," in lines["Active"][0]
    assert lines["Louder"][0].startswith(f"6 min of {sounding} ("), "the quiet is that of the sound"


def test_a_click_in_a_second_of_silence_is_told(tmp_path):
    level = Track(np.array([-100.0, -100.0, -20.0, -100.0, -100.0]), hop=0.2)
    one = np.ones(1)
    with Run(tmp_path, {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a\nb.mp4", 1.0, 1000))
        ledger.hear("a", Windows(4.0, 1.0, one, one, one, SHORT), key="k", level=level)
    said = CliRunner().invoke(app, ["show", str(tmp_path)], catch_exceptions=False).stdout
    assert said.startswith("'a\\nb.mp4'\n"), "a name is one line"
    assert "of 1 s, estimated from the sound" in said
    assert "Silent" not in said


def test_no_more_is_active_or_louder_than_has_sound(tmp_path):
    """Two clicks in three windows, of which the sound is four seconds: actions would go on."""
    level = Track(np.array([-100.0] * 3 + [-20.0] + [-60.0] * 2 + [-20.0] + [-100.0] * 5), hop=1.0)
    rates = np.array([1.5, 0.9, 0.6])
    with Run(tmp_path, {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a.mp4", 12.0, 1000))
        ledger.hear("a", Windows(4.0, 12.0, rates, rates, rates, SHORT), key="k", level=level)
        with Run(tmp_path) as run:
            (told,) = overview(run)
    assert told.heard_for == 4.0
    assert told.active is not None and told.active <= 4.0
    assert told.louder == 4.0


def test_a_sound_is_told_in_one_family_and_by_its_first_name(tmp_path):
    names = ["Animal", "Crow", "Caw", "Caw", "Drill", "Drill", "Dental drill, dentist's drill"]
    sounds = [heard(20.0 * place, 20.0 * place + 3, name) for place, name in enumerate(names)]
    with Run(tmp_path, {"model": "m", "sounds": "yamnet"}) as ledger:
        listen(ledger, "a")
        ledger.keep_evidence("a", sounds, kinds=["heard"], origin="mn04 track")
        with Run(tmp_path) as run:
            (told,) = overview(run)
    assert dict(told.lines())["Heard"] == (
        "Animal (Caw, Crow) 4× at 0:00, 0:20, 0:40, 1:00",
        "Power tool (Drill, Dental drill) 3× at 1:20, 1:40, 2:00",
    )
    assert told.sounds[1].kinds == ("Drill", "Dental drill, dentist's drill"), (
        "in full for machines"
    )


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
            told += overview(run)
    busy, rare, flat = told
    assert busy.active == pytest.approx(drawn, rel=0.03)
    assert rare.active is not None and 0 < rare.active < 4 < rare.louder == 300
    assert dict(rare.lines())["Active"] == ("about 3 s of 6 min 40 s, estimated from the sound",)
    assert rare.busiest == () and busy.busiest and (flat.active, flat.louder) == (None, 300)


def test_two_remarks_of_a_short_recording_are_not_one_long_talk(tmp_path):
    with Run(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        ledger.add(RecordingRow("c", "/cams/c.mp4", 90.0, 1000))
        speech = [heard(10.0, 16.0, "Speech"), heard(50.1, 50.4, "Speech")]
        ledger.keep_evidence("c", speech, kinds=["heard"], origin="mn04 track")
    with Run(tmp_path / "run") as run:
        (told,) = overview(run)
    assert dict(told.lines())["Speech"] == ("0:10 – 0:16", "0:50"), "a word within a second"


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
        (told,) = overview(run)
        assert told.sought is not None and told.sought.seen == seen_moments(run, "a")
        return seen_moments(run, "a")


def test_a_moment_that_was_seen_lasts_as_long_as_the_sound_that_is_meant_in_it(tmp_path):
    yes = {31: True, 75: False, 100: True}  # windows of four seconds
    lone = Span(400.0, 404.0)
    assert look(tmp_path / "a", yes, ["Drill"]) == (Span(121.0, 130.5), lone)
    assert look(tmp_path / "b", yes, []) == (Span(124.0, 128.0), lone)
    assert look(tmp_path / "c", {30: True, 32: True}, ["Drill"]) == (Span(120.0, 132.0),)
    assert look(tmp_path / "d", {30: False}, ["Drill"]) == ()


def test_many_recordings_are_told_together(folder, tmp_path):
    with Run(folder) as run:
        told = dict(total_lines(overview(run)))
    assert told["Active"] == ("about 10 s of 1 h, estimated from the sound",)
    assert told["Louder"][0].startswith("48 s of 2 h (")
    assert told["Heard"] == ("Power tool 3× in 1 recording",)
    assert told["Speech"] == ("in 1 recording",)
    assert "Found" not in told
    look(tmp_path / "seen", {31: True, 75: True, 100: False}, ["Drill"])
    with Run(tmp_path / "seen") as run:
        assert dict(total_lines(overview(run)))["Found"] == ("“a drill” 2× in 1 recording",)
    assert list(total_lines([])) == []


def test_a_list_of_runs_tells_each_in_a_line(folder, tmp_path):
    with Run(folder, {"model": "m", "sounds": "yamnet"}) as ledger:
        rain = EvidenceEntry(Span(0.0, 4.0), "heard", "Rain", 0.8, "yamnet")  # of a pick alone
        ledger.keep_evidence("b", 9 * [rain], kinds=["heard"], origin="yamnet")
    with Run(folder) as run:
        heard = "Heard Drill; Conversation; Power tool; Speech"
        assert summarise_run(run) == f"{heard} · Seen first, at 0:40: A drill turns."
    look(tmp_path / "seen", {31: True}, ["Drill"])
    with Run(tmp_path / "seen") as run:
        assert summarise_run(run) == "Looked for “a drill” · Heard Drill; Rain"
    with Run(tmp_path / "empty", {"model": "m"}) as ledger, Run(ledger.folder) as run:
        assert summarise_run(run) == ""


def test_the_command_says_the_same(folder):
    said = CliRunner().invoke(app, ["show", str(folder)])
    assert said.exit_code == 0
    assert said.stdout.splitlines()[0] == "b.mp4"
    assert "  Heard      Power tool (Drill) 3× at 0:40, 10:00, 33:20" in said.stdout.splitlines()
    plain = json.loads(CliRunner().invoke(app, ["show", str(folder), "--format", "json"]).stdout)
    assert [each["louder"] for each in plain] == [48.0, 0.0]
    assert plain[0]["active"] > 0 and plain[1]["active"] is None, "a flat score tells nothing"


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


@pytest.mark.parametrize(
    ("more", "said"), [(0, None), (1, "and 1 other sound"), (3, "and 3 other sounds")]
)
def test_what_is_left_out_is_counted(tmp_path, more, said):
    names = ["Drill", "Saw", "Rain", "Dog", "Bell", "Glass", "Typing", "Ping", "Rub", "Crow", "Tap"]
    with Run(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        ledger.add(RecordingRow("c", "/cams/c.mp4", 900.0, 1000))
        sounds = [heard(50.0 * n, 50.0 * n + 1, name) for n, name in enumerate(names[: 8 + more])]
        ledger.keep_evidence("c", sounds, kinds=["heard"], origin="mn04 track")
    with Run(tmp_path / "run") as run:
        (told,) = overview(run)
    assert dict(told.lines())["Heard"][8:] == ((said,) if said else ())


def test_a_recording_that_was_not_listened_to_says_so(tmp_path):
    with Run(tmp_path / "run", {"model": "m"}) as ledger:
        ledger.add(RecordingRow("a", "/cams/a.mp4", 60.0, 1000))
        with Run(ledger.folder) as run:
            (told,) = overview(run)
    assert [heading for heading, _ in told.lines()] == ["Heard"]
    assert dict(told.lines())["Heard"][0].startswith("not listened to")
    seen = replace(told, activities=(Activity(Span(0.0, 4.0), "A drill turns."),))
    assert [heading for heading, _ in seen.lines()] == ["Activities", "Heard"]
