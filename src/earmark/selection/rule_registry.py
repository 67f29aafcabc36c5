"""The rules by name, open to other packages by entry points."""

from __future__ import annotations

from typing import Any

from earmark.models.registry import Registry
from earmark.selection.rule import Rule
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

RULES: Registry[type[Rule]] = Registry(
    "earmark.rules",
    {
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
    },
    kind="rule",
)
"""Every rule a user may name. The ceiling (`Oracle`) reads the answers and is not among them."""


def rule_name(rule: Rule) -> str:
    """The name a rule is registered under; its class's in lower case if it is not."""
    names = {kind: name for name, kind in dict.items(RULES)}  # what is loaded: it is in use
    return names.get(type(rule), type(rule).__name__.lower())


def rule_named(name: str | Rule, **options: Any) -> Rule:
    """The rule called `name`, with `options` as its fields; a rule is given back as it is.

    >>> rule_named("separated", separation=3)
    MinimumSeparation(separation=3)
    """
    return RULES.named(name)(**options) if isinstance(name, str) else name
