"""`earmark select`: which windows, under which budget, and how they are printed."""

from __future__ import annotations

import csv
import io
import itertools
import shutil

import pytest

from acceptance.command_line import Outcome, earmark
from acceptance.recordings import make_recording

WORK = {2, 3, 7}
"""The windows of `clip` in which something is done."""

RULES = [
    "uniform", "strata", "random", "rank", "separated", "aks", "bolt", "facility", "coverage",
]  # fmt: skip


def select(*words: object) -> Outcome:
    outcome = earmark("select", *words, "--format", "json")
    assert outcome.code == 0, outcome.err
    return outcome


def picked(*words: object) -> list[int]:
    """The windows picked in the only recording."""
    (recording,) = select(*words).json["recordings"]
    return [pick["window"] for pick in recording["picks"]]


def picks_by_name(outcome: Outcome) -> dict[str, int]:
    """Number of picks by file name."""
    return {
        recording["path"].rpartition("/")[2]: len(recording["picks"])
        for recording in outcome.json["recordings"]
    }


def test_the_default_budget_is_a_quarter_spent_where_something_is_heard(clip):
    assert picked(clip) == [2, 7]


@pytest.mark.parametrize(
    ("budget", "calls"), [("10%", 1), ("0.5", 5), ("3", 3), ("1", 1), ("100%", 10), ("500", 10)]
)
def test_a_share_or_a_number_of_windows(clip, budget, calls):
    windows = picked(clip, "--budget", budget)
    assert len(windows) == calls
    assert windows == sorted(set(windows))


def test_a_higher_price_buys_fewer_windows(clip):
    cheap, dear = (picked(clip, "--budget", f"price={price}") for price in (0.3, 1.0))
    assert 0 < len(dear) < len(cheap) <= 10


def test_the_automatic_budget_spends_more_on_a_busy_recording(archive):
    counts = picks_by_name(select(archive, "--budget", "auto", "--workers", "1"))
    assert counts["quiet.mp4"] < counts["sparse.mp4"] <= counts["busy.mp4"]


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_spends_the_budget_on_different_windows(clip, rule):
    windows = picked(clip, "--budget", "3", "--rule", rule)
    assert len(set(windows)) == 3
    assert windows == sorted(windows)
    assert set(windows) <= set(range(10))
    assert windows == picked(clip, "--budget", "3", "--rule", rule)


def test_the_full_rule_takes_every_window(clip):
    assert picked(clip, "--rule", "full") == list(range(10))


def test_uniform_and_strata_do_not_depend_on_the_sound(clip):
    assert picked(clip, "--budget", "3", "--rule", "uniform") == [0, 4, 9]
    assert picked(clip, "--budget", "3", "--rule", "strata") == [1, 5, 8]


def test_rank_takes_the_highest_scores(clip):
    (everything,) = select(clip, "--rule", "full", "--frontline", "gate").json["recordings"]
    scores = {pick["window"]: pick["score"] for pick in everything["picks"]}
    best = sorted(scores, key=scores.__getitem__, reverse=True)[:3]
    assert picked(clip, "--budget", "3", "--rule", "rank") == sorted(best)


def test_separated_takes_no_neighbours(clip):
    windows = picked(clip, "--budget", "3", "--rule", "separated")
    assert all(later - earlier >= 2 for earlier, later in itertools.pairwise(windows))


@pytest.mark.parametrize("frontline", ["energy", "flux", "variance", "log-mel", "packets"])
def test_other_frontlines_score_the_windows(clip, frontline):
    outcome = select(clip, "--frontline", frontline, "--budget", "3", "--rule", "rank")
    (recording,) = outcome.json["recordings"]
    assert recording["frontline"] == frontline
    assert len(recording["picks"]) == 3
    if frontline == "energy":
        assert {pick["window"] for pick in recording["picks"]} == WORK


def test_one_budget_for_all_recordings_goes_where_most_is_expected(archive):
    counts = picks_by_name(select(archive, "--budget", "4", "--across", "--workers", "1"))
    assert sum(counts.values()) == 4
    assert counts["busy.mp4"] >= 2
    assert counts["quiet.mp4"] == 0
    each = picks_by_name(select(archive, "--budget", "4", "--workers", "1"))
    assert set(each.values()) == {4}


def test_json_says_what_was_chosen_and_why(clip):
    result = select(clip).json
    assert result["failures"] == []
    assert result["plan"]["budget"] == "25%"
    (recording,) = result["recordings"]
    assert recording["path"] == str(clip)
    assert (recording["duration"], recording["windows"], recording["window"]) == (40.0, 10, 4.0)
    assert recording["bytes_total"] == clip.stat().st_size
    assert 0 < recording["forecast"] < 1
    for pick in recording["picks"]:
        assert (pick["start"], pick["end"]) == (4.0 * pick["window"], 4.0 * pick["window"] + 4)
        assert pick["start"] <= pick["instant"] <= pick["end"]
        assert 0 < pick["score"] <= 1
        assert pick["reason"]


