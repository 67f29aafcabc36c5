"""The contract of a rule, what else a rule may offer, and the rules by name.

A custom rule needs only `__call__`; it then works with every kind of budget, and across recordings.
Further abilities are read from attributes of the rule, never from its type.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from earmark.features.encoder import option_types, parse_options, split_name
from earmark.grid import Windows
from earmark.models.registry import Registry
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick

Weights = Sequence[float] | None
"""Value of an action in each recording relative to the others; None if equal."""


class Rule(Protocol):
    """Chooses the windows worth a call.

    Returns picks of distinct windows of the grid in increasing order, exactly
    `min(budget, len(windows))` of them unless the rule's own documentation says it may leave
    calls unspent; the same input gives the same picks; the input is not written to. A budget
    below 0 is a `ValueError`.

    Two class attributes are read if a rule has them:

    - `is_blind = True`: it reads neither scores nor rates, so nothing need be listened to.
    - `fixed_budget = Budget(...)`: it is spent instead of any budget asked for.
    """

    def __call__(self, windows: Windows, *, budget: int) -> list[Pick]: ...


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
    return bool(getattr(rule, "is_blind", False))


_HERE = "earmark.selection.rules"

RULES: Registry[type[Rule]] = Registry(
    "earmark.rules",
    {
        "full": f"{_HERE}.spacing:Full",
        "uniform": f"{_HERE}.spacing:Uniform",
        "strata": f"{_HERE}.spacing:Strata",
        "random": f"{_HERE}.ranking:RandomSpans",
        "rank": f"{_HERE}.ranking:Rank",
        "separated": f"{_HERE}.ranking:MinimumSeparation",
        "coverage": f"{_HERE}.coverage:Coverage",
    },
    kind="rule",
)
"""Every rule a user may name; not the ceiling of the lab, which reads the answers."""


def rule_name(rule: Rule) -> str:
    """With the options that are not its defaults, as `rule_named` reads it."""
    kind = type(rule)
    place = f"{kind.__module__}:{kind.__qualname__}"
    # An item is a class that was looked up, or the place or entry point of one that was not.
    items = ((name, getattr(item, "value", item)) for name, item in dict.items(RULES))
    names = (name for name, item in items if item in (kind, place))
    name = next(names, kind.__name__.lower())
    options: tuple[Field[Any], ...] = fields(rule) if is_dataclass(rule) else ()
    for option in options:
        value = getattr(rule, option.name)
        name += "" if option.default in (MISSING, value) else f":{option.name}={value}"
    return name


def rule_named(name: str | Rule, **options: Any) -> Rule:
    """The rule called `name`, with `options` as its fields; a rule is given back as it is.

    Options may also follow the name, after colons.

    >>> rule_named("separated", delta=3) == rule_named("separated:delta=3")
    True
    """
    if not isinstance(name, str):
        return name
    word, written = split_name(name)
    kind = RULES.named(word)
    return kind(**parse_options(word, option_types(kind), written), **options)


def with_own_delta(rule: str, separation: int | None) -> str:
    """`separated:delta=gate` with the separation that was fitted to a gate; others as they are."""
    head, sign, _ = rule.partition(":delta=gate")
    if sign and separation is None:
        raise ValueError(
            f"{rule}: only a trained gate has a separation of its own; give a number, such as "
            f"{head}:delta=2"
        )
    return f"{head}:delta={separation}" if sign else rule
