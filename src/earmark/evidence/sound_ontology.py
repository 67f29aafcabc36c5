"""The hierarchy of named sounds: a drill is a power tool, and that is a tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources

MAX_FAMILY = 4
"""Most subclasses of a broad sound that are still summarised under its name."""


@cache
def subclasses() -> Mapping[str, tuple[str, ...]]:
    """The direct subclasses of each broad sound, from the table beside this file."""
    text = resources.files("earmark.evidence").joinpath("broader-sounds.txt").read_text("utf-8")
    rows = (line.split(": ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {broad: tuple(narrow.split(" | ")) for broad, narrow in rows}


@cache
def narrower(name: str) -> frozenset[str]:
    """All subclasses of `name`, direct and indirect, without itself.

    >>> "Drill" in narrower("Tools"), narrower("Drill")
    (True, frozenset())
    """
    own = subclasses().get(name, ())
    return frozenset(own).union(*map(narrower, own))


@cache
def broader(name: str) -> frozenset[str]:
    """All superclasses of `name`.

    >>> sorted(broader("Drill"))
    ['Power tool', 'Tools']
    """
    return frozenset(broad for broad in subclasses() if name in narrower(broad))


def family_of(name: str, present: Collection[str]) -> str:
    """The narrowest superclass of `name` that is `present`, or has another subclass present.

    The latter only for a superclass with at most `MAX_FAMILY` subclasses: not for all animals.
    `name` itself if there is none.

    >>> family_of("Drill", {"Drill", "Power tool", "Speech"})
    'Power tool'
    >>> family_of("Drill", {"Drill", "Jackhammer"}), family_of("Drill", {"Drill", "Hammer"})
    ('Power tool', 'Drill')
    """
    others = set(present) - {name}
    wider = [
        each
        for each in broader(name)
        if each in others or (len(narrower(each)) <= MAX_FAMILY and narrower(each) & others)
    ]
    return min(wider, key=lambda each: (len(narrower(each)), each)) if wider else name
