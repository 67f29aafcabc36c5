"""Rounds: ask a part of the plan, revise the rates by the answers, plan the rest again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from earmark.timeline import Span

Item = TypeVar("Item")

AUTO = "auto"

MAX_ROUNDS = 9
"""Most rounds allowed; no measurement showed a gain from more than a few."""

AUTO_ROUNDS = 3

FIRST_SHARE = 0.5
"""Share of the calls made before the first answer is read: enough for windows to lie where the
whole plan wants them, and for the answers to tell something about the gaps."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds the calls of a run are asked in.

    >>> Rounds.parse("auto").shares()
    (0.5, 0.75, 1.0)
    """

    count: int | None = 1
    """None for `auto`: the answers decide, and no round is added that cannot change the plan."""

    def __post_init__(self) -> None:
        if self.count is None:
            return
        if not _is_whole(self.count) or not 1 <= self.count <= MAX_ROUNDS:
            raise ValueError(f"rounds are 1 to {MAX_ROUNDS}, or {AUTO}, not {self.count!r}")

    @classmethod
    def parse(cls, text: str | int | Rounds | None) -> Rounds:
        """The rounds written as `3` or `auto`; `Rounds` are returned unchanged."""
        if isinstance(text, Rounds):
            return text
        words = AUTO if text is None else str(text).strip().lower()
        if words == AUTO:
            return cls(None)
        if _is_whole(text) or words.isdecimal():
            return cls(int(words))
        raise ValueError(f"{text!r} is no number of rounds: write 1 to {MAX_ROUNDS}, or {AUTO}")

    @property
    def is_one(self) -> bool:
        """Whether all calls are made at once."""
        return self.count == 1

    def shares(self) -> tuple[float, ...]:
        """Cumulative share of all calls at the end of each round; the last is 1."""
        count = AUTO_ROUNDS if self.count is None else self.count
        if count == 1:
            return (1.0,)
        later = (1 - FIRST_SHARE) / (count - 1)
        return (*(FIRST_SHARE + later * place for place in range(count - 1)), 1.0)

    def __str__(self) -> str:
        return AUTO if self.count is None else str(self.count)


def _is_whole(count: object) -> bool:
    """Whether `count` is a whole number; True and False are none."""
    return isinstance(count, int) and not isinstance(count, bool)


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of a run."""

    number: int | None = None
    """From 1; None where all calls are made at once."""
    share: float = 1.0
    """Cumulative share of all calls at the end of the round."""
    lost: frozenset[tuple[str, Span]] = field(default_factory=frozenset)
    """Calls that failed in earlier rounds, by recording and span: spent, and not asked again."""

    @property
    def is_last(self) -> bool:
        """Whether all remaining calls are made in this round."""
        return self.share >= 1


ALL_AT_ONCE = Turn()
"""The only round of a run without rounds."""


def turns(rounds: Rounds) -> Iterator[Turn]:
    """The rounds of a run, in order."""
    if rounds.is_one:
        yield ALL_AT_ONCE
        return
    for number, share in enumerate(rounds.shares(), start=1):
        yield Turn(number, share)


def spread_evenly(waiting: Sequence[Item], calls: int) -> list[Item]:
    """`calls` items of `waiting` in order: first, last, evenly between; the middle if only one.

    The ends are included because no answer says anything about what lies before the first answer or
    after the last.
    """
    count = min(calls, len(waiting))
    if count < 2:
        middle = len(waiting) // 2
        return list(waiting[middle : middle + count])
    return [waiting[int(place * (len(waiting) - 1) / (count - 1) + 0.5)] for place in range(count)]


def calls_now(planned: int, answered: int, share: float) -> int:
    """Calls to make in this round: up to `share` of the `planned` picks, less those `answered`."""
    return max(0, min(planned, math.ceil(share * planned - 1e-9)) - answered)
