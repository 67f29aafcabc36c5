"""When it is enough: how busy recordings are, by what was expected of the calls and what they saw.

The sound says how many new activities a call is likely to touch; the answers say how many it did.
Their ratio, held back towards 1 by a few calls' worth of doubt, is how much busier or calmer a
recording is than it sounds. By that the rates are multiplied where a call has a price: so calls
stop where, given the answers, the next one is expected to bring less.

    expected   0.8   0.7   0.9   0.6        3.0 new activities
    seen        1     0     0     0         1          (1 + 4) / (3 + 4) = 0.71 times as busy
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.answer_evidence import NO_ACTIVITY, ObservedActivity, RevisedWindows
from earmark.selection.hidden_activity import Agreement
from earmark.selection.pick import gains
from earmark.selection.round_schedule import Rounds, Turn

PRIOR_COUNT = 4.0
"""New activities expected by the sound that weigh as much as what it says by itself."""

TAIL_SHARE = 0.1
"""Of the range, below and above."""

SIMULATIONS = 4000


@dataclass(frozen=True, slots=True)
class Sightings:
    """New activities that answered calls were expected to see, and did."""

    expected: float = 0.0
    seen: int = 0
    missed: float = 0.0
    """Activities the sound lets expect that no answered call touches."""

    def __add__(self, other: Sightings) -> Sightings:
        return Sightings(
            self.expected + other.expected, self.seen + other.seen, self.missed + other.missed
        )

    @property
    def busyness(self) -> float:
        """How many times as busy as it sounds."""
        return (self.seen + PRIOR_COUNT) / (self.expected + PRIOR_COUNT)

    def missed_range(self, *, seed: int = 0) -> tuple[float, float, float]:
        """Activities probably missed: the least, the expected and the most, 8 times of 10.

        How busy it is is as uncertain as the calls that say so are few; and how many activities
        come of a rate is chance.
        """
        rng = np.random.default_rng(seed)
        busy = rng.gamma(self.seen + PRIOR_COUNT, 1 / (self.expected + PRIOR_COUNT), SIMULATIONS)
        counts = rng.poisson(busy * self.missed)
        low, high = np.quantile(counts, [TAIL_SHARE, 1 - TAIL_SHARE])
        return float(low), self.busyness * self.missed, float(high)


def count_new_activities(
    windows: Windows, answers: Sequence[ObservedActivity], agree: Agreement
) -> Sightings:
    """What the answers about one recording saw that was new, beside what its sound foretold.

    An answer is new where something is done that the answer before it does not say. Answers that do
    not say what is done count neither way.
    """
    known = sorted((one for one in answers if one.activity is not None), key=lambda one: one.window)
    places = np.array([one.window for one in known], dtype=np.intp)
    if not len(places):
        return Sightings(missed=float(windows.rates.sum()))
    touched = gains(windows, places)
    before = NO_ACTIVITY
    count = 0
    for one in known:
        now = one.activity or NO_ACTIVITY
        count += now != NO_ACTIVITY and not (before != NO_ACTIVITY and agree(before, now))
        before = now
    # An answer names one activity, however many it touches.
    expected = float((1 - np.exp(-touched)).sum())
    return Sightings(expected, count, float(windows.rates.sum() - touched.sum()))


@dataclass(frozen=True, slots=True)
class RoundOptions:
    """How a budget is asked."""

    rounds: Rounds
    turn: Turn
    is_priced: bool = False
    """Whether calls are made as long as one brings its price."""


def revise_by_answers(
    many: Collection[Windows],
    answers: Sequence[Sequence[ObservedActivity]],
    *,
    agree: Agreement,
    options: RoundOptions,
) -> tuple[Collection[Windows], Turn]:
    """The windows as the answers so far let them be rated, and the round.

    With `auto` answers that tell too little of where things lie change nothing there, and all that
    is left is asked at once. Where a call has a price, how busy each recording is counts as well,
    and every round tells more of that.
    """
    turn = options.turn
    if options.rounds.is_one:
        return many, turn
    busy = None
    if options.is_priced:
        busy = [
            count_new_activities(*pair, agree).busyness for pair in zip(many, answers, strict=True)
        ]
    revised = RevisedWindows(many, answers, agree=agree, busyness=busy)
    if options.rounds.count is None and not revised.is_informative:
        revised.discard_gaps()
        if turn.number != 1 and not options.is_priced:
            turn = replace(turn, share=1.0)
    return revised, turn
