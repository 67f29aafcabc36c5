"""Which windows to ask about in a search for one thing, and how many moments were probably missed.

sound    . . D D . . . . . . d . . .      probability of a matching sound in each window
ask          ^               ^            exact optimum: one call per moment, likeliest first
answers      yes             no           yes: its moment is found; no: its sound counts less
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from earmark.evidence.sound_query import SoundMatch, match_sounds, similarity_weights
from earmark.evidence.sound_track import SoundListener, SoundTrack
from earmark.gate.survival import Survival
from earmark.grid import Windows
from earmark.media import Recording
from earmark.models.sentence_encoder import SentenceEncoder
from earmark.selection import Budget, Coverage, allocate
from earmark.timeline import FloatArray, Span, Track, merge

LASTS = Survival.from_lengths([4.0, 8.0, 16.0, 30.0])
"""Seconds: from one window to half a minute."""

TRUSTED = 0.8
"""Probability of the target in a window if its sound is certain."""

UNHEARD = 0.002
"""Probability of the target if nothing is heard."""

ACTIVE = 0.02
"""Added to `UNHEARD`, times the actions the gate expects in the window, at most 1."""

STEEP, FAINT = 1.5, 0.09
"""Effect of sounds with slight similarity to the question: the probability of a window grows by e
per 1 / `STEEP` of their log odds, up to `FAINT`, which is below `TELLING`."""

SAME = 0.8
"""Share of the probability of a window that continues into the next: the same moment."""

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
"""From this probability a window counts as having a matching sound."""

SHAPES, RATES = (0.3, 0.1), (0.35, 0.2)
"""Gamma prior of the true number of moments relative to the probabilities, for windows without and
with a matching sound. This and `ANSWER` were fitted on simulated answers about composite
recordings: see experiments/find-ranges.md."""

ANSWER = 0.25
"""Weight of an answer as evidence about windows not asked about, which differ from those chosen."""

ALL = 0.9999


class Relevance(NamedTuple):
    likely: FloatArray
    hints: FloatArray


@dataclass(frozen=True, slots=True)
class SoundFinder:
    """Finds the named sounds that a question asks for; can be pickled."""

    matches: Mapping[str, SoundMatch]
    weights: FloatArray
    shares: FloatArray
    """Weights by similarity; all 0 without a sentence encoder."""
    length: float
    listener: SoundListener

    @classmethod
    def of(
        cls,
        question: str,
        listener: SoundListener,
        *,
        length: float,
        meaning: SentenceEncoder | None,
    ) -> SoundFinder:
        names = listener.encoder.classes
        matches = match_sounds(question, names, meaning)
        weights = np.array([matches[name].weight if name in matches else 0.0 for name in names])
        shares = similarity_weights(question, names, meaning) if meaning else np.zeros(len(names))
        return cls(matches, weights, shares, length, listener)

    def __call__(self, recording: Recording) -> Relevance:
        return self.in_track(self.listener(recording))

    def in_track(self, track: SoundTrack) -> Relevance:
        likely, hints = track.strongest(self.weights), track.mean_logits(self.shares)
        count = int(np.ceil(likely.duration / self.length)) + 1
        relevance = Relevance(np.zeros(count), np.full(count, -np.inf))
        for rows, highest in zip((likely, hints), relevance, strict=True):
            _raise_to_highest(rows, self.length, highest)
        return relevance


def _raise_to_highest(rows: Track, length: float, highest: FloatArray) -> None:
    starts = rows.start + np.arange(len(rows)) * rows.hop
    for edge in (starts, starts + rows.hop - 1e-9):
        inside = np.minimum((edge / length).astype(int), len(highest) - 1)
        np.maximum.at(highest, inside, rows.values)


@dataclass(slots=True, eq=False)
class TargetWindows:
    key: str
    windows: Windows
    relevance: FloatArray
    asked: dict[int, bool] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    told: dict[int, float] = field(default_factory=dict)
    lift: FloatArray = field(default_factory=lambda: np.ones(1))

    @property
    def chances(self) -> FloatArray:
        base = self.lift * (UNHEARD + ACTIVE * np.minimum(1.0, self.windows.rates))
        base = np.minimum(FAINT, base)
        chances = 1 - (1 - base) * (1 - TRUSTED * self.relevance)
        for window, chance in self.told.items():
            chances[window] = max(chances[window], chance)
        return np.asarray(chances)

    def stretch(self, window: int) -> range:
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
        for window, is_seen in self.asked.items():
            around = self.stretch(window)
            if is_seen:
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
        answered_yes = [window for window, is_seen in self.asked.items() if is_seen]
        return merge(
            Span(
                around.start * self.windows.length,
                min(self.windows.duration, around.stop * self.windows.length),
            )
            for around in map(self.stretch, answered_yes)
        )

    def unsettled(self) -> FloatArray:
        is_open = np.ones(len(self.relevance), dtype=bool)
        for window, is_seen in self.asked.items():
            is_open[window] = False
            if is_seen:
                around = self.stretch(window)
                is_open[around.start : around.stop] = False
        return self.chances[is_open]

    def answers(self) -> FloatArray:
        """The probability of each window asked about, and 1 for yes or 0 for no: `(asked, 2)`."""
        chances = self.chances
        pairs = [(chances[window], is_seen) for window, is_seen in self.asked.items()]
        return np.array(pairs, dtype=float).reshape(-1, 2)


def lifts(hints: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Factor of each window relative to the mean, by recording; `hints` are log odds."""
    if not hints:
        return {}
    factors = {key: np.exp(STEEP * log_odds) for key, log_odds in hints.items()}
    mean = np.concatenate(list(factors.values())).mean()
    return {key: factor / mean for key, factor in factors.items()}


