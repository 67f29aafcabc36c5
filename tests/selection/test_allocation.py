"""Never worse than blind, and never silent about it."""

from __future__ import annotations

import pytest

from drawing import windows
from earmark.grid import Windows
from earmark.selection import RULES, Budget, Coverage, choose, choose_across, choose_each
from earmark.selection.pick import Pick
from earmark.selection.rule_registry import BLIND, name_of, selector
from earmark.selection.rules.aks import Aks
from earmark.selection.rules.rank import Rank
from earmark.selection.rules.separated import MinimumSeparation
from earmark.selection.rules.strata import Strata
from earmark.selection.rules.uniform import Uniform
from reckoning import rated

FLAT, SILENT = windows("55555555"), windows("........")


def chosen(picks: list[Pick]) -> list[int]:
    return [pick.window for pick in picks]


@pytest.mark.parametrize("recording", [FLAT, SILENT], ids=["flat", "silent"])
@pytest.mark.parametrize("name", RULES)
def test_without_evidence_strata_is_used_and_said(name: str, recording: Windows) -> None:
    rule = selector(name)
    choice = choose(rule, recording, 3)
    if isinstance(rule, BLIND):
        assert (choice.rule_used, choice.note) == (name, "")
        assert choice.picks == rule(recording, budget=3)
    else:
        assert choice.rule_used == "strata"
        assert "strata was used" in choice.note
        assert name in choice.note
        assert choice.picks == Strata()(recording, budget=3)


@pytest.mark.parametrize("name", RULES)
def test_with_evidence_the_rule_itself_is_used(name: str) -> None:
    recording = windows("1.5.9.3.")
    choice = choose(selector(name), recording, Budget.parse("25%"))
    assert (choice.rule_used, choice.note) == (name, "")
    assert choice.picks == selector(name)(recording, budget=2)


def test_one_window_needs_no_evidence() -> None:
    choice = choose(Coverage(), windows("5"), 1)
    assert (choice.rule_used, choice.note, chosen(choice.picks)) == ("coverage", "", [0])


def test_a_share_that_comes_to_no_call_says_so() -> None:
    choice = choose(Rank(), windows("12345678"), Budget.parse("5%"))
    assert choice.picks == []
    assert choice.note.startswith("5% of the windows comes to no call; spend one budget")


def test_calls_left_unspent_are_counted() -> None:
    choice = choose(MinimumSeparation(), windows("19191"), 4)
    assert (len(choice.picks), choice.note) == (2, "2 of 4 calls left unspent")


def test_no_windows_no_note() -> None:
    choice = choose(Coverage(), windows(""), 4)
    assert (choice.picks, choice.rule_used) == ([], "coverage")


def test_each_recording_has_its_own_share() -> None:
    many = [windows("12345678"), FLAT, windows("9.9.9.9.9.9.")]
    for rule in (Coverage(), Aks()):
        choices = choose_each(rule, many, Budget.parse("25%"))
        assert [len(choice.picks) for choice in choices] == [2, 2, 3]
        assert choices == [choose(rule, one, Budget.parse("25%")) for one in many]


def test_a_price_needs_coverage() -> None:
    recording = rated([0.1, 2.0, 0.1, 0.1, 3.0, 0.1])
    assert chosen(choose(Coverage(), recording, Budget.parse("price=1.5")).picks) == [1, 4]
    with pytest.raises(ValueError, match="rule rank knows no price"):
        choose(Rank(), recording, Budget.parse("price=1.5"))


def test_across_gives_recordings_without_evidence_their_share() -> None:
    many = [FLAT, windows("9.......9."), SILENT]
    choices = choose_across(many, 6)
    assert sum(len(choice.picks) for choice in choices) == 6
    assert [choice.rule_used for choice in choices] == ["strata", "coverage", "coverage"]
    assert choices[0].picks == Strata()(FLAT, budget=len(choices[0].picks))
    assert "strata was used" in choices[0].note
    assert choices[2].picks == []


def test_across_takes_shares_and_prices() -> None:
    many = [windows("1234567890"), windows("0987654321")]
    assert sum(len(choice.picks) for choice in choose_across(many, Budget.parse("25%"))) == 5
    priced = choose_across(many, Budget.parse("price=0.7"))
    assert [choice.picks for choice in priced] == Coverage().at_price(many, price=0.7)


def test_only_coverage_can_share_one_budget() -> None:
    with pytest.raises(ValueError, match="rule uniform cannot share one budget"):
        choose_across([FLAT], 3, rule=Uniform())


def test_names_are_looked_up_in_one_place() -> None:
    assert selector("separated", separation=3) == MinimumSeparation(3)
    assert [name_of(rule()) for rule in RULES.values()] == list(RULES)
    with pytest.raises(ValueError, match=r"no rule 'best'; the rules are full, .*coverage"):
        selector("best")
    assert "oracle" not in RULES
