"""Frontlines by name: the command line, the benchmarks and the docs all look here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from earmark.features import ENCODERS, detector_named
from earmark.features.encoder_spec import moved, split_name
from earmark.gate.frontline import Frontline
from earmark.gate.gate import Gate, default_gate

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

    Options of an encoder follow its name after colons: see `earmark.features.encoder_spec`. Those
    of a gate are fixed but for where its encoder's files are and what it runs on.

    Raises:
        ValueError: there is no such frontline, or option; the message lists those there are.
        ModelMismatch: the gate file is damaged or made for something else.
    """
    if name in (AUTO, GATE):
        return default_gate().frontline()
    file, options = split_name(name)
    if file.endswith(SUFFIX):
        line = Gate.load(Path(file)).frontline(name=Path(file).name)
        return replace(line, encoder=moved(line.encoder, options)) if options else line
    if file not in ENCODERS:
        raise ValueError(
            f"there is no frontline {name!r}; there are {AUTO}, {', '.join(FRONTLINES)}, "
            f"and your own gate files ({SUFFIX})"
        )
    return Frontline(name, detector_named(name))