@dataclass(frozen=True, slots=True)
class MissedEstimate:
    expected: float
    low: float
    high: float
    """The range should hold nine times in ten; `scripts/find_table.py` measures how often."""


def next_windows(targets: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    """The windows of each recording to ask about before the answers are used again.

    The order does not depend on `calls`, so more calls find all that fewer do. Windows up to the
    next of `FIRST` times 1, 2, 4, … are together the exact optimum, and the best of them come
    first.

        calls      1 … 10 │ 11 … 20 │ 21 …… 40 │ 41 ………… 80
        answers           ▲         ▲          ▲
    """
    spent = sum(len(target.asked) + len(target.lost) for target in targets)
    batch = next_stop(spent) - spent
    quiet = _quiet_windows(targets, round(EXPLORED * batch))
    rated = [_with_rates(target, also) for target, also in zip(targets, quiet, strict=True)]
    owned = sum(len(windows.owned) for windows in rated)
    budget = Budget(count=batch - sum(map(len, quiet)) + owned)
    chosen = allocate(Coverage(), rated, budget, across=True)
    picked = [
        (pick.expected, number, window)
        for number, (choice, windows) in enumerate(zip(chosen, rated, strict=True))
        for pick in choice.picks
        if (window := windows.window_at(pick.start)) not in windows.owned
    ]

    def sort_key(index: int) -> tuple[float, int]:
        # To one digit: windows of about the same worth are then asked about evenly spread, since
        # every beginning of the order of reversed bits is.
        return -float(f"{picked[index][0]:.1g}"), int(f"{index:032b}"[::-1], 2)

    ranked = [picked[index][1:] for index in sorted(range(len(picked)), key=sort_key)]
    without_sound = [(number, window) for number, also in enumerate(quiet) for window in also]
    step = round(1 / EXPLORED)
    for index, window_without in enumerate(without_sound):
        ranked.insert(index * step + step // 2, window_without)
    return [sorted(windows) for windows in _by_target(ranked[: max(0, calls)], len(targets))]


def next_stop(spent: int) -> int:
    stop = FIRST
    while stop <= spent:
        stop *= 2
    return stop


def _with_rates(target: TargetWindows, also: Collection[int]) -> Windows:
    owned = tuple(sorted({*target.asked, *target.lost, *also}))
    rates = target.rates()
    return replace(target.windows, scores=rates, rates=rates, lengths=LASTS, owned=owned)


def _quiet_windows(targets: Sequence[TargetWindows], calls: int) -> list[list[int]]:
    quiet = [
        (number, window)
        for number, target in enumerate(targets)
        for window in np.flatnonzero(target.chances < TELLING).tolist()
        if window not in target.asked and window not in target.lost
    ]
    count = min(calls, len(quiet))
    spread = [quiet[int((step + 0.5) * len(quiet) / count)] for step in range(count)]
    return _by_target(spread, len(targets))


def _by_target(windows: Iterable[tuple[int, int]], targets: int) -> list[list[int]]:
    grouped: list[list[int]] = [[] for _ in range(targets)]
    for target, window in windows:
        grouped[target].append(window)
    return grouped


def estimate_missed(targets: Sequence[TargetWindows]) -> MissedEstimate:
    """The moments probably not found, with and without a matching sound.

    The factor between the true number of moments and the probabilities is gamma distributed:
    `SHAPES` and `RATES` are its prior and the answers update it. The number of moments in the other
    windows is then negative binomial. The prior is of rare things: while a window is left, one
    moment may always be missed.
    """
    if not targets:
        return MissedEstimate(0.0, 0.0, 0.0)
    moments = [span for target in targets for span in target.settled()]
    length = targets[0].windows.length
    lasting = max(1.0, sum(span.duration for span in moments) / length / max(1, len(moments)))
    unsettled = np.concatenate([target.unsettled() for target in targets])
    answers = np.concatenate([target.answers() for target in targets])
    expected, sums = 0.0, np.ones(1)
    for is_telling, prior_shape, prior_rate in zip((False, True), SHAPES, RATES, strict=True):
        missed = float(unsettled[(unsettled >= TELLING) == is_telling].sum()) / lasting
        if not missed:
            continue
        chances, yes = answers[(answers[:, 0] >= TELLING) == is_telling].sum(axis=0).tolist()
        shape, rate = prior_shape + ANSWER * yes, prior_rate + ANSWER * chances
        expected += shape / rate * missed
        sums = np.convolve(sums, _negative_binomial(shape, rate / (rate + missed)))
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
