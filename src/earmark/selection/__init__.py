"""Rules that spend a budget of calls."""

from earmark.selection.allocation import Choice, allocate
from earmark.selection.budget import Budget
from earmark.selection.pick import Pick
from earmark.selection.rule import ArchiveRule, Rule, is_blind, places_freely
from earmark.selection.rule_registry import RULES, rule_name, rule_named
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
    "places_freely",
    "rule_name",
    "rule_named",
]