def test_jsonl_csv_and_table_hold_the_same_picks(clip):
    (recording,) = select(clip, "--budget", "3").json["recordings"]
    windows = [pick["window"] for pick in recording["picks"]]
    lines = earmark("select", clip, "--budget", "3", "--format", "jsonl").lines
    assert [(line["path"], line["window"]) for line in lines] == [(str(clip), w) for w in windows]
    table = earmark("select", clip, "--budget", "3", "--format", "csv").out
    assert [int(row["window"]) for row in csv.DictReader(io.StringIO(table))] == windows
    text = earmark("select", clip, "--budget", "3").out
    assert all(pick["reason"] in text for pick in recording["picks"])


def test_an_edit_list_has_one_event_per_pick(clip):
    lines = earmark("select", clip, "--format", "edl").out.splitlines()
    events = [line for line in lines if line[:3].isdigit()]
    assert len(events) == 2
    assert "00:00:08:00 00:00:12:00" in events[0]
    assert any(clip.name in line for line in lines)


def test_explaining_lists_windows_that_were_not_picked(clip):
    (recording,) = select(clip, "--explain").json["recordings"]
    left_out = recording["left_out"]
    assert left_out
    assert not {row["window"] for row in left_out} & {p["window"] for p in recording["picks"]}
    assert all(row["reason"] for row in left_out)
    assert select(clip).json["recordings"][0]["left_out"] == []


def test_the_length_of_a_window_can_be_chosen(clip):
    (recording,) = select(clip, "--window", "8", "--budget", "100%").json["recordings"]
    assert recording["windows"] == 5
    assert [pick["end"] - pick["start"] for pick in recording["picks"]] == [8.0] * 5


def test_a_second_listening_comes_from_the_cache(tmp_path):
    recording = make_recording(tmp_path / "a.mp4", duration=12.0, work=[(4.0, 8.0)], seed=7)
    cache = tmp_path / "cache"
    first = select(recording, "--cache", cache).json
    stored = {path: path.stat().st_mtime_ns for path in cache.rglob("*") if path.is_file()}
    assert stored
    second = select(recording, "--cache", cache).json
    assert second["recordings"][0]["picks"] == first["recordings"][0]["picks"]
    assert {path: path.stat().st_mtime_ns for path in stored} == stored
    uncached = select(recording, "--no-cache").json
    assert uncached["recordings"][0]["picks"] == first["recordings"][0]["picks"]


def test_globs_and_several_paths(archive, tmp_path):
    for name in ("busy.mp4", "quiet.mp4"):
        shutil.copy(archive / name, tmp_path / name)
    pattern = select(f"{tmp_path}/b*.mp4", "--workers", "1")
    assert list(picks_by_name(pattern)) == ["busy.mp4"]
    both = select(tmp_path / "busy.mp4", tmp_path / "quiet.mp4", "--workers", "1")
    assert list(picks_by_name(both)) == ["busy.mp4", "quiet.mp4"]


def test_two_workers_choose_what_one_chooses(archive):
    alone, together = (
        select(archive, "--workers", workers, "--no-cache").json["recordings"] for workers in (1, 2)
    )
    assert [recording["picks"] for recording in alone] == [
        recording["picks"] for recording in together
    ]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--budget", "lots"], "lots"),
        (["--budget", "0%"], "0%"),
        (["--rule", "magic"], "coverage"),
        (["--frontline", "magic"], "energy"),
        (["--window", "-1"], "-1"),
    ],
)
def test_a_wrong_choice_is_one_line_that_names_it(clip, words, named):
    outcome = earmark("select", clip, *words)
    assert outcome.code in (1, 2)
    assert outcome.out == ""
    assert named in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("words", [["select", "x.mp4", "--bugdet", "3"], ["slect", "x.mp4"]])
def test_a_misspelt_option_or_command_is_a_usage_error(words):
    outcome = earmark(*words)
    assert outcome.code == 2
    assert words[0] in outcome.err or "--bugdet" in outcome.err


def test_the_command_works_in_a_process_of_its_own(clip):
    outcome = earmark("select", clip, "--format", "json", fresh=True)
    assert outcome.code == 0, outcome.err
    assert outcome.json["recordings"] == select(clip).json["recordings"]


def test_a_setting_may_stand_before_the_command(clip):
    assert (
        len(
            earmark("--set", "budget=2", "select", clip, "--format", "json").json["recordings"][0][
                "picks"
            ]
        )
        == 2
    )
    assert "bogus" in earmark("--set", "bogus=1", "select", clip).err
