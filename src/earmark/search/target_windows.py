"""Which windows to ask about in a search for one thing, and how many moments were probably missed.

sound    . . D D . . . . . . d . . .      probability of a matching sound in each window
ask          ^               ^            exact optimum: one call per moment, likeliest first
answers      yes             no           yes: its moment is found; no: its sound counts less
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
"""Assumed lengths, in seconds, of what is searched for: from one window to half a minute."""

TRUSTED = 0.8
"""Probability that a window shows the target if its sound is certain."""

UNHEARD = 0.002
"""Probability that a window shows the target if nothing is heard."""

ACTIVE = 0.02
"""Added to this probability, times the actions the gate expects in the window, at most 1."""

STEEP, FAINT = 1.5, 0.09
"""Effect of sounds with slight similarity to the question: the probability of a window grows by e
per 1 / `STEEP` of their log odds, up to `FAINT`, which is below `TELLING`."""

SAME = 0.8
"""Share of the probability of the window before that continues into a window: the same moment."""

CONFIRM = 0.05
"""Value of a call next to a yes: it shows how long the moment lasts, and finds no new one."""

DOUBT = 0.3
"""Factor on the probability of the windows of a sound after one of them was answered no."""

EXPLORED = 0.1
"""Share of calls evenly spread over windows without a matching sound: only these calls allow an
estimate of what is missed there."""

FIRST = 10
"""Calls before the answers are first used; then after twice as many, and so on."""

TELLING = 0.1
"""Probability from which a window counts as having a matching sound."""

SHAPES, RATES = (0.3, 0.1), (0.35, 0.2)
"""Gamma prior of the true number of moments relative to the probabilities, for windows without and
with a matching sound. This and `ANSWER` were fitted on simulated answers about composite
recordings: see experiments/LOG.md."""

ANSWER = 0.25
"""Weight of an answer as evidence about windows not asked about, which differ from those chosen."""

ALL = 0.9999
"""Probability mass at which an infinite distribution is cut off."""


@dataclass(slots=True, eq=False)
class TargetWindows:
    """The windows of one recording, and what is known about each."""

    key: str
    windows: Windows
    relevance: FloatArray
    """Probability of a matching sound in each window, 0 to 1."""
    asked: dict[int, bool] = field(default_factory=dict)
    """Answer by window: whether it shows the target."""
    lost: set[int] = field(default_factory=set)
    """Windows whose call failed."""
    told: dict[int, float] = field(default_factory=dict)
    """Probability by window, from captions that are already paid for."""
    lift: FloatArray = field(default_factory=lambda: np.ones(1))
    """Factor on the probability of each window, from sounds slightly similar to the question."""

    @property
    def chances(self) -> FloatArray:
        """Probability that each window shows the target, before any answer."""
        base = self.lift * (UNHEARD + ACTIVE * np.minimum(1.0, self.windows.rates))
        base = np.minimum(FAINT, base)
        chances = 1 - (1 - base) * (1 - TRUSTED * self.relevance)
        for window, chance in self.told.items():
            chances[window] = max(chances[window], chance)
        return np.asarray(chances)

    def stretch(self, window: int) -> range:
        """The windows around `window` in which the same sound continues; else `window` alone."""
        least = max(TELLING, self.relevance[window] / 3)
        first = last = window
        if self.relevance[window] >= TELLING:
            while first > 0 and self.relevance[first - 1] >= least:
                first -= 1
            while last + 1 < len(self.relevance) and self.relevance[last + 1] >= least:
                last += 1
        return range(first, last + 1)

    def rates(self) -> FloatArray:
        """Expected number of moments that begin in each window and are not found yet."""
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
        """Windows answered yes, joined with those around them in which the same sound continues."""
        seen = [window for window, is_seen in self.asked.items() if is_seen]
        return merge(
            Span(
                around.start * self.windows.length,
                min(self.windows.duration, around.stop * self.windows.length),
            )
            for around in map(self.stretch, seen)
        )

    def unsettled(self) -> FloatArray:
        """The probabilities of windows neither asked about nor part of a moment that was found."""
        is_open = np.ones(len(self.relevance), dtype=bool)
        for window, seen in self.asked.items():
            is_open[window] = False
            if seen:
                around = self.stretch(window)
                is_open[around.start : around.stop] = False
        return self.chances[is_open]


def lifts(hints: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Factor of each window relative to the mean of all windows, by recording; empty without hints.

    `hints` are log odds of sounds in each window, weighted by their similarity to the question.
    """
    if not hints:
        return {}
    factors = {key: np.exp(STEEP * log_odds) for key, log_odds in hints.items()}
    mean = np.concatenate(list(factors.values())).mean()
    return {key: factor / mean for key, factor in factors.items()}


@dataclass(frozen=True, slots=True)
class MissedEstimate:
    """Estimated number of moments that were not found."""

    expected: float
    low: float
    high: float
    """The range should hold nine times in ten; `scripts/find_table.py` measures how often."""


