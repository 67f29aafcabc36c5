"""Rules on recordings: rows that add up, ceilings and phases, a run that goes on where it was."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import drawing
from earmark import EarmarkError, Pick
from earmark.errors import RunError, UnreadableFile
from earmark.grid import Windows
from earmark.pipeline.session import open_session
from earmark.selection import RULES
from earmark.selection.pick import explain
from earmark.selection.rules.ranking import RandomSpans
from earmark_lab.annotations.actions import Action, Annotations
from earmark_lab.experiments.benchmark import (
    COMPARED,
    DRAWS,
    PER_RECORDING,
    BenchmarkDesign,
    BenchmarkRun,
    Case,
    average_phases,
    choose,
    count_picks,
    read_rows,
    rows_to_csv,
    run,
    run_case,
)
from earmark_lab.experiments.coverage_tables import report_coverage
from earmark_lab.experiments.score_sources import FittedScores, split_for_fitting
from made_kitchen import kitchen

SMALL = BenchmarkDesign(
    rules=("uniform", "rank", "coverage", "phases", "oracle"), budgets=(0.25, 0.5)
)


def case(drawn: str, *actions: tuple[float, float]) -> Case:
    return Case("a", "hand", drawing.windows(drawn), [Action(*each) for each in actions])


def test_rows_say_what_each_rule_came_to():
    #                        0123 4567: windows of 4 s
    found = run_case(case("..9.....", (8, 10), (20, 30)), ["rank", "oracle"], [0.25])
    assert [(row.rule, row.calls, row.covered) for row in found] == [
        ("rank", 2, 1),
        ("oracle", 2, 2),
    ]
    assert found[0].strict == 0  # the instant of window 2 is 10 s, where the action has ended


def test_calls_are_rounded_or_cut():
    drawn = case("1234567", (3, 9))  # a quarter of seven windows is 1.75
    assert run_case(drawn, ["rank"], [0.25])[0].calls == 2
    assert run_case(drawn, ["rank"], [0.25], rounding="floor")[0].calls == 1


def test_every_rule_can_be_evaluated():
    assert set(RULES) - {"full"} <= set(COMPARED)
    rows = run_case(case("1234.321", (3, 9)), COMPARED, [0.5, 1.0])
    assert len(rows) == 2 * len(COMPARED)
    assert all(row.covered == 1 for row in rows if row.budget == 1.0)


def test_the_paper_s_rule_names_its_delta_in_every_row():
    """2 unless another is asked for; the gate's own only by name."""
    fitted = replace(case("9876543210", (3, 9)), separation=3)
    words = ["separated", "separated:delta=3", "separated:delta=gate"]
    rows = run_case(fitted, words, [0.5])
    assert [(row.rule, row.calls) for row in rows] == [
        ("separated:delta=2", 5),
        ("separated:delta=3", 4),
        ("separated:delta=3", 4),
    ]
    assert BenchmarkDesign(rules=("separated",), subject="separated").subject == rows[0].rule
    with pytest.raises(ValueError, match="only a trained gate has a separation of its own"):
        run_case(case("12", (0, 1)), words, [0.5])
    with pytest.raises(ValueError, match="separated has no option 'gap'"):
        BenchmarkDesign(rules=("separated:gap=1",))


class LastOnly:
    """A rule of another package, which listens to nothing."""

    is_blind = True

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        count = len(windows)
        return explain(windows, range(count - min(budget, count), count), lambda *_: "late")


def test_rules_of_other_packages_are_compared_like_our_own(monkeypatch):
    monkeypatch.setitem(RULES, "last", LastOnly)
    design = BenchmarkDesign(rules=("rank", "last"), budgets=(0.25,), subject="last")
    assert design.rules_for(is_first=False) == ("rank",)
    (row,) = run_case(case("1234.321", (29, 31)), ["last"], design.budgets)
    assert (row.rule, row.calls, row.covered) == ("last", 2, 1)
    with pytest.raises(ValueError, match=r"no rule 'first'; there are .*last"):
        BenchmarkDesign(rules=("first",))


def test_a_recording_that_says_nothing_is_spread_evenly():
    flat = case("........", (1, 2))
    strata = choose(flat, "strata", [3])
    assert choose(flat, "rank", [3]) == strata
    assert choose(flat, "coverage", [3]) == strata
    assert choose(flat, "oracle", [3]) != strata


@pytest.mark.parametrize("rule", ["uniform", "strata", "random", "phases"])
def test_a_rule_that_listens_to_nothing_looks_at_the_middle(rule: str):
    """Its strict coverage is that of a real run, whatever instants were heard."""
    heard = case("1234.321", (4.1, 4.3), (5.9, 6.1), (21.9, 22.1))
    late = replace(heard.windows, instants=np.arange(8) * 4.0 + 0.2)  # window 1 is heard at 4.2 s
    found = run_case(replace(heard, windows=late), [rule, "rank"], [1.0])
    assert (found[0].covered, found[0].strict) == (3, 2)  # 6 s and 22 s are middles
    assert (found[1].covered, found[1].strict) == (3, 1)
    plan = open_session(rule="uniform")
    assert plan.listening.frontline.name == "none"  # as a run does: nothing is heard


def test_random_spans_are_the_mean_of_many_draws():
    drawn = case("9.9.....", (4, 8))
    row = run_case(drawn, ["random"], [0.25])[0]
    single = [
        count_picks(drawn, RandomSpans(seed)(drawn.windows, budget=2)).covered
        for seed in range(DRAWS)
    ]
    assert row.covered == sum(single) / DRAWS and 0 < row.covered < 1
    assert row.calls == 2
    assert open_session(rule="random").listening.frontline.name != "none"  # it hears the lengths


