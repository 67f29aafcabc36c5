"""Spends a budget on one or many recordings by any rule.

A rule that handles one recording at a time is run with several budgets:

    expected │        ╭──●      The hull of each recording is a chain of steps, ever flatter. A
     actions │   ●───╯ ·        price buys the steps that bring more than it a call; a budget buys
             │  ╱  ·            the steepest of all recordings until it is spent.
             │ ╱ ·
             ●──────────── calls
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick, gains, places_of
from earmark.selection.rule import ArchiveRule, Rule, Weights, is_blind, rule_name, rule_named
from earmark.timeline import FloatArray, IndexArray

PROBES = 16
ROUNDS = 4
"""Each round narrows the calls of a recording eightfold."""


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
            yield _make_choice(rule, windows, even or picks, own_budget, lacks_evidence=is_even)
        return

    def safe_rule(windows: Windows, *, budget: int) -> list[Pick]:
        used = rule_named("strata") if _lacks_evidence(rule, windows) else rule
        return used(windows, budget=budget)

    if own_budget is not None and own_budget.price is None:
        shares: Iterable[int] = (own_budget.calls(len(windows)) for windows in many)
    else:
        shares = share_calls(safe_rule, many, budget, weights)
    for windows, calls in zip(many, shares, strict=True):
        lacks_evidence = _lacks_evidence(rule, windows)
        picks = safe_rule(windows, budget=calls)
        yield _make_choice(rule, windows, picks, own_budget, lacks_evidence=lacks_evidence)


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


@dataclass(slots=True, eq=False)
class Curve:
    windows: int
    weight: float = 1.0
    budgets: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    calls: IndexArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    worth: FloatArray = field(default_factory=lambda: np.zeros(1))

    def probe(self, rule: Rule, windows: Windows, *, near: int) -> None:
        low = self.budgets[max(0, int(np.searchsorted(self.budgets, near)) - 1)]
        high = min(self.budgets[self.budgets > near], default=self.windows)
        candidates = np.linspace(low, high, PROBES + 1).round().astype(np.intp)
        untried = np.setdiff1d(candidates, self.budgets)
        chosen = [places_of(windows, rule(windows, budget=calls)) for calls in untried.tolist()]
        worth = [self.weight * float(gains(windows, places).sum()) for places in chosen]
        order = np.argsort(budgets := np.concatenate([self.budgets, untried]))
        self.budgets = budgets[order]
        self.calls = np.append(self.calls, np.array([*map(len, chosen)], dtype=np.intp))[order]
        self.worth = np.append(self.worth, worth)[order]

    def steps(self) -> tuple[IndexArray, FloatArray]:
        """Calls of each step of the upper hull, and the gain per call in it, decreasing."""
        best = dict(sorted(zip(self.calls.tolist(), self.worth.tolist(), strict=True)))
        edge: list[tuple[int, float]] = []
        for point in best.items():  # the most that each number of calls brings
            while len(edge) > 1 and _slope(edge[-2], edge[-1]) <= _slope(edge[-1], point):
                edge.pop()
            edge.append(point)
        corners = np.array(edge)
        width = np.diff(corners[:, 0])
        return width.astype(np.intp), np.diff(corners[:, 1]) / width


def _slope(left: tuple[int, float], right: tuple[int, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def share_calls(
    rule: Rule, many: Collection[Windows], budget: Budget, weights: Weights = None
) -> list[int]:
    values = [1.0] * len(many) if weights is None else weights
    curves = [Curve(len(windows), value) for windows, value in zip(many, values, strict=True)]
    calls = [0] * len(curves)
    for _ in range(ROUNDS):
        for windows, curve, near in zip(many, curves, calls, strict=True):
            curve.probe(rule, windows, near=near)
        steps = [curve.steps() for curve in curves]
        if budget.price is not None:
            calls = [int(width[slope > budget.price].sum()) for width, slope in steps]
        else:
            calls = _buy_steepest(steps, budget.calls(sum(curve.windows for curve in curves)))
    return calls


def _buy_steepest(steps: Sequence[tuple[IndexArray, FloatArray]], budget: int) -> list[int]:
    """Steps with equal gain are bought in proportion."""
    owner = np.repeat(np.arange(len(steps)), [len(width) for width, _ in steps])
    width = np.concatenate([np.zeros(0, np.intp), *(width for width, _ in steps)])
    slope = np.concatenate([np.zeros(0), *(slope for _, slope in steps)])
    steepest = np.argsort(-slope, kind="stable")
    total = np.cumsum(width[steepest])
    if len(total) and budget < total[-1]:
        last = slope[steepest[np.searchsorted(total, budget)]]
        tied = slope == last
        rest = budget - int(width[slope > last].sum())
        filled = np.cumsum(width[tied]) * rest // width[tied].sum()
        width = np.where(slope > last, width, 0)
        width[tied] = np.diff(filled, prepend=0)
    bought: list[int] = np.bincount(owner, width, minlength=len(steps)).astype(np.intp).tolist()
    return bought
