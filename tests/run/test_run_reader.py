"""What a run says of its recordings, and windows read back from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drawing import windows
from earmark import Span, open_recording
from earmark.evidence.evidence_entry import EvidenceEntry
from earmark.media import Source
from earmark.run.records import RecordingRow
from earmark.run.run import Run
from earmark.run.summaries import read_summaries
from earmark.run.tasks import StoredWindows
from earmark.selection.pick import explain
from making import make_audio, make_video
from small_runs import PLAN, answer, call, fill, open_run, row, said


def test_each_recording_has_its_own_totals(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a mallet falls"})
        ledger.begin(call(3))
        ledger.fail(call(3), "broken")
        ledger.add(row("b"))
        with Run(ledger.folder) as run:
            first, second = read_summaries(run)
    assert (first.recording.id, second.recording.id) == ("a", "b")
    assert (first.totals.recordings, first.totals.picks) == (1, 2)
    assert (first.totals.asked, first.totals.answered, first.totals.failed) == (2, 1, 1)
    assert (first.totals.duration, first.totals.frame_count) == (24.0, 360)
    assert (second.totals.picks, second.totals.asked) == (0, 0)


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path):
    paths = ["/cams/mon/c.mp4", "/cams/tue/c.mp4", "/cams/tue/d.mp4", "/old/tue/c.mp4"]
    with open_run(tmp_path) as ledger:
        for path in paths:
            ledger.add(replace(row(path), path=path))
        with Run(ledger.folder) as run:
            titles = [one.title for one in run.recordings() if one.path in paths]
            alone = [found.title for path in paths if (found := run.recording(path))]
            summed = [one.recording for one in read_summaries(run)]
            summed = [one.title for one in summed if one.path in paths]
    assert titles == alone == summed == ["mon/c.mp4", "cams/tue/c.mp4", "d.mp4", "old/tue/c.mp4"]


def test_how_picks_came_about_is_kept_with_them(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        picks = explain(windows(".9.8.7"), np.array([1]), said)
        ledger.choose("a", picks, rule="rank", forecast=0.25, notes=("holes in the sound",))
        with Run(ledger.folder) as run:
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
        with Run(ledger.folder) as run:
            answered, waiting = run.picks("a")
    assert (answered.round, answered.reason) == kept
    assert (waiting.round, waiting.reason) == (turn or 1, "anew")


def test_one_more_pick_is_kept_beside_the_others_with_what_is_heard(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        plain, tagged = explain(windows(".9.8.7"), np.array([4, 5]), said)
        ledger.add_pick("a", plain)
        ledger.add_pick("a", tagged, ("knocking",))
        ledger.add_pick("a", replace(tagged, reason="again"))
        with Run(ledger.folder) as run:
            kept = {row.window: (row.tags, row.reason) for row in run.picks("a")}
    assert sorted(kept) == [1, 3, 4, 5]
    assert (kept[4], kept[5]) == (((), plain.reason), (("knocking",), tagged.reason))


def test_windows_come_back_as_often_as_they_are_gone_over(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        stored = StoredWindows(ledger, {"a": (1, 3)})
        assert len(stored) == 1
        for _ in range(2):
            (found,) = stored
            np.testing.assert_array_equal(found.scores, windows(".9.8.7").scores)
            assert found.owned == (1, 3)
        assert windows(".9.8.7") not in stored


def test_what_was_not_heard_has_no_windows(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.hear("a", windows(".9.8.7"), key="v1", sound_bytes=50, warnings=["a hole"])
        ledger.add(row("b"))
        with Run(ledger.folder) as run:
            heard = run.heard("a")
            assert (heard.recording, heard.warnings) == ("a", ("a hole",))
            assert len(run.heard("b")) == len(run.heard("nobody")) == 0
            np.testing.assert_array_equal(heard.scores, windows(".9.8.7").scores)


def test_only_what_was_heard_the_same_way_is_known(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.add(replace(row("b"), path=str(tmp_path / "b.mp4")))
        ledger.hear("b", windows(".9"), key="v1", sound_bytes=5, audio_track=2)
        sources = [Source((str(tmp_path / name),)) for name in ("b.mp4", "c.mp4")]
        assert ledger.known(sources, key="v1") == {sources[0]: ("b", 2)}
        assert ledger.known(sources, key="v2") == {}


def test_a_run_before_its_first_plan_has_none(tmp_path: Path):
    Run(tmp_path, PLAN).close()
    with Run(tmp_path) as run:
        assert run.plan() == PLAN and run.opened()
        assert (run.note("nothing"), run.recording("a")) == ("", None)


def test_the_row_of_a_recording_is_what_it_was_described_as(tmp_path: Path):
    path = make_video(tmp_path / "a.mp4", duration=4.0, fps=10)
    recording = open_recording(Source((str(path), str(path)), id="Tuesday"))
    made = RecordingRow.of(recording)
    assert (made.id, made.name, made.duration) == (recording.key, "Tuesday", recording.duration)
    assert (made.frame_rate, made.frame_count) == (pytest.approx(10.0), 80)
    assert made.chapters == ((str(path), 0.0), (str(path), pytest.approx(4.0, abs=0.1)))
    assert RecordingRow.of(open_recording(path)).chapters == ()


def test_a_pick_says_how_its_call_stands(tmp_path: Path):
    """Tags that stand in for an answer are no answer: a model can still be asked."""
    with open_run(tmp_path) as ledger:
        ledger.add_pick("a", explain(windows(".9.8.7"), np.array([5]), said)[0])
        ledger.unanswered([call(5)])
        ledger.begin(call(1))
        ledger.keep(call(1), answer("knocking, wood", kind="tags", model="tags"))
        ledger.begin(call(3))
        ledger.fail(call(3), "broken")
        with Run(ledger.folder) as run:
            tagged, failed, waiting = run.picks("a")
            assert run.last_model() == "", "nobody was asked"
        assert (tagged.status, tagged.answer, tagged.tags) == (
            "not asked",
            None,
            ("knocking", "wood"),
        )
        assert (tagged.is_settled, tagged.heard, tagged.failure) == (True, (), None)
        assert (failed.status, failed.failure, failed.is_settled) == ("failed", "broken", False)
        assert (waiting.status, waiting.failure) == ("not asked", None)
        ledger.begin(call(3))
        ledger.keep(call(3), answer("water runs", model="served as m1", note="cut", data={"a": 1}))
        with Run(ledger.folder) as run:
            kept = run.picks("a")[1].answer
            assert run.last_model() == "m1"
        assert (kept.text, kept.note, kept.data) == (
            "water runs",
            "cut",
            {"a": 1},
        )
        assert (kept.model, kept.prompt_tokens) == ("served as m1", 100)


def test_evidence_is_read_by_kind_and_place(tmp_path: Path):
    entries = [
        EvidenceEntry(Span(1.0, 2.0), "said", "one", 0.5, "w", {"words": [1]}),
        EvidenceEntry(Span(2.0, 3.0), "said", "two", 0.5, "w"),
        EvidenceEntry(Span(2.5, 4.0), "read", "three", 0.5, "r"),
    ]
    with open_run(tmp_path) as ledger:
        ledger.keep_evidence("a", entries, kinds={"said", "read"})
        with Run(ledger.folder) as run:
            assert list(run.evidence("a")) == entries
            assert list(run.evidence("a", kinds=("read",))) == entries[2:]
            assert list(run.evidence("a", within=Span(2.0, 2.5))) == entries[1:2]
            assert run.recordings_with_sound_track() == set()
        ledger.keep_evidence(
            "a",
            [EvidenceEntry(Span(0.0, 1.0), "heard", "Drill", 0.5, "mn04 track")],
            kinds={"heard"},
        )
        with Run(ledger.folder) as run:
            assert run.recordings_with_sound_track() == {"a"}
        ledger.keep_evidence("a", [], kinds={"heard"})
        ledger.keep_speech("a", entries[:1], by="other")
        with Run(ledger.folder) as run:
            assert list(run.evidence("a")) == [entries[0], entries[2]]
            assert (run.transcribed("other"), run.transcribed("w")) == ({"a"}, set())


def test_a_recording_comes_back_as_it_was_described(tmp_path: Path):
    full = RecordingRow(
        "b", "/cams/b.mp4", 24.0, 9, frame_rate=15.0, frame_count=360, name="Tuesday",
        chapters=(("/cams/b.mp4", 0.0), ("/cams/c.mp4", 12.0)), began="2026-01-01T00:00:00",
        marks=(1.5, 2.0), content="b",
        clock_origin="as the camera showed it; --clock sets the zone",
    )  # fmt: skip
    with open_run(tmp_path) as ledger:
        ledger.add(full)
        with Run(ledger.folder) as run:
            assert run.recording("b") == full == run.recordings()[0]
            assert run.recording("nobody") is None
            assert run.note("nothing") == ""
            assert run.opened().startswith("20")


def test_a_recording_of_sound_alone_has_no_frames(tmp_path: Path):
    path = make_audio(tmp_path / "a.wav", duration=2.0, clicks=[1.0])
    told = RecordingRow.of(open_recording(path))
    assert (told.frame_rate, told.frame_count, told.chapters) == (0.0, 0, ())
    film = make_video(tmp_path / "a.mp4", duration=2.0, fps=5)
    assert RecordingRow.of(open_recording(film)).frame_count == 10


def test_reading_that_is_given_up_may_outlive_its_run(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a mallet falls"})
    with Run(tmp_path) as run:
        rows = run.stream("SELECT id FROM recordings UNION SELECT 'another'")
        next(rows)
    rows.close()
