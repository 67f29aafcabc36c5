"""Calls asked in rounds: answers say what is asked next, and nothing is asked twice."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from earmark import caption, preview
from earmark.captioning.openai_captioner import OpenAICaptioner
from earmark.media import Source
from earmark.media.source_listing import Shard
from earmark.pipeline.session import Session, open_session
from earmark.run.merge import merge
from earmark.run.records import RunPick
from earmark.run.run import Run
from earmark.run.schema import FILE
from earmark.settings import Limits
from fault_server import fault_server
from killing import asked_again, kill_when_asked
from making import make_video

ONE_BY_ONE = Limits(concurrency=1)


@pytest.fixture(scope="module")
def video(tmp_path_factory) -> Path:
    """Forty windows of 2 s, with no sound that tells one from another."""
    path = tmp_path_factory.mktemp("media") / "shift.mp4"
    make_video(path, duration=80.0, clicks=[], fps=5, group=20)
    return path


@pytest.fixture(scope="module")
def archive(video) -> list[Path]:
    """That recording and a shorter one, one in either of two shards."""
    shard = next(one for one in (Shard(1, 2), Shard(2, 2)) if not one.holds(Source((str(video),))))
    names = (video.with_name(f"other-{number}.mp4") for number in range(99))
    other = next(path for path in names if shard.holds(Source((str(path),))))
    make_video(other, duration=50.0, clicks=[], fps=5, group=20)
    return [video, other]


def says(activity: str) -> str:
    answer = {"caption": f"someone: {activity}", "activity": activity, "active": bool(activity)}
    return f"ok:{json.dumps(answer)}"


def plan(url: str, **choices) -> Session:
    captioner = OpenAICaptioner(url, "scripted")
    chosen = {"limits": ONE_BY_ONE, "frontline": "flux", "budget": "8", "rounds": "2"}
    chosen |= {"window": 2.0, "workers": 1, "sounds": False, "pictures": False, **choices}
    return open_session(captioner=captioner, **chosen)


def rows(folder: Path) -> list[RunPick]:
    with Run(folder) as run:
        return [row for one in run.recordings() for row in run.picks(one.id)]


def test_the_second_round_goes_where_answers_differ(video, tmp_path):
    """chop chop chop | wash: two of the three stretches between answers hold next to nothing."""
    script = [
        says("chop onion"),
        says("chopping the onions"),
        says("chop onions"),
        says("wash pan"),
    ]
    with fault_server(*script, then=says("stir soup")) as server:
        done = caption([video], settings=plan(server.url), run=tmp_path)
        assert server.count() == 8
    picks = rows(done.folder)
    first = [row for row in picks if row.round == 1]
    second = [row for row in picks if row.round == 2]
    assert (len(first), len(second)) == (4, 4)
    assert [row.activity for row in first][-1] == "wash pan"
    inside = [row for row in second if first[2].end <= row.start < first[3].start]
    between = [row for row in second if first[0].end <= row.start < first[2].start]
    assert len(inside) > len(between) / 2, "more in this stretch than in either of the others"
    assert all("between answers that differ" in row.reason for row in inside)
    assert first[0].answer and first[0].answer.text == "someone: chop onion"
    page = done.page.read_text(encoding="utf-8")
    assert (page.count('"round":1'), page.count('"round":2')) == (4, 4)
    assert "between answers that differ" in page


def test_the_same_command_again_asks_nothing_and_keeps_the_rounds(video, tmp_path):
    with fault_server(then=says("")) as server:
        caption([video], settings=plan(server.url), run=tmp_path)
        before = rows(tmp_path)
        done = caption([video], settings=plan(server.url), run=tmp_path)
        assert server.count() == 8
    assert done.tally.calls == 0
    kept = [(row.span, row.round, row.reason, row.activity) for row in before]
    assert [(row.span, row.round, row.reason, row.activity) for row in rows(tmp_path)] == kept
    assert {row.round for row in before} == {1, 2}


def test_a_larger_budget_adds_to_what_was_asked(video, tmp_path):
    with fault_server(then=says("chop onion")) as server:
        caption([video], settings=plan(server.url), run=tmp_path)
        bought = {row.span: row.round for row in rows(tmp_path)}
        caption([video], settings=plan(server.url, budget="12"), run=tmp_path)
        assert server.count() == 12
    after = {row.span: row.round for row in rows(tmp_path)}
    assert bought.items() <= after.items()
    assert len(after) == 12


def test_answers_that_tell_nothing_end_auto_after_the_first_round(video, tmp_path):
    """Where every two neighbours differ there is nothing to plan by: the rest is one round."""
    script = [says(word) for word in ("chop onion", "wash pan", "boil rice", "open door")]
    with fault_server(*script, then=says("sweep floor")) as server:
        caption([video], settings=plan(server.url, rounds="auto"), run=tmp_path)
        assert server.count() == 8
    assert {row.round for row in rows(tmp_path)} == {1, 2}


def test_plain_words_of_a_server_that_knows_no_schema_are_read(video, tmp_path):
    with fault_server("ok:Nothing is being done.", then="ok:Chopping an onion.") as server:
        caption([video], settings=plan(server.url, budget="4"), run=tmp_path)
    said = [row.activity for row in rows(tmp_path)]
    assert said.count("") == 1
    assert said.count("Chopping an onion.") == 3


def test_a_call_that_fails_is_spent_and_not_asked_again_in_the_next_round(video, tmp_path):
    with fault_server("400", then=says("chop onion")) as server:
        done = caption([video], settings=plan(server.url), run=tmp_path)
        assert server.count() == 8
    assert (done.tally.answered, done.tally.failed) == (7, 1)
    assert [row.status for row in rows(tmp_path)].count("failed") == 1


JOB = """
import json, sys
from earmark.settings import Limits
from earmark.pipeline.caption import caption
paths, choices = json.loads(sys.argv[1]), json.loads(sys.argv[2])
caption(paths, frontline="flux", window=2.0, rounds="2", workers=1,
        sounds=False, pictures=False, limits=Limits(concurrency=1), **choices)
