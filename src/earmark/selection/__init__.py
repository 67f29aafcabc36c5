"""Rules that spend a budget of calls."""

from earmark.selection.allocation import (
    Choice,
    check_spendable,
    choose,
    choose_across,
    choose_each,
    choosing_across,
    choosing_each,
)
from earmark.selection.budget import Budget
from earmark.selection.coverage_forecast import calls_for, forecast, ladder
from earmark.selection.left_out import left_out
from earmark.selection.pick import Pick, Rule
from earmark.selection.result import LeftOut
from earmark.selection.rule_registry import RULES, name_of, selector
from earmark.selection.rules.coverage import Coverage
from earmark.selection.rules.oracle import Oracle

__all__ = [
    "RULES",
    "Budget",
    "Choice",
    "Coverage",
    "LeftOut",
    "Oracle",
    "Pick",
    "Rule",
    "calls_for",
    "check_spendable",
    "choose",
    "choose_across",
    "choose_each",
    "choosing_across",
    "choosing_each",
    "forecast",
    "ladder",
    "left_out",
    "name_of",
    "selector",
]
