"""What happened, in a few lines."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from drawing import SHORT
from earmark.captioning.request import Answer
from earmark.cli.app import app
from earmark.evidence.evidence_entry import SOUND_TRACK, EvidenceEntry
from earmark.grid import Windows
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import CallRow, RecordingRow
from earmark.ledger.run_reader import Run
from earmark.reporting.run_overview import (
    SOUNDS_MEANT,
    fold_repeats,
    overview,
    seen_moments,
    total_lines,
)
from earmark.selection.pick import explain
from earmark.timeline import Span, Track

HOUR = 3600.0


def heard(start: float, end: float, name: str) -> EvidenceEntry:
    return EvidenceEntry(Span(start, end), "heard", name, 0.8, SOUND_TRACK)


def listen(ledger: Ledger, name: str, *, loud: tuple[int, ...] = ()) -> Windows:
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
    with Ledger(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        listen(ledger, "a quiet one")
        windows = listen(ledger, "b", loud=(10, 11, 12, 500))
        sounds = [heard(40.0, 48.0, "Drill"), heard(600.0, 608.0, "Power tool")]
        sounds += [heard(2000.0, 2004.0, "Drill")]
        speech = [heard(100.0, 110.0, "Speech"), heard(130.0, 140.0, "Conversation")]
        ledger.keep_evidence("b", [*sounds, *speech], kinds=["heard"], origin=SOUND_TRACK)
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
    assert lines["Busiest"][0] == "0:00 – 5:00"
    assert lines["Activities"] == (
        "0:40 A drill turns.",
        "0:44 – 1:00 A bench, nobody there.",
        "1:00 A hand waves.",
    )
    # Windows: loud 3 and 1, in which both drillings lie; the tool 2; speech 3 and 3.
    assert told.active == 4 * (3 + 1 + 2 + 3 + 3)
    assert dict(quiet.lines()) == {
        "Active": ("0 s of 1 h 0 min",),
        "Heard": ("nothing that has a name",),
    }


def test_two_remarks_of_a_short_recording_are_not_one_long_talk(tmp_path):
    with Ledger(tmp_path / "run", {"model": "m", "sounds": "yamnet"}) as ledger:
        ledger.add(RecordingRow("c", "/cams/c.mp4", 90.0, 1000))
        speech = [heard(10.0, 16.0, "Speech"), heard(50.1, 50.4, "Speech")]
        ledger.keep_evidence("c", speech, kinds=["heard"], origin=SOUND_TRACK)
    with Run(tmp_path / "run") as run:
        (told,) = overview(run)
    assert dict(told.lines())["Speech"] == ("0:10 – 0:16", "0:50"), "a word within a second"


def look(folder, seen: dict[int, bool], meant: list[str]) -> tuple[Span, ...]:
    """When `find` saw a drill, by the answers of windows; drillings are heard at 2:01 and 5:00."""
    with Ledger(folder, {"find": "a drill"}) as ledger:
        windows = listen(ledger, "a")
        sounds = [heard(121.0, 130.5, "Drill"), heard(122.0, 140.0, "Rain")]
        sounds += [heard(300.0, 308.0, "Drill")]
        ledger.keep_evidence("a", sounds, kinds=["heard"], origin=SOUND_TRACK)
        ledger.note(f"{SOUNDS_MEANT}a drill", json.dumps(meant))
        picks = explain(windows, np.array(sorted(seen)), "{0} {1}".format)
        ledger.choose("a", picks)
        for pick in picks:
            call = CallRow(f"c{pick.window}", "a", pick.span, "m")
            ledger.unanswered([call])
            ledger.begin(call)
            ledger.keep(call, Answer("so", "m", data={"seen": seen[pick.window]}))
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
    assert told["Active"][0].endswith(" of 2 h 0 min")
    assert told["Heard"] == ("Power tool 3× in 1 recording",)
    assert told["Speech"] == ("in 1 recording",)
    assert "Found" not in told
    look(tmp_path / "seen", {31: True, 75: True, 100: False}, ["Drill"])
    with Run(tmp_path / "seen") as run:
        assert dict(total_lines(overview(run)))["Found"] == ("“a drill” 2× in 1 recording",)
    assert list(total_lines([])) == []


def test_the_command_says_the_same(folder):
    said = CliRunner().invoke(app, ["summary", str(folder)])
    assert said.exit_code == 0
    assert said.stdout.splitlines()[0] == "b.mp4"
    assert "  Heard      Power tool (Drill) 3× at 0:40, 10:00, 33:20" in said.stdout.splitlines()
    plain = json.loads(CliRunner().invoke(app, ["summary", str(folder), "--json"]).stdout)
    assert [each["active"] for each in plain] == [48.0, 0.0]


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
