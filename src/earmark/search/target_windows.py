"""Which windows to ask about when one thing is looked for, and what is left when it is done.

sound    . . D D . . . . . . d . . .      how likely a sound that is meant is, a window each
ask          ^               ^            the exact rule: one call a moment, the likeliest first
answers      yes             no           a yes settles its moment, a no makes its sound doubtful
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.selection import Budget, Coverage, allocate
from earmark.timeline import FloatArray, Span, merge

LASTS = Survival.from_lengths([4.0, 8.0, 16.0, 30.0])
"""How long what is looked for lasts, for want of better: from a window to half a minute."""

TRUSTED = 0.8
"""How likely a window is to show what is meant, where the sound that is meant is certain."""

UNHEARD = 0.002
"""How likely any window is to, where nothing is heard."""

ACTIVE = 0.02
"""How much likelier where the gate expects an action."""

STEEP, FAINT = 1.5, 0.09
"""What log odds of sounds that mean a little of the question make of a window's chance: e times
more for each 1 / `STEEP` of them, and no more than `FAINT`, less than a telling sound."""

SAME = 0.8
"""How much of a window's chance is the moment of the window before it, going on."""

CONFIRM = 0.05
"""What a call next to a yes is worth: it says how long the moment lasts, and finds no other."""

DOUBT = 0.3
"""What is left of the chance of a sound that was looked at and was not what is meant."""

STRANGE = 0.1
"""Share of calls that go, evenly spread, where nothing that is meant is heard: what is missed can
be estimated by them and by nothing else."""

FIRST = 10
"""Calls after which answers are first looked at; then after twice as many, and so on."""

TELLING = 0.1
"""Chance from which the sound tells something of a window."""


SHAPES, RATES = (0.3, 0.1), (0.35, 0.2)
"""Of the factor between chances and what is there, before any answer, of windows without and with
a telling sound; these and the next from answers played on composites, see `experiments/LOG.md`."""

ANSWER = 0.25
"""How much an answer says of windows that were not asked: they were chosen for being other."""


ALL = 0.9999
"""Of a distribution without an end, what is taken for all of it."""


@dataclass(slots=True, eq=False)
class TargetWindows:
    """The windows of one recording, and what is known of each."""

    key: str
    windows: Windows
    relevance: FloatArray
    """How likely a sound that is meant is heard in each window."""
    asked: dict[int, bool] = field(default_factory=dict)
    """What was answered: whether it shows what is meant."""
    lost: set[int] = field(default_factory=set)
    """Windows whose call failed."""
    told: dict[int, float] = field(default_factory=dict)
    """Chances that captions already paid for give."""
    lift: FloatArray = field(default_factory=lambda: np.ones(1))
    """How many times likelier than others each window is by what it faintly sounds like."""

    @property
    def chances(self) -> FloatArray:
        """How likely each window is to show what is meant, before any is asked."""
        base = self.lift * (UNHEARD + ACTIVE * np.minimum(1.0, self.windows.rates))
        base = np.minimum(FAINT, base)
        chances = 1 - (1 - base) * (1 - TRUSTED * self.relevance)
        for window, chance in self.told.items():
            chances[window] = max(chances[window], chance)
        return np.asarray(chances)

    def stretch(self, window: int) -> range:
        """The windows around `window` in which the same sound goes on; itself where none does."""
        least = max(TELLING, self.relevance[window] / 3)
        first = last = window
        if self.relevance[window] >= TELLING:
            while first > 0 and self.relevance[first - 1] >= least:
                first -= 1
            while last + 1 < len(self.relevance) and self.relevance[last + 1] >= least:
                last += 1
        return range(first, last + 1)

    def rates(self) -> FloatArray:
        """Moments that are expected to begin in each window and are not found yet."""
        chances = self.chances
        for window, seen in self.asked.items():
            around = self.stretch(window)
            if seen:
                chances[around.start : around.stop] = 0.0
                for near in (around.start - 1, around.stop):
                    if 0 <= near < len(chances) and self.relevance[near] < TELLING:
                        chances[near] = CONFIRM
            else:
                chances[around.start : around.stop] *= DOUBT
        for window in (*self.asked, *self.lost):
            chances[window] = 0.0
        before = np.concatenate([[0.0], chances[:-1]])
        return np.asarray(np.maximum(chances - SAME * before, (1 - SAME) * chances))

    def settled(self) -> list[Span]:
        """Windows that say yes, joined with those around them in which the same sound goes on."""
        seen = [window for window, is_seen in self.asked.items() if is_seen]
        return merge(
            Span(
                around.start * self.windows.length,
                min(self.windows.duration, around.stop * self.windows.length),
            )
            for around in map(self.stretch, seen)
        )

    def unsettled(self) -> FloatArray:
        """The chances of the windows that are neither asked nor part of a moment that was found."""
        is_open = np.ones(len(self.relevance), dtype=bool)
        for window, seen in self.asked.items():
            is_open[window] = False
            if seen:
                around = self.stretch(window)
                is_open[around.start : around.stop] = False
        return self.chances[is_open]


