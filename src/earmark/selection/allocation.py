"""Spends a budget on one or many recordings by any rule.

Under a price, or one budget for all, a rule that handles one recording at a time gets as many calls
in each recording as the rule `coverage` would make there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick
from earmark.selection.rule import ArchiveRule, Rule, Weights, is_blind, rule_name, rule_named
from earmark.selection.rules.coverage import Coverage

FLAT_RATES = (
    "the gate expects nearly the same number of actions in every window although its scores "
    "differ, so picks are evenly spaced; it was calibrated on other material: use --rule rank"
)

FLATNESS, LEAST_WINDOWS = 0.02, 20
"""Relative spread of the rates below which they count as flat."""


@dataclass(frozen=True, slots=True)
class Choice:
    picks: list[Pick]
    rule_used: str
    """`strata` if the recording gives the requested rule no evidence."""
    note: str = ""
    lacks_evidence: bool = False
    is_overpriced: bool = False


def allocate(
    rule: Rule,
    many: Collection[Windows],
    budget: Budget,
    *,
    across: bool = False,
    weights: Weights = None,
) -> Iterator[Choice]:
    """The picks of each recording in order; without evidence those of `strata`, with a note.

    `many` is iterated a few times and never held together. `weights` decide where shared calls go;
    the picks report expected actions unweighted.
    """
    weights = weights if across else None
    own_budget = None if across and budget.price is None else budget
    if isinstance(rule, ArchiveRule):
        paths = rule.solve_many(many, budget, across=across, weights=weights)
        for windows, path in zip(many, paths, strict=True):
            picks = rule.explain(windows, path)
            even = choose_without_evidence(rule, windows, len(picks))
            is_even = even is not None
            made = _make_choice(rule, windows, even or picks, own_budget, lacks_evidence=is_even)
            is_flat = picks and not made.note and has_flat_rates(windows)
            yield replace(made, note=FLAT_RATES) if is_flat else made
        return

    def safe_rule(windows: Windows, *, budget: int) -> list[Pick]:
        used = rule_named("strata") if _lacks_evidence(rule, windows) else rule
        return used(windows, budget=budget)

    if own_budget is not None and own_budget.price is None:
        shares: Iterable[int] = (own_budget.calls(len(windows)) for windows in many)
    else:
        shares = map(len, Coverage().solve_many(many, budget, across=across, weights=weights))
    for windows, calls in zip(many, shares, strict=True):
        lacks_evidence = _lacks_evidence(rule, windows)
        picks = safe_rule(windows, budget=calls)
        yield _make_choice(rule, windows, picks, own_budget, lacks_evidence=lacks_evidence)


def has_flat_rates(windows: Windows) -> bool:
    """The last rate is ignored: it is smaller if the last window is cut short."""
    rates, scores = windows.rates[:-1], windows.scores[:-1]
    if len(rates) < LEAST_WINDOWS or not rates.mean():
        return False
    spread = float(np.std(rates) / rates.mean())
    return spread < FLATNESS and bool(np.std(scores) > FLATNESS * np.abs(scores).max())


def choose_without_evidence(rule: Rule, windows: Windows, calls: int) -> list[Pick] | None:
    """None if the scores tell `rule` something, or calls are paid that `strata` would not make."""
    if not calls or not _lacks_evidence(rule, windows):
        return None
    picks = rule_named("strata")(windows, budget=calls)
    places = {windows.window_at(pick.start) for pick in picks} if windows.owned else set()
    return picks if places.issuperset(windows.owned) else None


def _lacks_evidence(rule: Rule, windows: Windows) -> bool:
    return len(windows) > 1 and not (windows.has_evidence or is_blind(rule))


def _make_choice(
    rule: Rule, windows: Windows, picks: list[Pick], budget: Budget | None, *, lacks_evidence: bool
) -> Choice:
    name = rule_name(rule)
    if picks and lacks_evidence:
        why = f"every window scores the same, so {name} cannot rank them; strata was used instead"
        return Choice(picks, "strata", why, lacks_evidence=True)
    if budget is None or not len(windows):
        return Choice(picks, name)
    if budget.price is not None:
        minimum = f"{budget.price:g} new actions"
        why = f"calls stop when the next one is expected to bring fewer than {minimum}"
        if not picks:
            why = f"no call is expected to bring {minimum}, so none is made"
            return Choice(picks, name, why, is_overpriced=True)
        return Choice(picks, name, why if len(picks) < len(windows) else "")
    wanted = budget.calls(len(windows))
    if wanted == 0:
        why = (
            f"{budget} of the windows is less than one call; spend one budget across all "
            "recordings, or make 1 call each"
        )
        return Choice(picks, name, why)
    unspent = wanted - len(picks)
    return Choice(picks, name, f"{unspent} of {wanted} calls left unspent" if unspent else "")
