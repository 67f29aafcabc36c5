"""Rounds: part of a plan is asked, the answers change the rates, and the rest is planned again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from earmark.timeline import Span

Item = TypeVar("Item")

AUTO = "auto"

MAX_ROUNDS = 9
"""Rounds; more than a few bring nothing that was measured."""

AUTO_ROUNDS = 3

FIRST_SHARE = 0.5
"""Of the calls, asked before the first answer is read: enough that windows lie where the whole plan
wants them, and that what lies between them can be told."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """How many rounds the calls of a run are asked in.

    >>> Rounds.parse("auto").shares()
    (0.5, 0.75, 1.0)
    """

    count: int | None = 1
    """None where that is for the answers to say: no round more than can change the plan."""

    def __post_init__(self) -> None:
        if self.count is not None and not 1 <= self.count <= MAX_ROUNDS:
            raise ValueError(f"rounds are 1 to {MAX_ROUNDS}, or {AUTO}, not {self.count}")

    @classmethod
    def parse(cls, text: str | int | Rounds | None) -> Rounds:
        """The rounds written as `3` or `auto`; rounds as they are."""
        if isinstance(text, Rounds):
            return text
        if text is None or str(text).strip().lower() == AUTO:
            return cls(None)
        try:
            return cls(int(text))
        except ValueError as error:
            message = str(error) if isinstance(text, int) or str(text).strip().isdigit() else ""
            raise ValueError(
                message or f"{text!r} is no number of rounds: write 1 to {MAX_ROUNDS}, or {AUTO}"
            ) from None

    @property
    def is_one(self) -> bool:
        """Whether all is asked at once."""
        return self.count == 1

    def shares(self) -> tuple[float, ...]:
        """The share of all calls that is asked when each round ends; the last is all of them."""
        count = AUTO_ROUNDS if self.count is None else self.count
        if count == 1:
            return (1.0,)
        later = (1 - FIRST_SHARE) / (count - 1)
        return (*(FIRST_SHARE + later * place for place in range(count - 1)), 1.0)

    def __str__(self) -> str:
        return AUTO if self.count is None else str(self.count)


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of a run."""

    number: int | None = None
    """From 1; None where all is asked at once."""
    share: float = 1.0
    """Of all calls, asked when the round ends."""
    lost: frozenset[tuple[str, Span]] = field(default_factory=frozenset)
    """Calls that failed in earlier rounds, by recording and span: spent, and not asked again."""

    @property
    def is_last(self) -> bool:
        """Whether all that is left is asked now."""
        return self.share >= 1


ALL_AT_ONCE = Turn()
"""All of it at once."""


def turns(rounds: Rounds) -> Iterator[Turn]:
    """The rounds of a run, in order."""
    if rounds.is_one:
        yield ALL_AT_ONCE
        return
    for number, share in enumerate(rounds.shares(), start=1):
        yield Turn(number, share)


def spread_evenly(waiting: Sequence[Item], calls: int) -> list[Item]:
    """So many of `waiting`, in order: the first, the last, and evenly between; one is the middle.

    What lies before the first answer, or after the last, no answer tells anything about.
    """
    count = min(calls, len(waiting))
    if count < 2:
        middle = len(waiting) // 2
        return list(waiting[middle : middle + count])
    return [waiting[int(place * (len(waiting) - 1) / (count - 1) + 0.5)] for place in range(count)]


def calls_now(planned: int, answered: int, share: float) -> int:
    """Calls to make of a plan of so many picks, so many of them answered, by a round's end."""
    return max(0, min(planned, math.ceil(share * planned - 1e-9)) - answered)