"""


def job(paths: list[Path], **choices) -> list[str]:
    return [
        sys.executable,
        "-c",
        JOB,
        json.dumps([str(path) for path in paths]),
        json.dumps(choices),
    ]


def test_killed_in_the_second_round_it_goes_on_there(video, tmp_path):
    """The call in flight is asked again; nothing that was answered is."""
    answers = [says("chop onion")] * 5
    with fault_server(*answers, "hold", then=says("wash pan")) as server:
        words = job([video], run=str(tmp_path), model=f"{server.url}#scripted", budget="8")
        kill_when_asked(words, server, 6)
        assert [row.status for row in rows(tmp_path)].count("answered") == 5
        caption([video], settings=plan(server.url), run=tmp_path)
        assert server.count() == 9
    assert sorted(row.round for row in rows(tmp_path)) == [1] * 4 + [2] * 4


def test_killed_across_recordings_it_goes_on_with_a_larger_budget(archive, tmp_path):
    """One budget over both: the seventh call was in flight, the six before are not asked again."""
    script = [says("chop onion")] * 6
    with fault_server(*script, "hold", then=says("wash pan")) as server:
        words = job(
            archive, run=str(tmp_path), model=f"{server.url}#scripted", budget="8", across=True
        )
        kill_when_asked(words, server, 7)
        bought = {row.span for row in rows(tmp_path) if row.status == "answered"}
        caption(archive, settings=plan(server.url, budget="14", across=True), run=tmp_path)
        assert server.count() == 14 + 1
    after = rows(tmp_path)
    assert [row.status for row in after] == ["answered"] * 14
    assert bought <= {row.span for row in after}
    assert {row.round for row in after} == {1, 2}


def test_shards_killed_in_their_rounds_are_the_whole_run_when_merged(archive, tmp_path):
    """Each shard goes on where it stopped; the merged run keeps the rounds, and asks nothing."""
    shards = [tmp_path / "1", tmp_path / "2"]
    with fault_server(*[says("chop onion")] * 5, "hold", then=says("wash pan")) as server:
        words = job(
            archive, run=str(shards[0]), model=f"{server.url}#scripted", budget="8", shard="1/2"
        )
        kill_when_asked(words, server, 6)
        for run in shards:
            caption(archive, settings=plan(server.url, shard=f"{run.name}/2"), run=run)
        assert (server.count(), asked_again(server)) == (16 + 1, 1)
        parts = [row for run in shards for row in rows(run)]
        merge(shards, tmp_path / "all")
        caption(archive, settings=plan(server.url), run=tmp_path / "all")
        assert server.count() == 17
    told = {(row.span, row.round, row.reason, row.activity) for row in parts}
    kept = {(row.span, row.round, row.reason, row.activity) for row in rows(tmp_path / "all")}
    assert kept == told
    assert sorted(row.round for row in rows(tmp_path / "all")) == [1] * 8 + [2] * 8


DEADLY = """
import json, os, signal, sys
from earmark.settings import Limits
from earmark.pipeline.caption import caption
from earmark.report.progress import Progress
paths, choices = json.loads(sys.argv[1]), json.loads(sys.argv[2])
class Deadly(Progress):
    def count_calls(self, tally, calls):
        if tally.answered < calls == 8:
            os.kill(os.getpid(), signal.SIGKILL)
