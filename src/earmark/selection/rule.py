"""The contract of a rule, and what else a rule may offer.

A custom rule needs only `__call__`; it then works with every kind of budget, and across recordings.
Further abilities are read from attributes of the rule, never from its type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick

Weights = Sequence[float] | None
"""Value of an action in each recording relative to the others; None where equal."""


class Rule(Protocol):
    """Chooses the windows worth a call.

    Returns picks of distinct windows of the grid in increasing order, exactly
    `min(budget, len(windows))` of them unless the rule's own documentation says it may leave
    calls unspent; the same input gives the same picks; the input is not written to. A budget
    below 0 is a `ValueError`.

    Three class attributes are read where a rule has them:

    - `is_blind = True`: it reads neither scores nor rates, so nothing need be listened to.
    - `fixed_budget = Budget(...)`: it is spent instead of any budget asked for.
    - `places_freely = True`: it reads `Windows.per_call`, so windows may begin at any step.
    """

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]:
        """The best picks for `budget` calls."""
        ...


@runtime_checkable
class ArchiveRule(Protocol):
    """A rule that spends a budget over many recordings itself, better than one at a time could."""

    def solve_many(
        self,
        many: Collection[Windows],
        budget: Budget,
        *,
        across: bool = False,
        weights: Weights = None,
    ) -> Sequence[NDArray[np.integer]]:
        """The windows picked in each recording, increasing; arguments as those of `allocate`."""
        ...

    def explain(self, windows: Windows, chosen: NDArray[np.integer]) -> list[Pick]:
        """The picks of one recording, of the windows that `solve_many` chose in it."""
        ...


def is_blind(rule: Rule) -> bool:
    """Whether `rule` reads neither scores nor rates, and so needs no evidence."""
    return bool(getattr(rule, "is_blind", False))


def places_freely(rule: Rule) -> bool:
    """Whether `rule` can choose among windows that lie on no grid."""
    return bool(getattr(rule, "places_freely", False))
