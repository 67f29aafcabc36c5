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
from earmark.selection.answer_evidence import NOTHING, RevisedWindows, Seen
from earmark.selection.hidden_activity import Agreement
from earmark.selection.pick import gains
from earmark.selection.round_schedule import Rounds, Turn

DOUBT = 4.0
"""New activities expected by the sound that weigh as much as what it says by itself."""

TAIL = 0.1
"""Of the range, below and above."""

DRAWS = 4000


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
        return (self.seen + DOUBT) / (self.expected + DOUBT)

    def missed_range(self, *, seed: int = 0) -> tuple[float, float, float]:
        """Activities probably missed: the least, the expected and the most, 8 times of 10.

        How busy it is is as uncertain as the calls that say so are few; and how many activities
        come of a rate is chance.
        """
        rng = np.random.default_rng(seed)
        busy = rng.gamma(self.seen + DOUBT, 1 / (self.expected + DOUBT), DRAWS)
        counts = rng.poisson(busy * self.missed)
        low, high = np.quantile(counts, [TAIL, 1 - TAIL])
        return float(low), self.busyness * self.missed, float(high)


def sight(windows: Windows, seen: Sequence[Seen], agree: Agreement) -> Sightings:
    """What the answers about one recording saw that was new, beside what its sound foretold.

    An answer is new where something is done that the answer before it does not say. Answers that do
    not say what is done count neither way.
    """
    known = sorted((one for one in seen if one.activity is not None), key=lambda one: one.window)
    places = np.array([one.window for one in known], dtype=np.intp)
    if not len(places):
        return Sightings(missed=float(windows.rates.sum()))
    touched = gains(windows, places)
    before = NOTHING
    count = 0
    for one in known:
        now = one.activity or NOTHING
        count += now != NOTHING and not (before != NOTHING and agree(before, now))
        before = now
    # An answer names one activity, however many it touches.
    expected = float((1 - np.exp(-touched)).sum())
    return Sightings(expected, count, float(windows.rates.sum() - touched.sum()))


@dataclass(frozen=True, slots=True)
class Asking:
    """How a budget is asked."""

    rounds: Rounds
    turn: Turn
    is_priced: bool = False
    """Whether calls are made as long as one brings its price."""


def as_answered(
    many: Collection[Windows],
    seen: Sequence[Sequence[Seen]],
    *,
    agree: Agreement,
    asking: Asking,
) -> tuple[Collection[Windows], Turn]:
    """The windows as the answers so far let them be rated, and the round.

    With `auto` answers that tell too little of where things lie change nothing there, and all that
    is left is asked at once. Where a call has a price, how busy each recording is counts as well,
    and every round tells more of that.
    """
    turn = asking.turn
    if asking.rounds.is_one:
        return many, turn
    busy = None
    if asking.is_priced:
        busy = [sight(*pair, agree).busyness for pair in zip(many, seen, strict=True)]
    revised = RevisedWindows(many, seen, agree=agree, busyness=busy)
    if asking.rounds.count is None and not revised.tells:
        revised.forget_gaps()
        if turn.number != 1 and not asking.is_priced:
            turn = replace(turn, share=1.0)
    return revised, turn