def test_phases_average_over_every_start():
    short = case("........", (4, 8))  # one action in window 1: half of the two phases meet it
    counts = average_phases(short, 4)
    assert (counts.calls, counts.covered) == (4, 0.5)
    picked = [count_picks(short, choose(short, "uniform", [calls])[0]).covered for calls in (4, 0)]
    assert average_phases(short, 8).covered == 1
    assert average_phases(short, 0).covered == picked[1] == 0


def test_a_run_goes_on_where_it_was_and_equals_an_unbroken_one(tmp_path: Path):
    actions, events = kitchen(6)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    unbroken = run(tasks, SMALL)
    done: list[str] = []

    def counted(key: tuple[str, str]):
        def task() -> Case:
            if len(done) == 3:
                raise KeyboardInterrupt
            done.append(key[1])
            return tasks[key]()

        return task

    with pytest.raises(KeyboardInterrupt):
        run({key: counted(key) for key in tasks}, SMALL, folder=tmp_path)
    assert len({row.recording for row in read_rows(tmp_path / PER_RECORDING)}) == 3
    rest = {key: (lambda key=key: done.append(key[1]) or tasks[key]()) for key in tasks}
    resumed = run(rest, SMALL, folder=tmp_path)
    assert done == list(actions.recordings)  # each was judged once
    assert resumed == unbroken  # to the last digit
    written = (tmp_path / PER_RECORDING).read_bytes()
    assert run(tasks, SMALL, folder=tmp_path) == unbroken
    assert (tmp_path / PER_RECORDING).read_bytes() == written
    (tmp_path / PER_RECORDING).write_text("frontline,recording\nsound-events,K00,lots\n")
    with pytest.raises(RunError, match=r"is no per_recording.csv of an evaluation"):
        run(tasks, SMALL, folder=tmp_path)


def test_a_recording_that_fails_is_a_note_and_the_others_go_on():
    actions, events = kitchen(3)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()

    def broken() -> Case:
        raise UnreadableFile("K01.mp4 is empty")

    ran = run({**tasks, ("sound-events", "K01"): broken}, SMALL)
    assert ran.failures == {("sound-events", "K01"): "K01.mp4 is empty"}
    outcome = report_coverage(ran, actions, SMALL, settings={})
    assert "left out: K01 (sound-events): K01.mp4 is empty" in outcome.notes
    with pytest.raises(EarmarkError, match="nothing could be evaluated"):
        report_coverage(BenchmarkRun(), actions, SMALL, settings={})


def test_a_recording_without_actions_is_a_dash():
    silent = case("12..", *())
    rows = run_case(silent, ["rank"], [0.5])
    assert math.isnan(rows[0].counts.coverage)


def test_rows_are_read_back_as_written(tmp_path: Path):
    actions, events = kitchen(2)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    ran = run(tasks, SMALL, folder=tmp_path)
    again = read_rows(tmp_path / PER_RECORDING)
    assert len(again) == len(ran.rows)
    assert again == ran.rows
    (tmp_path / PER_RECORDING).write_text("who,what\n1,2\n")
    with pytest.raises(RunError, match=r"is no per_recording.csv .*: it has no column recording"):
        read_rows(tmp_path / PER_RECORDING)
    torn = rows_to_csv(ran.rows)[:-20]
    (tmp_path / PER_RECORDING).write_text(torn[: torn.rindex(",")] + "\n")
    with pytest.raises(RunError, match=r"is no per_recording.csv of an evaluation"):
        read_rows(tmp_path / PER_RECORDING)
    with pytest.raises(RunError, match=r"cannot read .*absent.csv: No such file"):
        read_rows(tmp_path / "absent.csv")


def test_a_design_is_checked():
    with pytest.raises(ValueError, match="no rule 'best'; there are uniform"):
        BenchmarkDesign(rules=("best",))
    with pytest.raises(ValueError, match=r"a budget lies above 0 % and up to 100 %, not 150 %"):
        BenchmarkDesign(budgets=(1.5,))
    with pytest.raises(ValueError, match="at least one rule and one budget"):
        BenchmarkDesign(rules=())
    with pytest.raises(ValueError, match="no rule 'worst'"):
        BenchmarkDesign(baseline="worst")


def test_a_rule_that_was_not_run_is_replaced_and_the_notes_say_so():
    actions, events = kitchen(3)
    tasks = FittedScores(actions, events, split_for_fitting(actions)).tasks()
    design = BenchmarkDesign(rules=("strata", "rank"), budgets=(0.25,))
    outcome = report_coverage(run(tasks, design), actions, design, settings={})
    assert "the rule coverage was not run, so rank stands in its place" in outcome.notes
    assert "the rule uniform was not run, so strata stands in its place" in outcome.notes


def test_names_with_commas_survive_a_resumed_run(tmp_path: Path):
    actions, events = kitchen(2)
    names = {"K00": "shift 1, morning", "K01": 'the "long" one'}
    renamed = [
        Annotations(
            {names[n]: a for n, a in each.recordings.items()},
            {names[n]: d for n, d in each.durations.items()},
        )
        for each in (actions, events)
    ]
    tasks = FittedScores(*renamed, split_for_fitting(renamed[0])).tasks()
    first = run(tasks, SMALL, folder=tmp_path)
    again = run(dict.fromkeys(tasks, lambda: pytest.fail("judged twice")), SMALL, folder=tmp_path)
    assert [row.recording for row in again.rows] == [row.recording for row in first.rows]
    assert again.rows == first.rows
