"""What a run says of its recordings, and windows read back from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drawing import SHORT, windows
from earmark.ledger.ledger import Ledger
from earmark.ledger.records import RecordingRow
from earmark.ledger.run_reader import Run
from earmark.ledger.stored_windows import StoredWindows
from earmark.media import Source, open_recording
from earmark.selection.pick import explain
from ledger_runs import PLAN, call, fill, open_run, row, said
from making import make_video


def test_each_recording_has_its_own_totals(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a mallet falls"})
        ledger.begin(call(3))
        ledger.fail(call(3), "broken")
        ledger.add(row("b"))
        with ledger.run() as run:
            first, second = run.summaries()
    assert (first.recording.id, second.recording.id) == ("a", "b")
    assert (first.totals.recordings, first.totals.picks) == (1, 2)
    assert (first.totals.asked, first.totals.answered, first.totals.failed) == (2, 1, 1)
    assert (first.totals.duration, first.totals.frame_count) == (24.0, 360)
    assert (second.totals.picks, second.totals.asked) == (0, 0)


def test_how_picks_came_about_is_kept_with_them(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        picks = explain(windows(".9.8.7"), np.array([1]), said)
        ledger.choose("a", picks, rule="rank", forecast=0.25, notes=("holes in the sound",))
        with ledger.run() as run:
            choice = run.choice("a")
    assert (choice.rule, choice.forecast, choice.notes) == ("rank", 0.25, ("holes in the sound",))


@pytest.mark.parametrize(("turn", "kept"), [(2, (1, "first")), (None, (1, "anew"))])
def test_a_pick_that_is_answered_stays_of_its_round(tmp_path: Path, turn, kept):
    """Where there are no rounds there is no earlier one to stay of."""
    with open_run(tmp_path) as ledger:
        picks = explain(windows(".9.8.7"), np.array([1, 3]), said)
        ledger.choose("a", [replace(pick, reason="first") for pick in picks], round=1)
        fill(ledger, {1: "a mallet falls"})
        ledger.choose("a", [replace(pick, reason="anew") for pick in picks], round=turn)
        with ledger.run() as run:
            answered, waiting = run.picks("a")
    assert (answered.round, answered.pick.reason) == kept
    assert (waiting.round, waiting.pick.reason) == (turn or 1, "anew")


def test_one_more_pick_is_kept_beside_the_others_with_what_is_heard(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        plain, tagged = explain(windows(".9.8.7"), np.array([4, 5]), said)
        ledger.add_pick("a", plain)
        ledger.add_pick("a", tagged, ("knocking",))
        ledger.add_pick("a", replace(tagged, reason="again"))
        with ledger.run() as run:
            kept = {row.pick.window: (row.tags, row.pick.reason) for row in run.picks("a")}
    assert sorted(kept) == [1, 3, 4, 5]
    assert (kept[4], kept[5]) == (((), plain.reason), (("knocking",), tagged.reason))


def test_windows_come_back_as_often_as_they_are_gone_over(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        stored = StoredWindows(ledger, "v1", SHORT, ["a"], [(1, 3)])
        assert len(stored) == 1
        for _ in range(2):
            (found,) = stored
            np.testing.assert_array_equal(found.scores, windows(".9.8.7").scores)
            assert found.owned == (1, 3)
        assert stored.read("a").owned == ()
        assert windows(".9.8.7") not in stored
        with pytest.raises(ValueError, match="zip"):
            list(replace(stored, paid=[]))


def test_what_was_heard_is_told_and_what_was_not_is_none(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.hear("a", windows(".9.8.7"), key="v1", sound_bytes=50, warnings=["a hole"])
        ledger.add(row("b"))
        with ledger.run() as run:
            heard = run.heard("a")
            assert heard is not None
            assert (heard.warnings, run.heard("b"), run.heard("nobody")) == (
                ("a hole",),
                None,
                None,
            )
            np.testing.assert_array_equal(heard.scores, windows(".9.8.7").scores)


def test_only_what_was_heard_the_same_way_is_known(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.add(replace(row("b"), path=str(tmp_path / "b.mp4")))
        ledger.hear("b", windows(".9"), key="v1", sound_bytes=5, audio_track=2)
        sources = [Source((str(tmp_path / name),)) for name in ("b.mp4", "c.mp4")]
        assert ledger.known(sources, key="v1") == {sources[0]: ("b", 2)}
        assert ledger.known(sources, key="v2") == {}


def test_a_run_before_its_first_plan_has_none(tmp_path: Path):
    Ledger.open(tmp_path, PLAN).close()
    with Run.open(tmp_path) as run:
        assert run.plan() == PLAN and run.opened()
        assert (run.note("nothing"), run.survival(), run.recording("a")) == ("", None, None)


def test_the_row_of_a_recording_is_what_it_was_described_as(tmp_path: Path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, fps=10)
    recording = open_recording(Source((str(path), str(path)), id="Tuesday"))
    made = RecordingRow.of(recording)
    assert (made.id, made.name, made.duration) == (recording.key, "Tuesday", recording.duration)
    assert (made.frame_rate, made.frame_count) == (pytest.approx(10.0), 80)
    assert made.chapters == ((str(path), 0.0), (str(path), pytest.approx(4.0, abs=0.1)))
    assert RecordingRow.of(open_recording(path)).chapters == ()
