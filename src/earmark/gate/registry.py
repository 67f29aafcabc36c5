"""Frontlines by name: the command line, the benchmarks and the docs all look here."""

from __future__ import annotations

from earmark.gate.frontline import Frontline
from earmark.hear import DETECTORS, ENCODERS

AUTO = "auto"
"""The best frontline there is: `flux` until a gate is at hand."""

FRONTLINES = (*ENCODERS,)
"""Every name `frontline_named` knows besides `auto`."""


def frontline_named(name: str) -> Frontline:
    """The frontline called `name`; `ValueError` lists the names."""
    known = "flux" if name == AUTO else name
    if known not in ENCODERS:
        raise ValueError(
            f"there is no frontline {name!r}; there are {AUTO}, {', '.join(FRONTLINES)}"
        )
    return Frontline(known, DETECTORS.get(known, ENCODERS[known])())
