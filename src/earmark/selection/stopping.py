"""Estimates how busy recordings are from the answers, so that calls stop when they no longer pay.

The sound predicts how many new activities each call touches; the answers show how many it did.
Their ratio, shrunk towards 1, estimates how much busier or calmer a recording is than it sounds.
Where a call has a price, rates are multiplied by this ratio: calls stop where the next one is
expected to bring less than the price, given the answers.

    expected   0.8   0.7   0.9   0.6        3.0 new activities
    seen        1     0     0     0         1          (1 + 4) / (3 + 4) = 0.71 times as busy
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.answer_evidence import NO_ACTIVITY, ObservedActivity, RevisedWindows
from earmark.selection.hidden_activity import Agrees
from earmark.selection.pick import gains
from earmark.selection.round_schedule import Rounds, Turn

PRIOR_COUNT = 4.0
"""Weight of the prior ratio of 1, in expected new activities."""

TAIL_SHARE = 0.1
"""Share of the simulations outside the range, at each end."""

SIMULATIONS = 4000


@dataclass(frozen=True, slots=True)
class Sightings:
    """New activities in the answered calls: expected and seen."""

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
        """Estimated activity relative to what the sound predicts."""
        return (self.seen + PRIOR_COUNT) / (self.expected + PRIOR_COUNT)

    def missed_range(self) -> tuple[float, float, float]:
        """Activities probably missed: 10 % quantile, mean and 90 % quantile.

        Simulated: the busyness is uncertain where few calls say so, and the number of activities
        for a given rate is random (Poisson).
        """
        rng = np.random.default_rng(0)
        busy = rng.gamma(self.seen + PRIOR_COUNT, 1 / (self.expected + PRIOR_COUNT), SIMULATIONS)
        counts = rng.poisson(busy * self.missed)
        low, high = np.quantile(counts, [TAIL_SHARE, 1 - TAIL_SHARE])
        return float(low), self.busyness * self.missed, float(high)


def count_new_activities(
    windows: Windows, answers: Sequence[ObservedActivity], agree: Agrees
) -> Sightings:
    """New activities that the answers about one recording show, and those its sound predicts.

    An answer is new where it names an activity that the answer before it does not. Answers that do
    not say what is done are ignored.
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
    """The rounds of a run, the current one, and whether the budget is a price."""

    rounds: Rounds
    turn: Turn
    is_priced: bool = False
    """Whether calls are made as long as one is expected to bring its price."""


def revise_by_answers(
    many: Collection[Windows],
    answers: Sequence[Sequence[ObservedActivity]],
    *,
    agree: Agrees,
    options: RoundOptions,
) -> tuple[RevisedWindows, Turn]:
    """The windows with rates revised by the answers so far, and the round.

    With `auto`, answers that show too little about where actions lie do not change the gaps, and
    all remaining calls are made at once. Where a call has a price, the busyness of each recording
    counts as well, and every further round improves its estimate.
    """
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
