"""Picks that are never worse than blind: what was chosen, by which rule, and why not another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, Rule
from earmark.selection.rule_registry import BLIND, name_of
from earmark.selection.rules.coverage import Coverage, Weights, explained
from earmark.selection.rules.strata import Strata
from earmark.selection.solver import Paths


@dataclass(frozen=True, slots=True)
class Choice:
    """The picks of one recording, and what there is to say about them."""

    picks: list[Pick]
    rule_used: str
    """The name of the rule; not the one asked for where the recording gives it nothing to read."""
    note: str = ""
    """One line for a person; empty if all went as asked."""


def check_spendable(rule: Rule, budget: Budget, *, across: bool = False) -> None:
    """Raise `ValueError` where `rule` cannot spend `budget`, or not across recordings."""
    if isinstance(rule, Coverage):
        return
    if across:
        raise ValueError(
            f"the rule {name_of(rule)} cannot share one budget among recordings; use coverage"
        )
    if budget.price is not None:
        raise ValueError(f"the rule {name_of(rule)} knows no price; give a share or calls")


def choose(rule: Rule, windows: Windows, budget: Budget | int) -> Choice:
    """The picks of one recording by `rule`, or by `strata` where there is no evidence to read."""
    return choose_each(rule, [windows], budget)[0]


def choose_each(rule: Rule, many: Sequence[Windows], budget: Budget | int) -> list[Choice]:
    """The picks of many recordings, each with the same budget."""
    return list(choosing_each(rule, many, budget))


def choose_across(
    many: Sequence[Windows], budget: Budget | int, *, rule: Rule | None = None
) -> list[Choice]:
    """The picks of many recordings that share one budget at one price.

    A recording without evidence takes part with its even rate, and lays the calls it gets by
    `strata`.
    """
    return list(choosing_across(many, budget, rule=rule))


def choosing_each(rule: Rule, many: Sequence[Windows], budget: Budget | int) -> Iterator[Choice]:
    """As `choose_each`, a recording at a time: the picks of an archive need not fit in memory."""
    spent = Budget(count=budget) if isinstance(budget, int) else budget
    check_spendable(rule, spent)
    if isinstance(rule, Coverage):
        for windows, picks in explained(many, _paths(rule, many, spent)):
            yield _settled(rule, windows, picks, spent)
        return
    for windows in many:
        yield _settled(rule, windows, _picks(rule, windows, spent), spent)


def choosing_across(
    many: Sequence[Windows],
    budget: Budget | int,
    *,
    rule: Rule | None = None,
    weights: Weights = None,
) -> Iterator[Choice]:
    """As `choose_across`, a recording at a time; `many` is gone over a few times.

    `weights` steer where the calls go; the picks are told with the actions they are expected to
    touch, and not with what these are worth.
    """
    shared = Coverage() if rule is None else rule
    spent = Budget(count=budget) if isinstance(budget, int) else budget
    check_spendable(shared, spent, across=True)
    assert isinstance(shared, Coverage)
    if spent.price is not None:
        paths = shared.paths_at_price(many, price=spent.price, weights=weights)
    else:
        calls = spent.calls(sum(map(len, many)))
        paths = shared.paths_across(many, budget=calls, weights=weights)
    for windows, picks in explained(many, paths):
        yield _settled(shared, windows, picks, None)


def _paths(rule: Coverage, many: Sequence[Windows], budget: Budget) -> Paths:
    """The picked windows of all recordings, found in one go."""
    if budget.price is not None:
        return rule.paths_at_price(many, price=budget.price)
    return rule.paths_each(many, budgets=[budget.calls(len(windows)) for windows in many])


def _picks(rule: Rule, windows: Windows, budget: Budget) -> list[Pick]:
    """The picks of one recording, by `strata` where there is no evidence to read."""
    blind = isinstance(rule, BLIND) or windows.has_evidence
    return (rule if blind else Strata())(windows, budget=budget.calls(len(windows)))


def _settled(rule: Rule, windows: Windows, picks: list[Pick], budget: Budget | None) -> Choice:
    """The choice, laid blindly where there is no evidence, with what there is to say."""
    name = name_of(rule)
    wanted = None if budget is None or budget.price is not None else budget.calls(len(windows))
    if wanted == 0 and len(windows):
        why = (
            f"{budget} of the windows comes to no call; spend one budget over all recordings with "
            "`--across`, or ask for 1 call each with `--budget 1`"
        )
        return Choice([], name, why)
    sighted = windows.has_evidence or bool(windows.owned) or len(windows) == 1
    if sighted or isinstance(rule, BLIND) or not picks:
        unspent = 0 if wanted is None else wanted - len(picks)
        return Choice(picks, name, f"{unspent} of {wanted} calls left unspent" if unspent else "")
    laid = Strata()(windows, budget=len(picks))
    why = f"every window scores the same, so {name} has nothing to go by: strata was used"
    return Choice(laid, "strata", why)
