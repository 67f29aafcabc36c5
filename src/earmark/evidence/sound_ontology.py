"""Which named sounds are kinds of which: a drill is a power tool, and that is a tool."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from importlib import resources

MAX_FAMILY = 4
"""Kinds of a broad sound that are told as one."""


@cache
def subclasses() -> Mapping[str, tuple[str, ...]]:
    """The kinds of each broad sound, as the table beside this file has them."""
    text = resources.files("earmark.evidence").joinpath("broader-sounds.txt").read_text("utf-8")
    rows = (line.split(": ", 1) for line in text.splitlines() if not line.startswith("#"))
    return {broad: tuple(narrow.split(" | ")) for broad, narrow in rows}


@cache
def narrower(name: str) -> frozenset[str]:
    """Every kind of `name`, and the kinds of those; not itself.

    >>> "Drill" in narrower("Tools"), narrower("Drill")
    (True, frozenset())
    """
    own = subclasses().get(name, ())
    return frozenset(own).union(*map(narrower, own))


@cache
def broader(name: str) -> frozenset[str]:
    """All that `name` is a kind of.

    >>> sorted(broader("Drill"))
    ['Power tool', 'Tools']
    """
    return frozenset(broad for broad in subclasses() if name in narrower(broad))


def family_of(name: str, present: Collection[str]) -> str:
    """The narrowest sound that takes in `name` and is `present`, or whose other kinds are.

    Kinds alone make a family only of a broad sound that has few: not of whatever is an animal.

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
