"""Rules that spend a budget of calls."""

from earmark.selection.allocation import Choice, allocate
from earmark.selection.budget import Budget
from earmark.selection.coverage_forecast import calls_for, forecast, ladder
from earmark.selection.omissions import left_out
from earmark.selection.pick import Pick
from earmark.selection.result import LeftOut
from earmark.selection.rule import ArchiveRule, Rule, fixed_budget, is_blind, places_freely
from earmark.selection.rule_registry import RULES, rule_name, rule_named
from earmark.selection.rules.coverage import Coverage

__all__ = [
    "RULES",
    "ArchiveRule",
    "Budget",
    "Choice",
    "Coverage",
    "LeftOut",
    "Pick",
    "Rule",
    "allocate",
    "calls_for",
    "fixed_budget",
    "forecast",
    "is_blind",
    "ladder",
    "left_out",
    "places_freely",
    "rule_name",
    "rule_named",
]
