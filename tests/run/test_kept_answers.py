"""Answered means there is an answer; and what calls cost is known, whatever a server says of it."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from earmark.captioning.dispatch import Tally
from earmark.run.run import Run
from small_runs import PLAN, answer, call, open_run


def spent_before(calls: int, tokens: int, spend: float) -> Tally:
    return Tally(calls_before=calls, tokens_before=tokens, spend_before=spend)


ODD = [math.nan, math.inf, -1.0]


@pytest.mark.parametrize("spend", ODD)
def test_an_answer_with_an_odd_spend_is_kept_at_the_most_it_can_have_cost(
    tmp_path: Path, spend: float
):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1), reserve=(300, 0.5))
        ledger.keep(call(1), answer("a board"), spend=spend)
        assert ledger.unanswered([call(1)]) == []
        with Run(ledger.folder) as run:
            (kept,) = run.answers("a", call(1).span)
            assert (kept.text, run.picks("a")[0].spend) == ("a board", 0.5)


@pytest.mark.parametrize("count", [-5, 10**30, math.nan, "many", [1, 2]])
def test_an_answer_with_odd_tokens_is_kept_and_counted_at_its_reserve(tmp_path: Path, count):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1), reserve=(300, 0.5))
        ledger.keep(call(1), answer("a board", completion_tokens=count), spend=1e24)
        with Run(ledger.folder) as run:
            (kept,) = run.answers("a", call(1).span)
            assert (kept.text, kept.completion_tokens) == ("a board", None)
        assert ledger.spent() == spent_before(1, 300, 0.5)


@pytest.mark.parametrize(
    "fields",
    [{"latency": math.nan}, {"model": "\ud800"}, {"note": "\ud800"}, {"finish": "\udfff"}],
)
def test_no_other_field_of_an_answer_can_lose_it(tmp_path: Path, fields: dict):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.keep(call(1), answer("a board", **fields))
        with Run(ledger.folder) as run:
            assert run.picks("a")[0].status == "answered"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET state = 'answered' WHERE id = 2",
        "UPDATE calls SET state = 'waiting' WHERE id = 1",
        "UPDATE calls SET state = 'lost' WHERE id = 2",
        "INSERT INTO calls VALUES (9, 'x', 1, 0, 1, 'm', 'answered', 0, 0, 0, 0)",
        "DELETE FROM answers",
        "UPDATE answers SET spend = NULL",
        "UPDATE answers SET spend = -1",
        "UPDATE answers SET prompt_tokens = -1",
    ],
)
def test_the_tables_refuse_what_must_not_be(tmp_path: Path, statement: str):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.keep(call(1), answer("a board"))
    with closing(sqlite3.connect(tmp_path / "run.db")) as database:
        assert database.execute("SELECT count(*) FROM calls").fetchone() == (2,)
        with pytest.raises(sqlite3.IntegrityError):
            database.execute(statement)


def test_a_call_sent_though_it_is_answered_stays_answered(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.keep(call(1), answer("a board"))
        ledger.begin(call(1))
    with Run(tmp_path, PLAN) as ledger:
        assert ledger.unanswered([call(1)]) == []


def test_what_was_spent_counts_every_process_and_what_nobody_counted(tmp_path: Path):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1), reserve=(300, 0.5))
        ledger.keep(call(1), answer("a board"), spend=0.25)  # 110 tokens
        ledger.begin(call(3), reserve=(300, 0.5))
        ledger.fail(call(3), "no text", tokens=(40, 2), spend=0.125)
        ledger.begin(call(3), reserve=(300, 0.5))  # and the process dies
    with Run(tmp_path, PLAN | {"budget": 3}) as ledger:
        spent = ledger.spent()
        assert spent == spent_before(3, 110 + 42 + 300, 0.875)
        ledger.begin(call(5), reserve=(300, 0.5))
        ledger.keep(call(5), replace(answer("loud"), kind="tags", prompt_tokens=None))
        assert ledger.spent() == spent, "tags ask nobody"


def test_answers_kept_together_are_committed_when_the_block_ends(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        for number in (1, 3):
            ledger.begin(call(number))
        with ledger.together():
            ledger.keep(call(1), answer("a board"))
            with ledger.together():
                ledger.fail(call(3), "no text")
            assert run.totals().answered == 0
        assert [row.status for row in run.picks("a")] == ["answered", "failed"]


def test_one_that_cannot_be_kept_takes_no_other_with_it(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.begin(call(1))
        ledger.begin(call(3))
        with pytest.raises(ValueError, match="was not begun"), ledger.together():
            ledger.keep(call(1), answer("a board"))
            ledger.keep(replace(call(1), identity="unknown"), answer("nothing"))
            ledger.keep(call(3), answer("a drill"))
        assert [row.status for row in run.picks("a")] == ["answered", "answered"]


def test_an_interruption_in_between_keeps_what_had_arrived(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.begin(call(1))
        with pytest.raises(KeyboardInterrupt), ledger.together():
            ledger.keep(call(1), answer("a board"))
            raise KeyboardInterrupt
        assert run.totals().answered == 1


@pytest.mark.parametrize("odd", [None, 0, -1, math.nan, "many"])
def test_a_failure_with_odd_counts_cost_nothing(tmp_path: Path, odd):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.fail(call(1), "no text", tokens=(odd, odd), spend=math.nan)
        assert ledger.spent() == spent_before(1, 0, 0.0)


def test_the_words_of_an_answer_are_found_once_it_is_kept(tmp_path: Path):
    with open_run(tmp_path) as ledger, Run(ledger.folder) as run:
        ledger.begin(call(1))
        for text in ("a board", "a plank"):  # the second is not kept
            ledger.keep(call(1), answer(text))
        assert (len(run.search("board")), len(run.search("plank"))) == (1, 0)


@pytest.mark.parametrize("odd", [-1.0, math.nan, math.inf])
def test_a_latency_that_cannot_be_is_none(tmp_path: Path, odd: float):
    with open_run(tmp_path) as ledger:
        ledger.begin(call(1))
        ledger.keep(call(1), answer("hammer", latency=odd))
        with Run(ledger.folder) as run:
            first, _ = run.picks("a")
    assert first.answer is not None
    assert first.answer.latency == 0.0
