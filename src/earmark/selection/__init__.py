from earmark.selection.allocation import Choice, allocate
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick
from earmark.selection.rule import (
    RULES,
    ArchiveRule,
    Rule,
    is_blind,
    rule_name,
    rule_named,
    with_own_delta,
)
from earmark.selection.rules.coverage import Coverage

__all__ = [
    "RULES",
    "ArchiveRule",
    "Budget",
    "Choice",
    "Coverage",
    "Pick",
    "Rule",
    "allocate",
    "is_blind",
    "rule_name",
    "rule_named",
    "with_own_delta",
]
