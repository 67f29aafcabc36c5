"""Frontlines by name: the command line, the benchmarks and the docs all look here."""

from __future__ import annotations

from pathlib import Path

from earmark.gate.frontline import Frontline
from earmark.gate.gate import Gate, default_gate
from earmark.hear import DETECTORS, ENCODERS

AUTO = "auto"
"""The best frontline there is: the gate that comes with earmark."""

GATE = "gate"
"""The gate that comes with earmark, by its own name."""

SUFFIX = ".gate"
"""A name that ends so is a gate file of the user's own."""

FRONTLINES = (GATE, *ENCODERS)
"""Every name `frontline_named` knows besides `auto` and gate files."""


def frontline_named(name: str) -> Frontline:
    """The frontline called `name`, or the one in the gate file of that name.

    Raises:
        ValueError: there is no such frontline; the message lists those there are.
        ModelMismatch: the gate file is damaged or made for something else.
    """
    if name in (AUTO, GATE):
        return default_gate().frontline()
    if name.endswith(SUFFIX):
        return Gate.load(Path(name)).frontline(name=Path(name).name)
    if name not in ENCODERS:
        raise ValueError(
            f"there is no frontline {name!r}; there are {AUTO}, {', '.join(FRONTLINES)}, "
            f"and your own gate files ({SUFFIX})"
        )
    return Frontline(name, DETECTORS.get(name, ENCODERS[name])())
