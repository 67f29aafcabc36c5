"""Any rule spends any budget, never worse than blind, and never silent about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from drawing import windows
from earmark import Budget, Pick
from earmark.grid import Windows
from earmark.selection import (
    RULES,
    ArchiveRule,
    Choice,
    Coverage,
    Rule,
    allocate,
    is_blind,
    rule_named,
)
from earmark.selection.rule import rule_name
from earmark.selection.rules.ranking import MinimumSeparation, Rank
from earmark.selection.rules.spacing import Full, Strata
from earmark_lab.rules import Aks
from reckoning import rated

FLAT, SILENT = windows("55555555"), windows("........")


def choose(rule: Rule, recording: Windows, budget: str) -> Choice:
    (choice,) = allocate(rule, [recording], Budget.parse(budget))
    return choice


def share(rule: Rule, many: list[Windows], budget: str, **options) -> list[Choice]:
    return list(allocate(rule, many, Budget.parse(budget), across=True, **options))


def chosen(picks: list[Pick]) -> list[int]:
    return [pick.window for pick in picks]


@pytest.mark.parametrize("recording", [FLAT, SILENT], ids=["flat", "silent"])
@pytest.mark.parametrize("name", RULES)
def test_without_evidence_strata_is_used_and_said(name: str, recording: Windows) -> None:
    rule = rule_named(name)
    choice = choose(rule, recording, "3")
    if is_blind(rule):
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
    choice = choose(rule_named(name), recording, "25%")
    assert (choice.rule_used, choice.note) == (name, "")
    assert choice.picks == rule_named(name)(recording, budget=2)


@pytest.mark.parametrize("name", RULES)
def test_one_window_needs_no_evidence(name: str) -> None:
    choice = choose(rule_named(name), windows("5"), "1")
    assert (choice.rule_used, choice.note, chosen(choice.picks)) == (name, "", [0])
    assert choice.picks == rule_named(name)(windows("5"), budget=1)


def test_a_share_that_comes_to_no_call_says_so() -> None:
    choice = choose(Rank(), windows("12345678"), "5%")
    assert choice.picks == []
    assert choice.note.startswith("5% of the windows is less than one call; spend one budget")


def test_calls_left_unspent_are_counted() -> None:
    choice = choose(MinimumSeparation(), windows("19191"), "4")
    assert (len(choice.picks), choice.note) == (2, "2 of 4 calls left unspent")


def test_no_windows_no_note() -> None:
    for rule in (Coverage(), Rank()):
        choice = choose(rule, windows(""), "4")
        assert (choice.picks, choice.rule_used, choice.note) == (
            [],
            rule_name(rule),
            "",
        )


def test_each_recording_has_its_own_share() -> None:
    many = [windows("12345678"), FLAT, windows("9.9.9.9.9.9.")]
    for rule in (Coverage(), Aks()):
        choices = list(allocate(rule, many, Budget.parse("25%")))
        assert [len(choice.picks) for choice in choices] == [2, 2, 3]
        assert choices == [choose(rule, one, "25%") for one in many]


@pytest.mark.parametrize("name", ["coverage", "rank", "facility"])
def test_a_price_takes_the_calls_that_bring_it(name: str) -> None:
    recording = rated([0.1, 2.0, 0.1, 0.1, 3.0, 0.1])
    choice = choose(rule_named(name), recording, "price=1.5")
    assert (chosen(choice.picks), choice.rule_used) == ([1, 4], name)
    assert choice.note.startswith("calls stop when the next one is expected to bring fewer")
    none = choose(rule_named(name), recording, "price=9")
    assert (none.picks, none.note) == (
        [],
        "no call is expected to bring 9 new actions, so none is made",
    )


def test_across_gives_recordings_without_evidence_their_share() -> None:
    many = [FLAT, windows("9.......9."), SILENT]
    for rule, name in ((Coverage(), "coverage"), (Rank(), "rank")):
        choices = share(rule, many, "6")
        assert sum(len(choice.picks) for choice in choices) == 6
        assert [choice.rule_used for choice in choices] == ["strata", name, name]
        assert choices[0].picks == Strata()(FLAT, budget=len(choices[0].picks))
        assert "strata was used" in choices[0].note
        assert choices[2].picks == []


@pytest.mark.parametrize("name", RULES)
def test_every_rule_spends_a_shared_budget_to_the_call(name: str) -> None:
    rng = np.random.default_rng(3)
    many = [rated(rng.gamma(0.4, 1.0, count)) for count in (40, 0, 300, 1, 90)]
    for budget in ("1", "7", "25%", "150"):
        picks = [choice.picks for choice in share(rule_named(name), many, budget)]
        assert sum(map(len, picks)) == Budget.parse(budget).calls(431)
    few, more = (
        sum(len(choice.picks) for choice in share(rule_named(name), many, budget))
        for budget in ("price=1.0", "price=0.2")
    )
    assert few < more <= 431


@pytest.mark.parametrize("budget", ["7", "25%", "price=0.6"])
def test_a_rule_of_one_recording_gets_the_calls_of_coverage(budget: str) -> None:
    rng = np.random.default_rng(5)
    many = [rated(rng.gamma(0.4, 1.0, count)) for count in (40, 200, 90)]
    best = [len(choice.picks) for choice in share(Coverage(), many, budget)]
    choices = share(Rank(), many, budget)
    assert [len(choice.picks) for choice in choices] == best
    assert [choice.picks for choice in choices] == [
        Rank()(recording, budget=calls) for recording, calls in zip(many, best, strict=True)
    ]


def test_across_takes_shares_and_prices() -> None:
    many = [windows("1234567890"), windows("0987654321")]
    for rule in (Coverage(), Rank()):
        assert sum(len(choice.picks) for choice in share(rule, many, "25%")) == 5
        assert share(rule, many, "price=0.7") == [choose(rule, one, "price=0.7") for one in many]


def test_weights_steer_a_shared_budget_and_nothing_else() -> None:
    many = [windows("1.9.3.5.2."), windows("2.8.4.6.1.")]
    for rule in (Coverage(), Rank()):
        assert [len(one.picks) for one in share(rule, many, "4", weights=[1, 99])] == [0, 4]
        assert share(rule, many, "4", weights=[3, 3]) == share(rule, many, "4")
        alone = allocate(rule, many, Budget(count=2), weights=[1, 99])
        assert list(alone) == [choose(rule, one, "2") for one in many]


@dataclass(frozen=True, slots=True)
class Reread(Collection[Windows]):
    """Recordings that are made anew each time they are gone over, as if read from a database."""

    seeds: tuple[int, ...]
    alive: list[int]

    def __len__(self) -> int:
        return len(self.seeds)

    def __contains__(self, _: object) -> bool:
        return False

    def __iter__(self) -> Iterator[Windows]:
        for seed in self.seeds:
            self.alive.append(seed)
            yield rated(np.random.default_rng(seed).gamma(1.0, 1.0, 30 + seed))


@pytest.mark.parametrize("name", ["coverage", "rank"])
@pytest.mark.parametrize("across", [True, False])
def test_choices_are_made_a_recording_at_a_time(name: str, across: bool) -> None:
    many = Reread((1, 2, 3, 4), [])
    choices = allocate(rule_named(name), many, Budget.parse("30%"), across=across)
    first = next(choices)
    assert many.alive[-1] == 1, "the others have not been read again when the first is given"
    held = list(many)
    rest = list(choices)
    assert [first, *rest] == list(
        allocate(rule_named(name), held, Budget.parse("30%"), across=across)
    )


def test_what_a_rule_offers_is_read_from_it() -> None:
    blind = {name for name in RULES if is_blind(rule_named(name))}
    assert blind == {"full", "uniform", "strata"}
    assert Full.fixed_budget == Budget(share=1.0)
    assert {name for name in RULES if hasattr(rule_named(name), "fixed_budget")} == {"full"}
    assert {name for name in RULES if isinstance(rule_named(name), ArchiveRule)} == {"coverage"}


def test_names_are_looked_up_in_one_place() -> None:
    assert rule_named("separated", delta=3) == MinimumSeparation(3)
    assert [rule_name(rule()) for rule in RULES.values()] == list(RULES)
    with pytest.raises(ValueError, match=r"no rule 'best'; the rules are full, .*coverage"):
        rule_named("best")
    assert "oracle" not in RULES


def test_rates_that_are_flat_while_scores_are_not_are_told_with_the_rule_that_works():
    drawing = "19181716" * 4
    flat = windows(drawing, rates=[0.5] * 31 + [0.1])
    (choice,) = allocate(Coverage(), [flat], Budget.parse("25%"))
    assert "use --rule rank" in choice.note and choice.rule_used == "coverage"
    (told,) = allocate(Coverage(), [windows(drawing)], Budget.parse("25%"))
    (ranked,) = allocate(rule_named("rank"), [flat], Budget.parse("25%"))
    assert not told.note and not ranked.note
