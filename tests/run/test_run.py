from __future__ import annotations

import math
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from drawing import windows
from earmark import Span, Track
from earmark.errors import RunError
from earmark.run.database import RESERVE_BYTES
from earmark.run.records import PickFrames
from earmark.run.run import Run
from earmark.run.tasks import StoredWindows
from earmark.selection.pick import explain
from small_runs import PLAN, CallRow, answer, call, cell, chosen_part, fill, open_run, row, said


def test_an_answer_is_asked_for_once(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        assert ledger.unanswered([call(1), call(3)]) == [call(1), call(3)]
        ledger.begin(call(1))
        ledger.keep(call(1), answer("a hand planes a board"))
    with Run(tmp_path, PLAN) as ledger:
        assert ledger.unanswered([call(1), call(3)]) == [call(3)]
        assert ledger.interrupted == 0


def test_tags_made_again_are_no_call_in_doubt(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
    with Run(tmp_path, PLAN) as ledger:
        assert ledger.interrupted == 1
        ledger.begin(call(1))
        ledger.keep(call(1), replace(answer("loud"), kind="tags"))
        with Run(ledger.folder) as run:
            assert (run.totals().interrupted, run.totals().asked) == (0, 0)


def test_a_failed_call_is_a_row_with_its_reason_and_may_be_asked_again(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.fail(call(1), "the server said 500")
        assert ledger.unanswered([call(1)]) == [call(1)]
        with Run(ledger.folder) as run:
            (failed, waiting) = run.picks("a")
            assert (failed.status, failed.failure, failed.answer) == (
                "failed",
                "the server said 500",
                None,
            )
            assert (waiting.status, waiting.failure) == ("not asked", None)
            assert (run.totals().failed, run.totals().asked) == (1, 1)
        ledger.begin(call(1))
        ledger.keep(call(1), answer("a board"))
        with Run(ledger.folder) as run:
            assert run.picks("a")[0].failure is None
            assert (run.totals().failed, run.totals().asked, run.totals().answered) == (0, 2, 1)


def test_a_complaint_that_comes_late_takes_no_answer_away(tmp_path: Path):
    """The error file of a batch, read after another batch has answered."""
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        fill(ledger, {1: "a board"})
        ledger.fail(call(1), "the batch expired")
        assert ledger.unanswered([call(1)]) == []
        assert (run.picks("a")[0].status, run.totals().failed) == ("answered", 0)


def test_calls_in_flight_at_a_crash_are_known_and_counted(tmp_path: Path):
    ledger = open_run(tmp_path)
    ledger.begin(call(1))
    ledger.begin(call(3))
    ledger.keep(call(3), answer("a drill"))
    ledger.close()  # what a killed process leaves: one call begun and not answered
    with Run(tmp_path, PLAN) as again:
        assert again.interrupted == 1
        assert again.unanswered([call(1), call(3)]) == [call(1)]
        again.begin(call(1))
        again.keep(call(1), answer("a board"))
    with Run(tmp_path, PLAN) as third, Run(third.folder) as run:
        assert third.interrupted == 0
        assert (run.totals().interrupted, run.totals().asked) == (1, 3)


def test_a_larger_budget_asks_only_the_new_windows(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a board", 3: "a drill"})
    with Run(tmp_path, PLAN | {"budget": 3}) as ledger:
        ledger.choose("a", explain(windows(".9.8.7"), np.array([1, 3, 5]), said))
        assert ledger.unanswered([call(1), call(3), call(5)]) == [call(5)]
        with Run(ledger.folder) as run:
            assert [pick.status for pick in run.picks("a")] == ["answered", "answered", "not asked"]
            assert run.plan()["budget"] == 3


def test_a_plan_that_made_no_choice_has_the_last_picks_that_were_no_search(tmp_path: Path):
    """Chosen under one plan, another, the first again, then searched by `find`."""
    other = PLAN | {"budget": 1}
    for plan, places, rule in (
        (PLAN, [1, 3], "coverage"),
        (other, [5], "coverage"),
        (PLAN, [1, 3], "coverage"),
        (PLAN | {"find": "a saw"}, [2], "find"),
    ):
        with Run(tmp_path, plan) as ledger:
            ledger.add(row("a"))
            ledger.hear("a", windows(".9.8.7"), key="v1")
            ledger.choose("a", explain(windows(".9.8.7"), np.array(places), said), rule=rule)
    for plan, expected in ((PLAN | {"budget": 4}, [1, 3]), (other, [5])):
        with Run(tmp_path, plan) as ledger, Run(tmp_path) as run:
            ledger.keep_last_picks()
            ledger.keep_last_picks()
            assert [pick.window for pick in run.picks("a")] == expected
            assert run.choice("a").rule == "coverage"


def test_another_prompt_asks_again_and_keeps_the_old_beside_the_new(tmp_path: Path):
    def other(window: int) -> CallRow:
        return call(window, prompt="in French", model="m2")

    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a board", 3: "a drill"})
    with Run(tmp_path, PLAN | {"prompt": "in French"}) as ledger:
        ledger.choose("a", explain(windows(".9.8.7"), np.array([1, 3]), said))
        assert ledger.unanswered([other(1), other(3)]) == [other(1), other(3)]
        ledger.begin(other(1))
        ledger.keep(other(1), answer("une planche", model="m2"))
        with Run(ledger.folder) as run:
            first, second = run.picks("a")
            assert first.answer is not None
            assert (first.answer.text, second.status) == ("une planche", "not asked")
            kept = [kept.text for kept in run.answers("a", cell(1))]
            assert sorted(kept) == ["a board", "une planche"]
    with Run(tmp_path, PLAN) as ledger, Run(ledger.folder) as run:
        assert [pick.answer and pick.answer.text for pick in run.picks("a")] == [
            "a board",
            "a drill",
        ]


def test_what_was_heard_comes_back_to_the_last_bit(tmp_path: Path):
    heard = windows("1937..2")
    heard.scores[:] = np.random.default_rng(0).random(7)
    with Run(tmp_path, PLAN) as ledger:
        ledger.add(row("a"))
        ledger.hear("a", heard, key="v1", level=Track(np.zeros(100)))
        (again,) = StoredWindows(ledger, {"a": ()})
    assert (again.length, again.duration) == (heard.length, heard.duration)
    for name in ("scores", "instants", "rates"):
        assert getattr(again, name).tobytes() == getattr(heard, name).tobytes()


def test_a_resumed_run_equals_an_unbroken_one(tmp_path: Path):
    answers = {1: "a board", 3: "a drill"}
    with open_run(tmp_path / "whole") as ledger:
        fill(ledger, answers)
    for window, text in answers.items():
        with open_run(tmp_path / "broken") as ledger:
            for left in ledger.unanswered([call(1), call(3)])[:1]:
                assert left == call(window)
                fill(ledger, {window: text})
    assert _told(tmp_path / "whole") == _told(tmp_path / "broken")


def _told(folder: Path) -> object:
    with Run(folder) as run:
        picks = [(chosen_part(row), row.status, row.answer) for row in run.picks("a")]
        return picks, run.totals(), run.plan()


def test_tags_are_found_and_never_passed_off_as_a_caption(tmp_path: Path):
    with open_run(tmp_path, tags={1: ["hammering", "metal"]}) as ledger:
        tagged = call(3, model="tags")
        ledger.unanswered([tagged])
        ledger.begin(tagged)
        ledger.keep(tagged, answer("water, hiss", model="tags", kind="tags"))
        with Run(ledger.folder) as run:
            first, second = run.picks("a")
            assert (first.tags, second.tags) == (("hammering", "metal"), ("water", "hiss"))
            assert [first.status, second.status] == ["not asked", "not asked"]
            assert (run.totals().answered, run.totals().asked) == (0, 0)
            assert [(hit.window, hit.caption) for hit in run.search("water")] == [(3, "")]
            assert run.search("water")[0].tags == ("water", "hiss")


def test_search_finds_words_of_captions_and_tags(tmp_path: Path):
    with open_run(tmp_path, tags={1: ["hammering"], 3: ["water"]}) as ledger:
        ledger.keep_frames(
            "a",
            PickFrames(cell(1), thumbnail=b"jpeg", frames_decoded=4, frames_sent=1, bytes_read=9),
        )
        fill(ledger, {1: "Une scie coupe la planche 'rouge'; DROP TABLE answers", 3: "a sink"})
        with Run(ledger.folder) as run:
            assert [hit.window for hit in run.search("hammer")] == [1]  # stem of a tag
            assert [hit.window for hit in run.search("planche hammering")] == [1]  # caption and tag
            assert [hit.window for hit in run.search("pla")] == [1]  # as you type
            assert [hit.window for hit in run.search("sink water")] == [3]
            assert run.search("sink hammer") == run.search("") == run.search('" "') == []
            for odd in ['"', "a AND", "NEAR(", "caption:", "*", "x'--", "(", "^a"]:
                run.search(odd)
            (hit,) = run.search("scie")
            assert (hit.span.start, hit.span.end) == (4.0, 8.0)
            assert run.thumbnail("a", hit.span) == b"jpeg"
            assert run.totals().frames_decoded == 4


def test_a_pick_that_cannot_be_stored_is_an_error_and_not_left_out(tmp_path: Path):
    (pick,) = explain(windows(".9.8.7"), [1], said)
    with open_run(tmp_path) as ledger:
        for store in (lambda odd: ledger.choose("a", [odd]), lambda odd: ledger.add_pick("a", odd)):
            with pytest.raises(RunError, match="NOT NULL"):
                store(replace(pick, score=math.nan))


def test_another_grid_keeps_its_own_times_tags_and_pictures(tmp_path: Path):
    with open_run(tmp_path, tags={1: ["planing"]}) as ledger:
        ledger.keep_frames("a", PickFrames(cell(1), thumbnail=b"of 4-8"))
        fill(ledger, {1: "a board"})
    wide = windows("9.7", length=8.0)
    with Run(tmp_path, PLAN | {"window": 8.0}) as ledger, Run(ledger.folder) as run:
        ledger.hear("a", wide, key="v2")
        span = cell(1, length=8.0)
        ledger.choose("a", explain(wide, [1], said), tags={span: ["sawing"]})
        ledger.keep_frames("a", PickFrames(span, thumbnail=b"of 8-16"))
        (hit,) = run.search("board")
        assert (hit.span, hit.tags) == (cell(1), ("planing",))
        (hit,) = run.search("sawing")
        assert (hit.span, hit.tags) == (span, ("sawing",))
        pictures = [run.thumbnail("a", window) for window in (cell(1), span)]
        assert pictures == [b"of 4-8", b"of 8-16"]
        assert run.answers("a", span) == []
    with Run(tmp_path, PLAN) as ledger, Run(ledger.folder) as run:
        first, _ = run.picks("a")
        assert (first.tags, run.thumbnail("a", first.span)) == (("planing",), b"of 4-8")


def test_a_window_may_lie_anywhere(tmp_path: Path):
    """Two picks that overlap, neither on the grid."""
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        picks = [
            replace(pick, window=None, start=pick.start / 8 + 3.7, end=pick.start / 8 + 7.7)
            for pick in explain(windows(".9.8.7"), [1, 3], said)
        ]
        calls = [CallRow(f"c{pick.start}", "a", Span(pick.start, pick.end), "m1") for pick in picks]
        ledger.choose("a", picks)
        ledger.unanswered(calls)
        ledger.begin(calls[1])
        ledger.keep(calls[1], answer("a saw"))
        assert [chosen_part(row) for row in run.picks("a")] == picks
        assert [row.status for row in run.picks("a")] == ["not asked", "answered"]
        assert [hit.span for hit in run.search("saw")] == [calls[1].span]


def test_tags_changed_are_found_under_their_new_words_only(tmp_path: Path):
    with open_run(tmp_path, tags={1: ["hammering"]}) as ledger:
        ledger.choose(
            "a", explain(windows(".9.8.7"), np.array([1]), said), tags={cell(1): ["sawing"]}
        )
        with Run(ledger.folder) as run:
            assert [hit.window for hit in run.search("saw")] == [1]
            assert run.search("hammering") == []


def test_a_missed_recording_is_a_row_until_it_works(tmp_path: Path):
    with Run(tmp_path, PLAN) as ledger:
        ledger.fail_recording("b", "b.mp4", "b.mp4 has no audio stream")
        with Run(ledger.folder) as run:
            assert run.recordings() == []
            assert [missed.reason for missed in run.failed_recordings()] == [
                "b.mp4 has no audio stream"
            ]
        ledger.add(row("b"))
        with Run(ledger.folder) as run:
            assert [known.id for known in run.recordings()] == ["b"]
            assert run.failed_recordings() == []


def test_a_recording_missed_under_its_path_is_found_under_its_id(tmp_path: Path):
    with Run(tmp_path, PLAN) as ledger, Run(ledger.folder) as run:
        ledger.fail_recording("b.mp4", "b.mp4", "b.mp4 is cut off")
        ledger.add(row("b"))
        assert ([known.id for known in run.recordings()], run.failed_recordings()) == (["b"], [])


def test_a_recording_with_other_content_replaces_the_one_at_its_path(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        fill(ledger, {1: "a board"})
        ledger.add(replace(row("a"), id="filmed again"))
        assert [known.id for known in run.recordings()] == ["filmed again"]
        assert (run.totals().recordings, run.totals().picks, run.totals().windows) == (1, 0, 0)
        assert [kept.text for kept in run.answers("a", cell(1))] == ["a board"]
        assert run.search("board") == []
        ledger.add(row("a"))  # the old file is put back
        assert [pick.status for pick in run.picks("a")] == ["answered", "not asked"]
        assert run.totals().picks == 2


def test_a_path_means_the_same_wherever_a_later_command_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with Run(tmp_path / "run", PLAN) as ledger, Run(ledger.folder) as run:
        ledger.add(row("a"))
        ledger.add(replace(row("b"), path="s3://bucket/b.mp4"))
        ledger.fail_recording("c", "c.mp4", "c.mp4 is empty")
        assert [known.path for known in run.recordings()] == [
            f"{tmp_path}/a.mp4",
            "s3://bucket/b.mp4",
        ]
        assert run.failed_recordings()[0].path == f"{tmp_path}/c.mp4"


def test_two_copies_of_a_recording_ask_one_question(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        twice = [
            call(1, prompt="same"),
            CallRow(call(1, prompt="same").identity, "a", cell(3), "m1"),
        ]
        assert ledger.unanswered(twice) == twice
        ledger.begin(twice[0])
        ledger.keep(twice[0], answer("a board"))
        assert ledger.unanswered(twice) == []
        assert [pick.status for pick in run.picks("a")] == ["answered", "answered"]
        assert run.totals().asked == 1


def test_threads_may_share_a_ledger(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        calls = [call(1, prompt=str(number)) for number in range(120)]

        def work(part: int) -> None:
            for one in calls[part::4]:
                ledger.begin(one)
                ledger.keep(one, answer(one.identity))

        workers = [threading.Thread(target=work, args=(part,)) for part in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert ledger.unanswered(calls) == []


def test_the_second_process_is_told_and_stops(tmp_path: Path):
    with open_run(tmp_path):
        script = (
            "import sys; from pathlib import Path; from earmark.run.run import Run\n"
            "Run(Path(sys.argv[1]), {})"
        )
        second = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert second.returncode == 1
    told = second.stderr.strip().splitlines()[-1]
    assert f"in use by process {os.getpid()} on" in told
    assert told.startswith("earmark.errors.RunError")


def test_the_same_process_is_told_too(tmp_path: Path):
    with open_run(tmp_path), pytest.raises(RunError, match=f"process {os.getpid()}"):
        Run(tmp_path, PLAN)
    Run(tmp_path, PLAN).close()


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"not a database at all" * 100, "damaged"), (None, "not a run of earmark")],
)
def test_what_is_not_a_run_is_refused(tmp_path: Path, content: bytes | None, told: str):
    if content is not None:
        (tmp_path / "run.db").write_bytes(content)
    else:
        with sqlite3.connect(tmp_path / "run.db") as database:
            database.execute("CREATE TABLE theirs (x)")
        database.close()
    with pytest.raises(RunError, match=told):
        Run(tmp_path, PLAN)


def test_a_damaged_page_is_one_clear_line(tmp_path: Path):
    open_run(tmp_path).close()
    path = tmp_path / "run.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    with pytest.raises(RunError, match="is damaged") as caught:
        Run(tmp_path, PLAN)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_run_is_named(tmp_path: Path):
    with pytest.raises(RunError, match="no run in"):
        Run(tmp_path)


def test_an_unknown_recording_is_a_wrong_argument(tmp_path: Path):
    with Run(tmp_path, PLAN) as ledger, pytest.raises(ValueError, match="add it first"):
        ledger.choose("nobody", [])


def test_what_is_secret_in_a_plan_is_not_kept(tmp_path: Path):
    """A prompt may quote an address; escaped or not, it is kept as JSON without the key."""
    asked = PLAN | {"ask": {"prompt": 'what is "https://me:hunter22@host/a?token=hunter23"?\n'}}
    for _ in range(2):
        Run(tmp_path, asked).close()
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hunter2" not in data
    with Run(tmp_path) as run:
        assert run.plan()["ask"] == {"prompt": 'what is "https://host/a?***"?\n'}


def test_a_full_disk_costs_no_answer(small_disk: Path):
    folder = small_disk / "run"
    kept: list[str] = []
    with open_run(folder) as ledger:
        calls = [call(1, prompt=f"question {number}") for number in range(3000)]
        in_flight = calls[:8]
        for one in in_flight:
            ledger.begin(one)
        with pytest.raises(RunError, match="no room left for the run") as caught:
            for one in calls[8:]:
                ledger.begin(one)
                ledger.keep(one, answer("words " * 200))
                kept.append(one.identity)
        assert "\n" not in str(caught.value)
        for one in in_flight:  # answered after the disk was full
            ledger.keep(one, answer("words " * 200))
            kept.append(one.identity)
        with pytest.raises(RunError, match="no room left"):
            ledger.begin(calls[-1])
    assert len(kept) > 50
    with Run(folder) as run:
        assert len(run.answers("a", cell(1))) == len(kept)
    (small_disk / "filler").write_bytes(b"")
    with pytest.raises(RunError, match=r"no room|No space left"):
        (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free))
        Run(folder, PLAN | {"more": "x" * 9000})


def test_a_disk_reserve_that_was_cut_short_is_made_whole(tmp_path: Path):
    (tmp_path / "run.reserve").write_bytes(b"cut")
    with Run(tmp_path, PLAN):
        assert (tmp_path / "run.reserve").read_bytes() == bytes(RESERVE_BYTES)


def test_a_plan_is_the_same_in_whatever_order_it_is_told(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        fill(ledger, {1: "a mallet falls"})
    with Run(tmp_path, dict(reversed(PLAN.items()))) as ledger, Run(ledger.folder) as run:
        assert len(list(run.picks("a"))) == 2


def test_the_disk_reserve_is_real_bytes(tmp_path: Path):
    open_run(tmp_path).close()
    stat = (tmp_path / "run.reserve").stat()
    assert stat.st_size == RESERVE_BYTES
    assert stat.st_blocks * 512 >= RESERVE_BYTES


def test_a_folder_that_is_opened_later_is_no_failure_any_more(tmp_path: Path):
    with Run(tmp_path / "run", PLAN) as ledger:
        for path in ("/card/shut", "/card/shut.mp4", "/card/other"):
            ledger.fail_recording(path, path, "cannot be opened")
        ledger.add(replace(row("a"), path="/card/shut/a.mp4"))
        ledger.drop_past_failures(["/card/shut.mp4", "/card/other"])
        with Run(ledger.folder) as run:
            assert [one.path for one in run.failed_recordings()] == [
                "/card/other",
                "/card/shut.mp4",
            ]


def test_what_failed_and_is_gone_is_forgotten_and_nothing_else_is(tmp_path: Path):
    there = tmp_path / "there.mp4"
    there.write_bytes(b"")
    listed, gone = (str(tmp_path / name) for name in ("listed.mp4", "gone.mp4"))
    with Run(tmp_path / "run", PLAN) as ledger:
        for path in (str(there), listed, gone, "s3://bucket/far.mp4"):
            ledger.fail_recording(path, path, "cannot be opened")
        ledger.drop_past_failures([listed])
        with Run(ledger.folder) as run:
            assert run.failed_paths() == {str(there), listed, "s3://bucket/far.mp4"}