caption(paths, frontline="flux", window=2.0, rounds="2", progress=Deadly(),
        sounds=False, pictures=False, limits=Limits(concurrency=1), **choices)
"""


def kill_between_rounds(paths: list[Path], **choices) -> None:
    """The first round is answered and the second is chosen: nothing is in flight."""
    words = [str(path) for path in paths]
    command = [sys.executable, "-c", DEADLY, json.dumps(words), json.dumps(choices)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize(("budget", "asked"), [("8", 8), ("12", 12), ("4", 4)])
def test_killed_between_rounds_nothing_is_asked_twice(video, tmp_path, budget, asked):
    """Whether the budget stays, grows, or shrinks to what was asked already."""
    with fault_server(then=says("chop onion")) as server:
        kill_between_rounds([video], run=str(tmp_path), model=f"{server.url}#scripted", budget="8")
        assert server.count() == 4
        caption([video], settings=plan(server.url, budget=budget), run=tmp_path)
        assert (server.count(), asked_again(server)) == (asked, 0)
    assert [row.status for row in rows(tmp_path)] == ["answered"] * asked


def test_a_shard_killed_between_rounds_goes_on_in_the_merged_run(archive, tmp_path):
    """The other shard has had both rounds: what it was told is not asked again either."""
    shards = [tmp_path / "1", tmp_path / "2"]
    with fault_server(then=says("chop onion")) as server:
        kill_between_rounds(
            archive, run=str(shards[0]), model=f"{server.url}#scripted", budget="8", shard="1/2"
        )
        caption(archive, settings=plan(server.url, shard="2/2"), run=shards[1])
        assert server.count() == 4 + 8
        merge(shards, tmp_path / "all")
        caption(archive, settings=plan(server.url), run=tmp_path / "all")
        assert (server.count(), asked_again(server)) == (16, 0)
    assert sorted(row.round for row in rows(tmp_path / "all")) == [1] * 8 + [2] * 8


def test_a_price_stops_where_answers_see_nothing(video, tmp_path):
    """The sound makes it worth many calls; the first half of them see nothing, and it is enough."""
    with fault_server(then=says("")) as server:
        alone = caption(
            [video], settings=plan(server.url, budget="price=0.4", rounds="1"), run=tmp_path
        )
    with fault_server(then=says("")) as server:
        idle = caption(
            [video], settings=plan(server.url, budget="price=0.4"), run=tmp_path / "idle"
        )
        assert server.count() < 0.75 * alone.tally.answered
    script = [says(f"task {chr(97 + place)}{chr(97 + place)}") for place in range(26)]
    with fault_server(*script) as server:
        busy = caption(
            [video], settings=plan(server.url, budget="price=0.4"), run=tmp_path / "busy"
        )
    assert busy.tally.answered > idle.tally.answered
    assert idle.sightings and busy.sightings and alone.sightings is None
    assert (idle.sightings.seen, busy.sightings.seen > 10) == (0, True)
    assert (idle.sightings.unheard, idle.sightings.missed) == (1, 0), "all of it sounds the same"


def test_a_run_that_is_over_is_not_planned_again_by_its_last_answers(video, tmp_path):
    """A price buys what the answers make worth it: these would make the next command buy more."""
    script = [says("") for _ in range(6)] + [
        says(f"task {'abcdefghijklmn'[n] * 3}") for n in range(14)
    ]
    with fault_server("400", *script, then=says("sweep floor")) as server:
        priced = plan(server.url, budget="price=0.4", rounds="auto")
        done = caption([video], settings=priced, run=tmp_path)
        asked = server.count()
        assert (done.tally.failed, preview([video], settings=priced, run=tmp_path).calls) == (1, 1)
        again = caption([video], settings=priced, run=tmp_path)
        assert server.count() == asked + 1, "the one that failed"
    assert again.totals.picks == done.totals.picks


def table_sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Rows and bytes of each table of a closed run; its index of words is left out."""
    found = {}
    with closing(sqlite3.connect(f"file:{folder / FILE}?immutable=1", uri=True)) as database:
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE '%words%'"
        for (table,) in database.execute(tables).fetchall():
            names = [f'"{row[1]}"' for row in database.execute(f"PRAGMA table_info({table})")]
            size = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in names)
            count = f"SELECT count(*), coalesce(sum({size}), 0) FROM {table}"
            found[table] = database.execute(count).fetchone()
    return found