def lifts(hints: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """How many times likelier than the mean of all windows each is, by recording.

    `hints` are log odds of what a window sounds like, weighed by how much of the question it means.
    """
    if not hints:
        return {}
    steep = {key: np.exp(STEEP * own) for key, own in hints.items()}
    mean = np.concatenate(list(steep.values())).mean()
    return {key: own / mean for key, own in steep.items()}


@dataclass(frozen=True, slots=True)
class MissedEstimate:
    """How many moments were probably not found."""

    expected: float
    low: float
    high: float
    """The range is meant to hold nine times in ten; `scripts/find_table.py` says how often."""


def next_windows(many: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    """The windows of each recording to ask about before answers are looked at again.

    No more than `calls`, and none where no window is left. Windows follow one order however many
    calls there are, so that more calls find what fewer do and more: those up to the next of
    `FIRST` times 1, 2, 4, … are the exact optimum together, and of these the best come first.

        calls      1 … 10 │ 11 … 20 │ 21 …… 40 │ 41 ………… 80
        answers           ▲         ▲          ▲
    """
    spent = sum(len(one.asked) + len(one.lost) for one in many)
    batch = next_stop(spent) - spent
    spread = _spread(many, round(STRANGE * batch))
    rated = [_rated(one, also) for one, also in zip(many, spread, strict=True)]
    held = sum(len(one.owned) for one in rated)
    budget = Budget(count=batch - sum(map(len, spread)) + held)
    chosen = allocate(Coverage(), rated, budget, across=True)
    found = [
        (pick.expected, place, window)
        for place, (choice, one) in enumerate(zip(chosen, rated, strict=True))
        for pick in choice.picks
        if (window := one.window_at(pick.start)) not in one.owned
    ]
    order = sorted(range(len(found)), key=lambda at: (-_roughly(found[at][0]), _scattered(at)))
    ranked = [found[at][1:] for at in order]
    strange = [(place, window) for place, also in enumerate(spread) for window in also]
    every = round(1 / STRANGE)
    for number, one_more in enumerate(strange):
        ranked.insert(number * every + every // 2, one_more)
    taken: list[list[int]] = [[] for _ in many]
    for place, window in ranked[: max(0, calls)]:
        taken[place].append(window)
    return [sorted(windows) for windows in taken]


def next_stop(spent: int) -> int:
    """After how many calls answers are looked at next."""
    stop = FIRST
    while stop <= spent:
        stop *= 2
    return stop


def _roughly(worth: float) -> float:
    """To one digit: what is worth about the same is asked about evenly spread, not by its rest."""
    return float(f"{worth:.1g}")


def _scattered(place: int) -> int:
    """A place in an order whose every beginning is evenly spread: the bits from last to first."""
    return int(f"{place:032b}"[::-1], 2)


def _rated(one: TargetWindows, also: Collection[int]) -> Windows:
    owned = tuple(sorted({*one.asked, *one.lost, *also}))
    rates = one.rates()
    return replace(one.windows, scores=rates, rates=rates, survival=LASTS, owned=owned)


def _spread(many: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    """So many windows in which nothing that is meant is heard, evenly spread over all."""
    quiet = [
        (place, window)
        for place, one in enumerate(many)
        for window in np.flatnonzero(one.chances < TELLING).tolist()
        if window not in one.asked and window not in one.lost
    ]
    taken: list[list[int]] = [[] for _ in many]
    for step in range(min(calls, len(quiet))):
        place, window = quiet[int((step + 0.5) * len(quiet) / min(calls, len(quiet)))]
        taken[place].append(window)
    return taken


def estimate_missed(many: Sequence[TargetWindows]) -> MissedEstimate:
    """The moments that were probably not found, from the answers and the chances of the rest.

    Windows with and without a telling sound are reckoned apart. How many times likelier than their
    chances the windows of a sort are is gamma distributed, first by `SHAPES` and `RATES` and then
    by the answers; the moments in the rest are then negative binomial, and their sum is that of
    both sorts.
    """
    if not many:
        return MissedEstimate(0.0, 0.0, 0.0)
    found = [span for one in many for span in one.settled()]
    length = many[0].windows.length
    lasting = max(1.0, sum(span.duration for span in found) / length / max(1, len(found)))
    expected, sums = 0.0, np.ones(1)
    for sort, is_telling in enumerate((False, True)):
        left = sum(float(_of_sort(one.unsettled(), is_telling).sum()) for one in many) / lasting
        if not left:
            continue
        answers = [each for one in many for each in _answers(one, is_telling)]
        shape = SHAPES[sort] + ANSWER * sum(seen for _, seen in answers)
        rate = RATES[sort] + ANSWER * sum(chance for chance, _ in answers)
        expected += shape / rate * left
        sums = np.convolve(sums, _negative_binomial(shape, rate / (rate + left)))
    low, high = np.searchsorted(np.cumsum(sums) / sums.sum(), [0.05, 0.95])
    return MissedEstimate(round(expected, 2), float(low), float(high))


def _negative_binomial(shape: float, chance: float) -> FloatArray:
    """How likely 0, 1, 2, … are, as far as all of it but one in 10,000.

    >>> _negative_binomial(1.0, 0.9).round(4).tolist()  # one in ten goes on, each time
    [0.9, 0.09, 0.009, 0.0009]
    """
    from scipy.special import gammaln  # scipy.stats takes a second to import

    size = 64
    while True:
        counts = np.arange(size)
        ways = gammaln(counts + shape) - gammaln(shape) - gammaln(counts + 1)
        likely = np.exp(ways + shape * np.log(chance) + counts * np.log1p(-chance))
        within = np.cumsum(likely)
        if within[-1] >= ALL:
            return np.asarray(likely[: int(np.searchsorted(within, ALL)) + 1])
        size *= 2


def _of_sort(chances: FloatArray, is_telling: bool) -> FloatArray:
    return np.asarray(chances[(chances >= TELLING) == is_telling])


def _answers(one: TargetWindows, is_telling: bool) -> Iterator[tuple[float, bool]]:
    """The chances of the windows of a sort that were asked, and their answers."""
    chances = one.chances
    for window, seen in one.asked.items():
        if (chances[window] >= TELLING) == is_telling:
            yield float(chances[window]), seen
