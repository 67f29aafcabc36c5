"""Draws timelines as text: one character is one window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection.rule import Rule

SHORT = Survival.lognormal(median=2.0, sigma=1.0)


def windows(
    drawing: str, *, length: float = 4.0, survival: Survival = SHORT, rates: Sequence[float] = ()
) -> Windows:
    """Windows whose scores are the digits of `drawing` over ten; a dot is 0.

    The rates are the scores unless given.
    """
    scores = np.array([0 if sign == "." else int(sign) for sign in drawing], dtype=float) / 10
    return Windows(
        length=length,
        duration=len(drawing) * length,
        scores=scores,
        instants=(np.arange(len(drawing)) + 0.5) * length,
        rates=np.array(rates, dtype=float) if len(rates) else scores,
        lengths=survival,
    )


def picked(rule: Rule, drawing: str, *, budget: int) -> str:
    """The picks of `rule` on the drawing, as carets beneath it."""
    chosen = {pick.window for pick in rule(windows(drawing), budget=budget)}
    return "".join("^" if place in chosen else "." for place in range(len(drawing)))