def next_windows(many: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    """The windows of each recording to ask about before the answers are used again.

    At most `calls` windows; none if no window is left. The order does not depend on `calls`, so
    more calls find all that fewer do. Windows up to the next of `FIRST` times 1, 2, 4, … are
    together the exact optimum, and the best of them come first.

        calls      1 … 10 │ 11 … 20 │ 21 …… 40 │ 41 ………… 80
        answers           ▲         ▲          ▲
    """
    spent = sum(len(one.asked) + len(one.lost) for one in many)
    batch = next_stop(spent) - spent
    quiet = _quiet_windows(many, round(EXPLORED * batch))
    rated = [_with_rates(one, also) for one, also in zip(many, quiet, strict=True)]
    held = sum(len(one.owned) for one in rated)
    budget = Budget(count=batch - sum(map(len, quiet)) + held)
    chosen = allocate(Coverage(), rated, budget, across=True)
    found = [
        (pick.expected, place, window)
        for place, (choice, one) in enumerate(zip(chosen, rated, strict=True))
        for pick in choice.picks
        if (window := one.window_at(pick.start)) not in one.owned
    ]
    order = sorted(range(len(found)), key=lambda at: (-_one_digit(found[at][0]), _bit_reversed(at)))
    ranked = [found[at][1:] for at in order]
    without_sound = [(place, window) for place, also in enumerate(quiet) for window in also]
    every = round(1 / EXPLORED)
    for number, one_more in enumerate(without_sound):
        ranked.insert(number * every + every // 2, one_more)
    taken: list[list[int]] = [[] for _ in many]
    for place, window in ranked[: max(0, calls)]:
        taken[place].append(window)
    return [sorted(windows) for windows in taken]


def next_stop(spent: int) -> int:
    """Number of calls after which the answers are used next."""
    stop = FIRST
    while stop <= spent:
        stop *= 2
    return stop


def _one_digit(worth: float) -> float:
    """`worth` to one digit: windows of about the same worth are then asked about evenly spread."""
    return float(f"{worth:.1g}")


def _bit_reversed(place: int) -> int:
    """`place` with its bits reversed: every beginning of this order is evenly spread."""
    return int(f"{place:032b}"[::-1], 2)


def _with_rates(one: TargetWindows, also: Collection[int]) -> Windows:
    owned = tuple(sorted({*one.asked, *one.lost, *also}))
    rates = one.rates()
    return replace(one.windows, scores=rates, rates=rates, survival=LASTS, owned=owned)


def _quiet_windows(many: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    """Up to `calls` windows without a matching sound, evenly spread over all recordings."""
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
    """The moments probably not found, from the answers and the probabilities of the other windows.

    Windows with and without a matching sound are treated separately. The factor between the true
    number of moments and the probabilities is gamma distributed: `SHAPES` and `RATES` are its prior
    and the answers update it. The number of moments in the other windows is then negative binomial,
    and the two numbers are added. The prior is of rare things: while a window is left, one moment
    may always be missed.
    """
    if not many:
        return MissedEstimate(0.0, 0.0, 0.0)
    found = [span for one in many for span in one.settled()]
    length = many[0].windows.length
    lasting = max(1.0, sum(span.duration for span in found) / length / max(1, len(found)))
    expected, sums = 0.0, np.ones(1)
    for sort, is_telling in enumerate((False, True)):
        left = sum(float(_select(one.unsettled(), is_telling).sum()) for one in many) / lasting
        if not left:
            continue
        answers = [each for one in many for each in _answered(one, is_telling)]
        shape = SHAPES[sort] + ANSWER * sum(seen for _, seen in answers)
        rate = RATES[sort] + ANSWER * sum(chance for chance, _ in answers)
        expected += shape / rate * left
        sums = np.convolve(sums, _negative_binomial(shape, rate / (rate + left)))
    low, high = np.searchsorted(np.cumsum(sums) / sums.sum(), [0.05, 0.95])
    return MissedEstimate(round(expected, 2), float(low), max(float(high), float(expected > 0)))


def _negative_binomial(shape: float, chance: float) -> FloatArray:
    """Probabilities of 0, 1, 2, …, cut off where they reach `ALL`.

    >>> _negative_binomial(1.0, 0.9).round(4).tolist()  # each continues with probability 0.1
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


def _select(chances: FloatArray, is_telling: bool) -> FloatArray:
    return np.asarray(chances[(chances >= TELLING) == is_telling])


def _answered(one: TargetWindows, is_telling: bool) -> Iterator[tuple[float, bool]]:
    """Probability and answer of each window asked about, with or without a matching sound."""
    chances = one.chances
    for window, seen in one.asked.items():
        if (chances[window] >= TELLING) == is_telling:
            yield float(chances[window]), seen
