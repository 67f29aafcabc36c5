"""The rules by name."""

from __future__ import annotations

from typing import Any

from earmark.select.aks import Aks
from earmark.select.bolt import Bolt
from earmark.select.coverage import Coverage
from earmark.select.facility import Facility
from earmark.select.full import Full
from earmark.select.pick import Selector
from earmark.select.random_spans import RandomSpans
from earmark.select.rank import Rank
from earmark.select.separated import MinimumSeparation
from earmark.select.strata import Strata
from earmark.select.uniform import Uniform

SELECTORS: dict[str, type[Selector]] = {
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


def selector(name: str, **options: Any) -> Selector:
    """The rule called `name`, with `options` as its fields.

    >>> selector("separated", separation=3)
    MinimumSeparation(separation=3)
    """
    if name not in SELECTORS:
        raise ValueError(f"there is no rule {name!r}; the rules are {', '.join(SELECTORS)}")
    return SELECTORS[name](**options)


def name_of(rule: Selector) -> str:
    """The name a rule is registered under; its class's name if it is not."""
    names = {made: name for name, made in SELECTORS.items()}
    return names.get(type(rule), type(rule).__name__.lower())