def on_disk(folder: Path) -> int:
    """Bytes of a closed run: one file, with nothing left in a journal."""
    assert [path.name for path in folder.glob(f"{FILE}*")] == [FILE]
    return (folder / FILE).stat().st_size


@pytest.mark.parametrize("rounds", ["2", "9", "auto"])
@pytest.mark.parametrize("calls", [12, 36])
def test_the_ledger_grows_by_no_more_than_the_answers(video, tmp_path, rounds, calls):
    """Beside one round of as many calls: answers have fields, reasons are longer, a note is new."""
    script = [says(f"task {chr(97 + n % 26)}{chr(97 + n // 9)}") for n in range(calls)]
    for name, count in (("one", "1"), ("rounds", rounds)):
        with fault_server(*script) as server:
            made = plan(server.url, budget=str(calls), rounds=count)
            caption([video], settings=made, run=tmp_path / name)
            assert server.count() == calls
    one, several = table_sizes(tmp_path / "one"), table_sizes(tmp_path / "rounds")
    counts = {table: count for table, (count, _) in several.items()}
    assert counts == {table: count + (table == "notes") for table, (count, _) in one.items()}
    assert counts["picks"] == counts["calls"] == counts["answers"] == calls
    more = 100 * calls + 1000  # bytes; the fields that are asked for are part of the plan
    whole, before = (sum(size for _, size in tables.values()) for tables in (several, one))
    assert whole <= before + more
    assert on_disk(tmp_path / "rounds") <= on_disk(tmp_path / "one") + 2 * more


@pytest.mark.parametrize(("budget", "rounds"), [("12", "3"), ("12", "auto"), ("price=0.4", "auto")])
def test_a_run_that_is_over_grows_no_more(video, tmp_path, budget, rounds):
    with fault_server(then=says("chop onion")) as server:
        chosen = plan(server.url, budget=budget, rounds=rounds)
        caption([video], settings=chosen, run=tmp_path)
        asked, rows_before, bytes_before = server.count(), table_sizes(tmp_path), on_disk(tmp_path)
        for _ in range(4):
            caption([video], settings=chosen, run=tmp_path)
        assert server.count() == asked
    assert table_sizes(tmp_path) == rows_before
    assert on_disk(tmp_path) == bytes_before
