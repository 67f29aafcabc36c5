"""The rules by name, open to other packages by entry points."""

from __future__ import annotations

from typing import Any

from earmark.models.registry import Registry
from earmark.selection.rule import Rule

_HERE = "earmark.selection.rules"

RULES: Registry[type[Rule]] = Registry(
    "earmark.rules",
    {
        "full": f"{_HERE}.full:Full",
        "uniform": f"{_HERE}.uniform:Uniform",
        "strata": f"{_HERE}.strata:Strata",
        "random": f"{_HERE}.random_spans:RandomSpans",
        "rank": f"{_HERE}.rank:Rank",
        "separated": f"{_HERE}.separated:MinimumSeparation",
        "aks": f"{_HERE}.aks:Aks",
        "bolt": f"{_HERE}.bolt:Bolt",
        "facility": f"{_HERE}.facility:Facility",
        "coverage": f"{_HERE}.coverage:Coverage",
    },
    kind="rule",
)
"""Every rule a user may name. The ceiling (`Oracle`) reads the answers and is not among them."""


def rule_name(rule: Rule) -> str:
    """The name a rule is registered under; its class's in lower case if it is not."""
    kind = type(rule)
    place = f"{kind.__module__}:{kind.__qualname__}"
    # An item is a class that was looked up, or the place of one that was not.
    names = (name for name, item in dict.items(RULES) if item in (kind, place))
    return next(names, kind.__name__.lower())


def rule_named(name: str | Rule, **options: Any) -> Rule:
    """The rule called `name`, with `options` as its fields; a rule is given back as it is.

    >>> rule_named("separated", separation=3)
    MinimumSeparation(separation=3)
    """
    return RULES.named(name)(**options) if isinstance(name, str) else name
