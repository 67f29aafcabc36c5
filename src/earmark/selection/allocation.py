"""Spends a budget on one or many recordings by any rule; falls back to `strata`, with a note."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick
from earmark.selection.rule import ArchiveRule, Rule, Weights, is_blind
from earmark.selection.rule_registry import rule_name, rule_named


@dataclass(frozen=True, slots=True)
class Choice:
    """The picks of one recording, and a note about them."""

    picks: list[Pick]
    rule_used: str
    """Name of the rule that chose; `strata` where the recording gives the requested one no
    evidence."""
    note: str = ""
    """One line for a person; empty if all went as asked."""
    lacks_evidence: bool = False
    """Whether the scores told the rule nothing, so that the picks have no forecast."""
    is_overpriced: bool = False
    """Whether there are no picks because no call is expected to bring its price."""


def allocate(
    rule: Rule,
    many: Collection[Windows],
    budget: Budget,
    *,
    across: bool = False,
    weights: Weights = None,
) -> Iterator[Choice]:
    """The picks of each recording in order, made one recording at a time.

    A recording without evidence gets its calls from `strata`, and its note says so.

    Args:
        rule: Any rule. An `ArchiveRule` solves all recordings together; for any other, a price or a
            shared budget is met by trying budgets: see `envelope`.
        many: The windows of each recording; iterated a few times, and never held together.
        budget: A price, or the calls of each recording.
        across: One budget over all recordings, spent wherever calls are worth most.
        weights: Value of an action in each recording relative to the others; equal if not given.
            They decide where shared calls go. The picks still report expected actions, unweighted.
    """
    weights = weights if across else None
    wanted = None if across and budget.price is None else budget
    if isinstance(rule, ArchiveRule):
        paths = rule.solve_many(many, budget, across=across, weights=weights)
        for windows, path in zip(many, paths, strict=True):
            picks = rule.explain(windows, path)
            blind = choose_without_evidence(rule, windows, len(picks))
            lacks = blind is not None
            yield _make_choice(rule, windows, blind or picks, wanted, lacks_evidence=lacks)
        return

    def safe_rule(windows: Windows, *, budget: int) -> list[Pick]:
        used = rule_named("strata") if _lacks_evidence(rule, windows) else rule
        return used(windows, budget=budget)

    if wanted is not None and wanted.price is None:
        each: Iterable[int] = (wanted.calls(windows.calls) for windows in many)
    else:
        from earmark.selection.envelope import share_calls  # seldom needed

        each = share_calls(safe_rule, many, budget, weights)
    for windows, calls in zip(many, each, strict=True):
        lacks = _lacks_evidence(rule, windows)
        picks = safe_rule(windows, budget=calls)
        yield _make_choice(rule, windows, picks, wanted, lacks_evidence=lacks)


def choose_without_evidence(rule: Rule, windows: Windows, calls: int) -> list[Pick] | None:
    """The picks of `strata` for `calls` calls, where the scores tell `rule` nothing.

    None where the scores do tell it something. None too where calls are already paid that `strata`
    would not make: the rest is then better placed beside those.
    """
    if not calls or not _lacks_evidence(rule, windows):
        return None
    picks = rule_named("strata")(windows, budget=calls)
    places = {windows.window_at(pick.start) for pick in picks} if windows.owned else set()
    return picks if places.issuperset(windows.owned) else None


def _lacks_evidence(rule: Rule, windows: Windows) -> bool:
    """Whether the scores tell `rule` nothing; False for a single window."""
    return len(windows) > 1 and not (windows.has_evidence or is_blind(rule))


def _make_choice(
    rule: Rule, windows: Windows, picks: list[Pick], budget: Budget | None, *, lacks_evidence: bool
) -> Choice:
    """The choice with its note; `budget` is None where recordings share their calls."""
    name = rule_name(rule)
    if picks and lacks_evidence:
        why = f"every window scores the same, so {name} has nothing to go by: strata was used"
        return Choice(picks, "strata", why, lacks_evidence=True)
    if budget is None or not len(windows):
        return Choice(picks, name)
    if budget.price is not None:
        minimum = f"{budget.price:g} new actions"
        why = f"calls stop where the next one is expected to bring fewer than {minimum}"
        if not picks:
            why = f"no call is expected to bring {minimum}, so none is made"
            return Choice(picks, name, why, is_overpriced=True)
        return Choice(picks, name, why if len(picks) < windows.calls else "")
    wanted = budget.calls(windows.calls)
    if wanted == 0:
        why = (
            f"{budget} of the windows comes to no call; spend one budget over all recordings with "
            "`--across`, or ask for 1 call each with `--budget 1`"
        )
        return Choice(picks, name, why)
    unspent = wanted - len(picks)
    return Choice(picks, name, f"{unspent} of {wanted} calls left unspent" if unspent else "")
