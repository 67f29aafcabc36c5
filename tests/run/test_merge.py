"""Shards made one: nothing lost, nothing asked again, and what does not fit refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from drawing import windows
from earmark.errors import RunError
from earmark.run.merge import merge
from earmark.run.records import PickFrames
from earmark.run.run import Run
from earmark.run.schema import FILE, connect
from earmark.selection.pick import explain
from small_runs import PLAN, CallRow, answer, cell, row, said


def shard(folder: Path, *names: str, plan=PLAN, answered: tuple[int, ...] = (1, 3)) -> Path:
    """A run with some recordings, two picks each, of which some are answered."""
    with Run(folder, plan) as ledger:
        for name in names:
            chapters = ((f"/cams/{name}-1.mp4", 0.0), (f"/cams/{name}-2.mp4", 12.0))
            ledger.add(replace(row(name), name=f"cam {name}", chapters=chapters))
            ledger.hear(
                name, windows(".9.8.7"), key="v1", sound_bytes=50, warnings=[f"{name} is odd"]
            )
            picks = explain(windows(".9.8.7"), [1, 3], said)
            ledger.choose(
                name, picks, tags={cell(1): ("loud", name)}, rule="coverage", notes=(name,)
            )
            calls = {window: call(name, window) for window in (1, 3)}
            ledger.unanswered(calls.values())
            for window, made in calls.items():
                ledger.begin(made)
                ledger.keep_frames(name, PickFrames(made.span, name.encode(), 9, 1, 100))
                if window in answered:
                    ledger.keep(made, answer(f"{name} at {window}"), spend=0.01)
                else:
                    ledger.fail(made, "too slow")
    return folder


def call(name: str, window: int) -> CallRow:
    return CallRow(f"{name}/{window}", name, cell(window), "m1")


def story(folder: Path) -> list[object]:
    with Run(folder) as run:
        return [
            (
                recording,
                run.choice(recording.id),
                (heard := run.heard(recording.id)) and heard.warnings,
                [(pick, run.thumbnail(recording.id, pick.span)) for pick in picks],
            )
            for recording in run.recordings()
            for picks in [list(run.picks(recording.id))]
        ]


def without_times(rows: list[object]) -> str:
    import re

    return re.sub(r"at='[^']*'", "at=…", repr(rows))


def test_shards_merged_are_the_run_in_one(tmp_path):
    whole = shard(tmp_path / "whole", "a", "b", "c")
    parts = [shard(tmp_path / "1", "b"), shard(tmp_path / "2", "a", "c")]
    merged = merge(parts, tmp_path / "all")
    assert (merged.runs, merged.recordings, merged.missed, merged.answers) == (2, 3, 0, 6)
    assert without_times(story(tmp_path / "all")) == without_times(story(whole))
    with Run(tmp_path / "all") as ours, Run(whole) as theirs:
        assert ours.totals() == theirs.totals()
        assert [hit.recording for hit in ours.search("loud c")] == ["c"]
        assert {hit.caption for hit in ours.search("b at 3")} == {"b at 3"}
        assert ours.plan() == PLAN


def test_merging_twice_changes_nothing(tmp_path):
    parts = [shard(tmp_path / "1", "b", answered=(1,)), shard(tmp_path / "2", "a")]
    merge(parts, tmp_path / "all")
    with Run(tmp_path / "all") as run:
        before = run.totals(), story(tmp_path / "all"), len(run.search("loud"))
    merge(parts, tmp_path / "all")
    with Run(tmp_path / "all") as run:
        assert (run.totals(), story(tmp_path / "all"), len(run.search("loud"))) == before
    failures = sqlite3.connect(tmp_path / "all" / "run.db")
    assert failures.execute("SELECT count(*) FROM failures").fetchone() == (1,)
    failures.close()


def test_an_answer_in_either_run_is_never_asked_again(tmp_path):
    parts = [shard(tmp_path / "1", "a", answered=(1,)), shard(tmp_path / "2", "a", answered=(3,))]
    merged = merge(parts, tmp_path / "all")
    assert merged.answers == 2
    with Run(tmp_path / "all", PLAN) as ledger:
        assert ledger.unanswered([call("a", 1), call("a", 3)]) == []


def test_what_was_missed_in_one_and_done_in_another_is_done(tmp_path):
    with Run(tmp_path / "1", PLAN) as ledger:
        ledger.fail_recording("a.mp4", "a.mp4", "broken")
        ledger.fail_recording("z.mp4", "z.mp4", "broken")
    merged = merge([tmp_path / "1", shard(tmp_path / "2", "a")], tmp_path / "all")
    assert (merged.recordings, merged.missed) == (1, 1)


def test_more_runs_than_a_database_can_attach(tmp_path):
    parts = [shard(tmp_path / str(number), f"r{number}") for number in range(12)]
    assert merge(parts, tmp_path / "all").recordings == 12


def test_what_does_not_fit_is_refused_and_nothing_is_merged(tmp_path):
    one = shard(tmp_path / "1", "a")
    other = shard(tmp_path / "2", "b", plan={**PLAN, "budget": 3})
    with pytest.raises(RunError, match=r"budget is 2 in .*1 and 3 in .*2"):
        merge([one, other], tmp_path / "all")
    newer = shard(tmp_path / "3", "b", plan={**PLAN, "earmark": "9.9"})
    with pytest.raises(RunError, match=r"earmark is None in .* and '9.9' in"):
        merge([one, newer], tmp_path / "all")
    assert not (tmp_path / "all").exists()
    with pytest.raises(RunError, match="no run in"):
        merge([one, tmp_path / "none"], tmp_path / "all")
    with pytest.raises(RunError, match="cannot be merged into itself"):
        merge([one], one)
    with Run(one, PLAN), pytest.raises(RunError, match="in use by process"):
        merge([one], tmp_path / "all")


def test_tags_of_another_run_are_found_with_an_answer_of_this(tmp_path):
    with Run(tmp_path / "1", PLAN) as ledger:
        ledger.add(row("a"))
        ledger.hear("a", windows(".9.8.7"), key="v1")
        ledger.choose("a", explain(windows(".9.8.7"), [1], said))
        ledger.unanswered([call("a", 1)])
        ledger.keep(call("a", 1), answer("a mallet"))
    parts = [tmp_path / "1", shard(tmp_path / "2", "a", answered=())]
    merge(parts, tmp_path / "all")
    with Run(tmp_path / "all") as run:
        assert [hit.caption for hit in run.search("mallet loud")] == ["a mallet"]


def test_a_run_given_twice_is_named(tmp_path):
    one = shard(tmp_path / "1", "a")
    with pytest.raises(ValueError, match=r"1/\.\./1 is given twice; name each run once$"):
        merge([one, one / ".." / "1"], tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_path_that_is_two_recordings_is_refused(tmp_path):
    one = shard(tmp_path / "1", "a")
    with Run(tmp_path / "2", PLAN) as ledger:
        from dataclasses import replace

        ledger.add(replace(row("other"), path="a.mp4"))
    with pytest.raises(RunError, match=r"a.mp4 changed between .*1 and .*2"):
        merge([one, tmp_path / "2"], tmp_path / "all")


def test_what_two_runs_paid_for_one_call_is_counted_twice(tmp_path):
    parts = [shard(tmp_path / "1", "a"), shard(tmp_path / "2", "a")]
    each = []
    for part in parts:
        with Run(part, PLAN) as ledger:
            each.append(ledger.spent())
    for _ in range(2):  # and merging again changes nothing
        merge(parts, tmp_path / "all")
        with Run(tmp_path / "all", PLAN) as ledger:
            assert ledger.spent().tokens_before == sum(spent.tokens_before for spent in each)
            spend = sum(spent.spend_before for spent in each)
            assert ledger.spent().spend_before == pytest.approx(spend)
    with Run(tmp_path / "all") as run:
        assert {row.status for row in run.picks("a")} == {"answered"}


def leave_no_tables(folder: Path) -> None:
    folder.mkdir()
    with closing(sqlite3.connect(folder / FILE)) as database:
        database.execute("PRAGMA journal_mode = WAL")


def leave_no_plan(folder: Path) -> None:
    connect(folder, to_write=True).close()


@pytest.mark.parametrize("leave", [leave_no_tables, leave_no_plan])
def test_a_merge_killed_before_its_first_run_is_begun_again(tmp_path, leave):
    leave(tmp_path / "all")
    assert merge([shard(tmp_path / "1", "a")], tmp_path / "all").answers == 2


def test_what_is_no_run_is_not_merged_into(tmp_path):
    part = shard(tmp_path / "1", "a")
    (tmp_path / "all").mkdir()
    with closing(sqlite3.connect(tmp_path / "all" / FILE)) as database:
        database.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(RunError, match="is not a run of earmark"):
        merge([part], tmp_path / "all")
