"""The rules by name."""

from __future__ import annotations

from typing import Any

from earmark.selection.pick import Rule
from earmark.selection.rules.aks import Aks
from earmark.selection.rules.bolt import Bolt
from earmark.selection.rules.coverage import Coverage
from earmark.selection.rules.facility import Facility
from earmark.selection.rules.full import Full
from earmark.selection.rules.random_spans import RandomSpans
from earmark.selection.rules.rank import Rank
from earmark.selection.rules.separated import MinimumSeparation
from earmark.selection.rules.strata import Strata
from earmark.selection.rules.uniform import Uniform

RULES: dict[str, type[Rule]] = {
    "full": Full,
    "uniform": Uniform,
    "strata": Strata,
    "random": RandomSpans,
    "rank": Rank,
    "separated": MinimumSeparation,
    "aks": Aks,
    "bolt": Bolt,
    "facility": Facility,
    "coverage": Coverage,
}
"""Every rule a user may name. The ceiling (`Oracle`) reads the answers and is not among them."""

BLIND = (Full, Uniform, Strata, RandomSpans)
"""Rules that do not look at scores or rates, and so need no evidence."""


def selector(name: str, **options: Any) -> Rule:
    """The rule called `name`, with `options` as its fields.

    >>> selector("separated", separation=3)
    MinimumSeparation(separation=3)
    """
    if name not in RULES:
        raise ValueError(f"there is no rule {name!r}; the rules are {', '.join(RULES)}")
    return RULES[name](**options)


def name_of(rule: Rule) -> str:
    """The name a rule is registered under; its class's name if it is not."""
    names = {made: name for name, made in RULES.items()}
    return names.get(type(rule), type(rule).__name__.lower())
