"""Rounds: ask a part of the plan, revise the rates by the answers, plan the rest again.

If calls have a price, rates are multiplied by the new activities seen over those expected:

    expected   0.8   0.7   0.9   0.6        3.0 new activities
    seen        1     0     0     0         1          (1 + 4) / (3 + 4) = 0.71 times as busy
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import TypeVar

import numpy as np

from earmark.grid import Windows
from earmark.selection.allocation import Choice
from earmark.selection.answer_evidence import NO_ACTIVITY, ObservedActivity, RevisedWindows
from earmark.selection.hidden_activity import Agrees
from earmark.selection.pick import explain, gains, places_of
from earmark.text_format import counted
from earmark.timeline import Span

Item = TypeVar("Item")

AUTO = "auto"

MAX_ROUNDS = 9
"""No measurement showed a gain from more than a few."""

AUTO_ROUNDS = 3

FIRST_SHARE = 0.5
"""Before the first answer is read: enough for the answers to say something about the gaps."""

PRIOR_COUNT = 4.0

TAIL_SHARE = 0.1

SIMULATIONS = 4000


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
        if isinstance(text, Rounds):
            return text
        words = AUTO if text is None else str(text).strip().lower()
        if words == AUTO:
            return cls(None)
        if _is_whole(text) or words.isdecimal():
            return cls(int(words))
        raise ValueError(f"{text!r} is not a number of rounds: write 1 to {MAX_ROUNDS}, or {AUTO}")

    @property
    def is_one(self) -> bool:
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
    return isinstance(count, int) and not isinstance(count, bool)


@dataclass(frozen=True, slots=True)
class Turn:
    number: int | None = None
    """From 1; None if all calls are made at once."""
    share: float = 1.0
    """Cumulative."""
    lost: frozenset[tuple[str, Span]] = field(default_factory=frozenset)
    """Calls that failed in earlier rounds: spent, and not asked again."""

    @property
    def is_last(self) -> bool:
        return self.share >= 1


ALL_AT_ONCE = Turn()


def turns(rounds: Rounds) -> Iterator[Turn]:
    if rounds.is_one:
        yield ALL_AT_ONCE
        return
    for number, share in enumerate(rounds.shares(), start=1):
        yield Turn(number, share)


def spread_evenly(waiting: Sequence[Item], calls: int) -> list[Item]:
    """First, last, evenly between; the middle if only one."""
    count = min(calls, len(waiting))
    if count < 2:
        middle = len(waiting) // 2
        return list(waiting[middle : middle + count])
    return [waiting[int(place * (len(waiting) - 1) / (count - 1) + 0.5)] for place in range(count)]


def calls_now(planned: int, answered: int, share: float) -> int:
    return max(0, min(planned, math.ceil(share * planned - 1e-9)) - answered)


@dataclass(frozen=True, slots=True)
class Sightings:
    expected: float = 0.0
    seen: int = 0
    missed: float = 0.0
    """Activities expected from the sound that no answered call touches."""
    unheard: int = 0
    """Recordings in which nothing was heard; what is missed in them is not known."""

    def __add__(self, other: Sightings) -> Sightings:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Sightings(*(one + more for one, more in pairs))

    @property
    def busyness(self) -> float:
        return (self.seen + PRIOR_COUNT) / (self.expected + PRIOR_COUNT)

    def missed_range(self) -> tuple[float, float, float]:
        """10 % quantile, mean and 90 % quantile, simulated."""
        rng = np.random.default_rng(0)
        busy = rng.gamma(self.seen + PRIOR_COUNT, 1 / (self.expected + PRIOR_COUNT), SIMULATIONS)
        counts = rng.poisson(busy * self.missed)
        low, high = np.quantile(counts, [TAIL_SHARE, 1 - TAIL_SHARE])
        return float(low), self.busyness * self.missed, float(high)

    def lines(self) -> Iterator[str]:
        """Activities seen so far and probably missed; nothing if no answer names an activity."""
        if not (self.expected or self.unheard):
            return
        line = f"new activities seen so far: {self.seen}"
        if self.expected:
            low, about, high = self.missed_range()
            line += (
                f"; probably missed: about {about:.0f}, 8 times of 10 between {low:.0f} and "
                f"{high:.0f}, if the sound is right about where"
            )
        if self.unheard:
            silent = counted(self.unheard, "recording")
            line += f"; how many are missed in {silent} in which nothing was heard is not known"
        yield line


def count_new_activities(
    windows: Windows, answers: Sequence[ObservedActivity], agree: Agrees
) -> Sightings:
    """An answer is new if it names an activity that the answer before it does not."""
    naming = [answer for answer in answers if answer.activity is not None]
    naming.sort(key=lambda answer: answer.window)
    places = np.array([answer.window for answer in naming], dtype=np.intp)
    if not len(places):
        return Sightings(missed=float(windows.rates.sum()))
    touched = gains(windows, places)
    before = NO_ACTIVITY
    count = 0
    for answer in naming:
        now = answer.activity or NO_ACTIVITY
        count += now != NO_ACTIVITY and not (before != NO_ACTIVITY and agree(before, now))
        before = now
    # An answer names one activity, however many it touches.
    expected = float((1 - np.exp(-touched)).sum())
    return Sightings(expected, count, float(windows.rates.sum() - touched.sum()))


@dataclass(frozen=True, slots=True)
class RoundOptions:
    rounds: Rounds
    turn: Turn
    is_priced: bool = False


def revise_by_answers(
    many: Collection[Windows],
    answers: Sequence[Sequence[ObservedActivity]],
    *,
    agree: Agrees,
    options: RoundOptions,
) -> tuple[RevisedWindows, Turn]:
    """With `auto`, answers that show too little about where actions lie change nothing."""
    turn, busy = options.turn, None
    if options.is_priced:
        pairs = zip(many, answers, strict=True)
        busy = [count_new_activities(*pair, agree).busyness for pair in pairs]
    revised = RevisedWindows(many, answers, agree=agree, busyness=busy)
    if options.rounds.count is None and not revised.is_informative:
        revised.discard_gaps()
        if turn.number != 1 and not options.is_priced:
            turn = replace(turn, share=1.0)
    return revised, turn


def choose_round(
    spend: Callable[[Collection[Windows]], Iterator[Choice]],
    many: Collection[Windows],
    paid: Sequence[Sequence[ObservedActivity]],
    *,
    agree: Agrees,
    options: RoundOptions,
) -> tuple[Iterator[Choice], Turn]:
    """`spend` plans all remaining calls; a round before the last asks only a part of them."""
    revised, turn = revise_by_answers(many, paid, agree=agree, options=options)
    choices = spend(revised)
    if not turn.is_last:
        choices = (
            limit_to_round(choice, answers, turn)
            for choice, answers in zip(choices, paid, strict=True)
        )
    return _describe_picks(choices, revised), turn


def limit_to_round(choice: Choice, paid: Sequence[ObservedActivity], turn: Turn) -> Choice:
    starts = {answer.start for answer in paid}
    waiting = [pick for pick in choice.picks if pick.start not in starts]
    done = len(choice.picks) - len(waiting)
    now = spread_evenly(waiting, calls_now(len(choice.picks), done, turn.share))
    starts |= {pick.start for pick in now}
    return replace(choice, picks=[pick for pick in choice.picks if pick.start in starts])


def _describe_picks(choices: Iterable[Choice], revised: RevisedWindows) -> Iterator[Choice]:
    """Rates stay those of the sound: a forecast is a share of what it alone makes likely."""
    for number, (choice, windows) in enumerate(zip(choices, revised.many, strict=True)):
        by_sound = explain(windows, places_of(windows, choice.picks), lambda *_: "")
        picks = []
        for pick, heard in zip(choice.picks, by_sound, strict=True):
            gap = revised.gap_reason(number, pick.start)
            reason = f"{pick.reason}, {gap}" if gap else pick.reason
            picks.append(replace(pick, rate=heard.rate, expected=heard.expected, reason=reason))
        yield replace(choice, picks=picks)
