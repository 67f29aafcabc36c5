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
from earmark.selection.budget import Rounds
from earmark.selection.hidden_activity import Agrees
from earmark.selection.pick import explain, gains, places_of
from earmark.text_format import counted
from earmark.timeline import Span

Item = TypeVar("Item")

USUAL_ROUNDS = 3
"""The most that `auto` takes."""

FIRST_SHARE = 0.5
"""Before the first answer is read: enough for the answers to say something about the gaps."""

PRIOR_COUNT = 4.0

TAIL_SHARE = 0.1

SIMULATIONS = 4000


@dataclass(frozen=True, slots=True)
class Turn:
    number: int | None = None
    """From 1; None if all calls are made at once."""
    share: float = 1.0
    """Of all calls, cumulative at the end of the round."""
    is_auto: bool = False
    """Answers that show too little about where actions lie change nothing."""
    lost: frozenset[tuple[str, Span]] = field(default_factory=frozenset)
    """Calls that failed in earlier rounds: spent, and not asked again."""

    @property
    def is_last(self) -> bool:
        return self.share >= 1


def turns(rounds: Rounds) -> Iterator[Turn]:
    """Half of the calls first, then equal shares.

    >>> [turn.share for turn in turns("auto")]
    [0.5, 0.75, 1.0]
    """
    is_auto = rounds == "auto"
    count = USUAL_ROUNDS if rounds == "auto" else rounds
    if count == 1:
        yield Turn()
        return
    later = (1 - FIRST_SHARE) / (count - 1)
    for place in range(count - 1):
        yield Turn(place + 1, FIRST_SHARE + later * place, is_auto)
    yield Turn(count, 1.0, is_auto)


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
                f"; probably missed: about {about:.0f} ({low:.0f} to {high:.0f} in 8 cases "
                f"of 10), if the sound is right about where things happen"
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


def revise_by_answers(
    many: Collection[Windows],
    answers: Sequence[Sequence[ObservedActivity]],
    turn: Turn,
    *,
    agree: Agrees,
    is_priced: bool = False,
) -> tuple[RevisedWindows, Turn]:
    """The turn becomes the last one if answers cannot change the plan any more."""
    busy = None
    if is_priced:
        pairs = zip(many, answers, strict=True)
        busy = [count_new_activities(*pair, agree).busyness for pair in pairs]
    revised = RevisedWindows(many, answers, agree=agree, busyness=busy)
    if turn.is_auto and not revised.is_informative:
        revised.uses_gaps = False
        if turn.number != 1 and not is_priced:
            turn = replace(turn, share=1.0)
    return revised, turn


def choose_round(
    spend: Callable[[Collection[Windows]], Iterator[Choice]],
    many: Collection[Windows],
    paid: Sequence[Sequence[ObservedActivity]],
    turn: Turn,
    *,
    agree: Agrees,
    is_priced: bool = False,
) -> tuple[Iterator[Choice], Turn]:
    """`spend` plans all remaining calls; a round before the last asks only a part of them."""
    revised, turn = revise_by_answers(many, paid, turn, agree=agree, is_priced=is_priced)
    choices = spend(revised)
    if not turn.is_last:
        choices = (
            limit_to_round(choice, answers, turn)
            for choice, answers in zip(choices, paid, strict=True)
        )
    return _describe_picks(choices, revised), turn


def limit_to_round(choice: Choice, paid: Sequence[ObservedActivity], turn: Turn) -> Choice:
    answered = {answer.window for answer in paid}
    waiting = [pick for pick in choice.picks if pick.window not in answered]
    done = len(choice.picks) - len(waiting)
    now = spread_evenly(waiting, calls_now(len(choice.picks), done, turn.share))
    windows = answered | {pick.window for pick in now}
    return replace(choice, picks=[pick for pick in choice.picks if pick.window in windows])


def _describe_picks(choices: Iterable[Choice], revised: RevisedWindows) -> Iterator[Choice]:
    """Rates stay those of the sound: a forecast is a share of what it alone makes likely."""
    for number, (choice, windows) in enumerate(zip(choices, revised.many, strict=True)):
        by_sound = explain(windows, places_of(windows, choice.picks), lambda *_: "")
        picks = []
        for pick, unrevised in zip(choice.picks, by_sound, strict=True):
            gap = revised.gap_reason(number, unrevised.window)
            reason = f"{pick.reason}, {gap}" if gap else pick.reason
            rate, expected = unrevised.rate, unrevised.expected
            picks.append(replace(pick, rate=rate, expected=expected, reason=reason))
        yield replace(choice, picks=picks)
