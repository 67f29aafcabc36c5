"""The plan of one round: why each pick is in it, and which are asked now."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from drawing import windows
from earmark import Budget
from earmark.selection import allocate
from earmark.selection.allocation import Choice
from earmark.selection.answer_evidence import ObservedActivity
from earmark.selection.rounds import Turn, choose_round, limit_to_round
from earmark.selection.rules.coverage import Coverage
from earmark.selection.rules.spacing import Uniform


def plan(drawing: str, calls: int) -> Choice:
    (choice,) = allocate(Uniform(), [windows(drawing)], Budget(count=calls))
    return choice


def test_a_pick_between_answers_says_what_these_are() -> None:
    heard = windows("123456789")
    answers = [ObservedActivity(0, "a"), ObservedActivity(4, "b")]
    spend = partial(allocate, Uniform(), budget=Budget(count=9))
    (choice,), _ = choose_round(spend, [heard], [answers], Turn(2, 1.0), agree=str.__eq__)
    before = plan("123456789", 9).picks
    ending = ", between answers that differ"
    assert [pick.reason.endswith(ending) for pick in choice.picks] == [
        place in (1, 2, 3) for place in range(9)
    ]
    assert [
        replace(pick, reason=old.reason) for pick, old in zip(choice.picks, before, strict=True)
    ] == before


def test_what_is_paid_stays_and_the_rest_comes_by_the_share_of_the_round() -> None:
    choice = plan("12345678", 8)
    paid = [ObservedActivity(0, "a"), ObservedActivity(1, "b"), ObservedActivity(9, "c")]
    now = limit_to_round(choice, paid, Turn(2, 0.5))
    assert [pick.window for pick in now.picks] == [0, 1, 2, 7]
    assert [pick.window for pick in limit_to_round(choice, paid, Turn(1, 0.25)).picks] == [0, 1]
    assert limit_to_round(choice, paid, Turn(3, 1.0)) == choice


@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("activities", ["abcdefgh", "--------"])
def test_a_forecast_is_a_share_of_what_the_sound_lets_expect(activities, share) -> None:
    """However busy the answers say it is, and however many of the picks are asked now."""
    heard = windows("4567" * 4)
    paid = [ObservedActivity(2 * k, said) for k, said in enumerate(activities)]
    spend = partial(allocate, Coverage(), budget=Budget(price=0.01))
    (choice,), _ = choose_round(
        spend, [heard], [paid], Turn(2, share), agree=str.__eq__, is_priced=True
    )
    places = [pick.window for pick in choice.picks]
    alone = Coverage().explain(heard, places)
    assert [pick.expected for pick in choice.picks] == [pick.expected for pick in alone]
    assert sum(pick.expected for pick in choice.picks) <= heard.rates.sum() + 1e-9
