"""Who is trained on, who is held out: whole people, never pieces of time."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from earmark.errors import AnnotationError

Groups = dict[str, list[str]]
"""Recordings by the person who wore the camera."""


def participant(recording: str) -> str:
    """The person a recording's name tells of, `P01` of `P01_11`; the whole name if it does not.

    >>> participant("P01_11"), participant("workshop")
    ('P01', 'workshop')
    """
    found = re.fullmatch(r"([A-Za-z]+\d+)_.+", recording)
    return found.group(1) if found else recording


def group(recordings: Iterable[str]) -> Groups:
    """Recordings by participant, participants in an order that says nothing about them.

    The order is that of the SHA-256 of their names: fixed before anything is measured, the same on
    every machine, and not the order they were recorded in.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(recordings):
        groups[participant(name)].append(name)
    order = sorted(groups, key=lambda who: hashlib.sha256(who.encode()).hexdigest())
    return {who: groups[who] for who in order}


def hold_out(recordings: Sequence[str], *, share: float = 0.25) -> tuple[list[str], list[str]]:
    """What may be trained and developed on, and a test set of whole participants.

    Participants go to the test set, in the order of `group`, until it has `share` of the
    recordings.
    """
    kept: list[str] = []
    test: list[str] = []
    for names in group(recordings).values():
        (test if len(test) < share * len(recordings) else kept).extend(names)
    return sorted(kept), sorted(test)


def fold(recordings: Sequence[str], *, folds: int) -> list[list[str]]:
    """Recordings in `folds` parts of about equal size, nobody in two of them.

    The participant with most recordings is placed first, each into the smallest part so far.

    Raises:
        AnnotationError: fewer participants than folds.
    """
    groups = group(recordings)
    if len(groups) < folds:
        raise AnnotationError(
            f"{len(groups)} participants cannot be split into {folds} folds without hearing one of "
            f"them on both sides; annotate more recordings or ask for fewer folds"
        )
    parts: list[list[str]] = [[] for _ in range(folds)]
    for names in sorted(groups.values(), key=len, reverse=True):
        min(parts, key=len).extend(names)
    return [sorted(part) for part in parts]
