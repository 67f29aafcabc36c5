"""Rules that spend a budget of calls."""

from earmark.select.budget import Budget
from earmark.select.choose import (
    Choice,
    check_spendable,
    choose,
    choose_across,
    choose_each,
    choosing_across,
    choosing_each,
)
from earmark.select.coverage import Coverage
from earmark.select.forecast import calls_for, forecast, ladder
from earmark.select.left_out import left_out
from earmark.select.oracle import Oracle
from earmark.select.pick import Pick, Selector
from earmark.select.registry import SELECTORS, name_of, selector
from earmark.select.selection import LeftOut

__all__ = [
    "SELECTORS",
    "Budget",
    "Choice",
    "Coverage",
    "LeftOut",
    "Oracle",
    "Pick",
    "Selector",
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
