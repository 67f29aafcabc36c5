"""How many new actions lie between two answers, by what both say; learnt anew in every run.

answers    chop ──── wash ──── chop     with the middle one left out, the ends agree;
                                        but it is new, so here that tells less
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.hidden_activity import (
    KINDS,
    Faults,
    Habits,
    KnownActivities,
    likely_kinds,
)
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

FACTOR_DOUBT = 4.0
"""New activities that the fitted factors of a kind count as much as."""

LEAST_TOLD = 0.1
"""Of activities, however often answers are thought to miss them."""

LEAST_TOLD_APART = 0.02
"""Of new activities that bear another name than the ends of a stretch, however few names there
are."""

SCALE_PASSES = 10
"""Of expectation maximisation, over the answers of a run."""

MOST_LIKELY = 0.98
"""That an answer tells of something new."""

HOLDS = np.linspace(0.0, 1.0, 5)
"""How far factors may hold in a recording, as a power of them: 0 not at all, 1 as they are."""

USUAL_HOLD = np.exp(-2 * (1 - HOLDS) ** 2) / np.exp(-2 * (1 - HOLDS) ** 2).sum()
"""How often, by what is known before any answer."""

HOLD_DOUBT = 4.0
"""Recordings that this counts as much as."""

HOLD_PASSES = 5
"""Of expectation maximisation, over the recordings of a run."""


@dataclass(frozen=True, slots=True)
class GapFactors:
    """New actions between two answers, beside those where two different things are being done.

    By how many mean lengths of an action the answers lie apart: over a stretch much longer than
    an action, that the same is done at both ends tells less.
    """

    lengths: tuple[float, ...]
    """Distances, in mean lengths of an action, increasing."""
    same: tuple[float, ...]
    idle: tuple[float, ...]
    """Nothing is being done at either end."""
    one_empty: tuple[float, ...]
    scales: tuple[float, ...] = (1.0,) * len(KINDS)
    """What those of each of `KINDS` are multiplied by, in the run at hand."""

    def __post_init__(self) -> None:
        for shares in (self.same, self.idle, self.one_empty):
            if len(shares) != len(self.lengths) or min(shares) <= 0:
                raise ValueError("factors are above 0, one for each length")

    def __call__(self, kinds: FloatArray, apart: FloatArray) -> FloatArray:
        """The factor of each stretch.

        Args:
            kinds: Shape (stretches, kinds): how likely each is what `KINDS` say.
            apart: Mean lengths of an action that its ends lie apart.
        """
        found: FloatArray = (kinds * self.of_kinds(apart)).sum(axis=1)
        return found

    def of_kinds(self, apart: FloatArray) -> FloatArray:
        """What each of `KINDS` would have, shape (stretches, kinds)."""
        known = np.log(self.lengths)
        tables = {"same": self.same, "one_empty": self.one_empty, "idle": self.idle}
        of_kind = [
            np.interp(np.log(apart), known, tables[kind]) if kind in tables else np.ones(len(apart))
            for kind in KINDS
        ]
        found: FloatArray = np.stack(of_kind, axis=1) * self.scales
        return found


FITTED = GapFactors(
    lengths=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    same=(0.05, 0.14, 0.2, 0.27, 0.39, 0.48, 0.87, 0.88),
    idle=(0.03, 0.03, 0.07, 0.1, 0.16, 0.2, 0.33, 0.4),
    one_empty=(0.75,) * 8,
)
"""Means over GoalStep steps and substeps and EPIC-KITCHENS-100, of perfect answers, on the
development half of each (`scripts/answer_bench.py`): see experiments/LOG.md."""


@dataclass(frozen=True, slots=True, eq=False)
class Trials:
    """What every second answer about a recording says beside those on either side of it."""

    number: int
    """Of the recording."""
    ends: KnownActivities
    """The other answers."""
    apart: FloatArray
    """Mean lengths of an action between two of the ends."""
    is_new: FloatArray
    """Whether the answer between them says what neither does."""
    expected: FloatArray
    """How likely that was by the sound."""
    told_apart: FloatArray
    """How likely something new between them bears another name than they: by how often these names
    are said of the recording."""

    @classmethod
    def pair(cls, number: int, windows: Windows, said: KnownActivities) -> tuple[Trials, Trials]:
        """What every second answer says, from the second on, and from the third on."""
        touched = gains(windows, said.places)
        told = np.bincount(said.names[said.names >= 0], minlength=1)
        shares = np.append(told / max(1, told.sum()), 0.0)  # the last is of nothing, name -1

        def tried(first: int) -> Trials:
            ends = said.every_other(first)
            count = max(0, len(ends) - 1)
            before, middle, after = (slice(at, at + 2 * count, 2) for at in range(first, first + 3))
            name, left, right = (said.names[at] for at in (middle, before, after))
            is_new = (name >= 0) & (name != left) & (name != right)
            more = touched[middle] + touched[after] - gains(windows, ends.places)[1:]
            apart = np.diff(ends.places) / (said.length * windows.per_call)
            chances = 1 - np.exp(-np.maximum(more, 0.0))
            heard = shares[left] + np.where(left == right, 0.0, shares[right])
            told_apart = np.maximum(1 - heard, LEAST_TOLD_APART)
            return cls(number, ends, apart, is_new.astype(float), chances, told_apart)

        return tried(0), tried(1)


@dataclass(frozen=True, slots=True, eq=False)
class Tried:
    """What was said where it was left out, in all recordings of a run: a row for each answer."""

    number: IndexArray
    """Of its recording."""
    kinds: FloatArray
    """Shape (answers, kinds): how likely the ends around it are what `KINDS` say."""
    apart: FloatArray
    is_new: FloatArray
    expected: FloatArray
    told_apart: FloatArray
    false: FloatArray
    """By kind: how likely an answer seems to tell of something new where there is none."""
    told: FloatArray
    """By kind: how much likelier one does where there is."""

    @classmethod
    def of(cls, trials: Sequence[Trials], habits: Habits) -> Tried:
        """All of `trials`, of which there is one at least."""
        numbers = [one.number for one in trials]
        own = replace(habits, active=habits.active[numbers])
        kinds = np.concatenate(likely_kinds([one.ends for one in trials], own)[0])
        columns = ((one.apart, one.is_new, one.expected, one.told_apart) for one in trials)
        apart, is_new, expected, told_apart = map(np.concatenate, zip(*columns, strict=True))
        false = np.array([_false_news(kind, habits.faults) for kind in KINDS])
        told = np.maximum(1 - habits.faults.missed - false, LEAST_TOLD)
        number = np.repeat(numbers, [len(one.apart) for one in trials])
        return cls(number, kinds, apart, is_new, expected, told_apart, false, told)


def fit_factors(
    factors: GapFactors, trials: Sequence[Trials], habits: Habits
) -> tuple[GapFactors, FloatArray]:
    """The factors as they are in this run, and how far they hold in each recording: 0 to 1."""
    count = len(habits.active)
    tried = Tried.of(trials, habits) if trials else None
    if tried is None or not tried.expected.sum() > 0:
        return factors, np.full(count, USUAL_HOLD @ HOLDS)
    factors = _fit_scales(factors, tried)
    return factors, _fit_holds(factors, tried, count)


def _fit_scales(factors: GapFactors, tried: Tried) -> GapFactors:
    """What was new between ends of each kind, beside what was foretold.

    Of what kind the ends are is uncertain where answers err: to count what is new by how likely
    each kind is by the ends alone would give every kind a part of what is new between the others,
    and make them all alike. So what the answer between them says counts as well (expectation
    maximisation).
    """
    foretold = factors.of_kinds(tried.apart) * (tried.expected * tried.told_apart)[:, None]
    is_new = tried.is_new[:, None] > 0
    total = max(float((tried.is_new - tried.kinds @ tried.false).sum()), 1.0)
    level = total / float((tried.kinds * foretold * tried.told).sum())
    scales = np.ones(len(KINDS))
    for _ in range(SCALE_PASSES):
        true = np.minimum(tried.told * level * scales * foretold, MOST_LIKELY - tried.false)
        news = tried.false + true
        likely = tried.kinds * np.where(is_new, news, 1 - news)
        likely /= likely.sum(axis=1, keepdims=True)
        seen = (likely * is_new * true / news).sum(axis=0) / tried.told
        own = (likely * foretold).sum(axis=0)
        level = seen.sum() / own.sum()
        scales = (seen + FACTOR_DOUBT) / (level * own + FACTOR_DOUBT)
    return replace(factors, scales=tuple(scales.tolist()))


def _fit_holds(factors: GapFactors, tried: Tried, count: int) -> FloatArray:
    """How far the factors hold in each of `count` recordings, as far as its own answers tell.

    The posterior mean; the prior is how far they hold in the recordings of the run.
    """
    likely = _hold_likelihoods(factors, tried, count)  # (recordings, holds)
    is_tried = np.bincount(tried.number, minlength=count) > 0
    prior = USUAL_HOLD
    for _ in range(HOLD_PASSES):
        chances = likely * prior
        chances /= chances.sum(axis=1, keepdims=True)
        total = chances[is_tried].sum(axis=0) + HOLD_DOUBT * USUAL_HOLD
        prior = total / total.sum()
    chances = likely * prior
    holds: FloatArray = (chances @ HOLDS) / chances.sum(axis=1)
    return holds


def _hold_likelihoods(factors: GapFactors, tried: Tried, count: int) -> FloatArray:
    """How likely what was new in each recording is, the factors to each power; 1 of the best."""
    factor = factors(tried.kinds, tried.apart)
    false = tried.kinds @ tried.false
    told = tried.kinds @ tried.told * tried.expected
    number, is_new = tried.number, tried.is_new
    news = np.maximum(np.bincount(number, is_new - false, count), 0.0) + 0.5
    found = []
    for hold in HOLDS.tolist():
        chances = told * factor**hold
        busy = news / np.maximum(np.bincount(number, chances, count), 1e-9)
        chances = np.clip(false + busy[number] * chances, 1e-6, MOST_LIKELY)
        logs = np.where(is_new > 0, np.log(chances), np.log(1 - chances))
        found.append(np.bincount(number, logs, count))
    rows = np.stack(found, axis=1)
    likely: FloatArray = np.exp(rows - rows.max(axis=1, keepdims=True))
    return likely


def _false_news(kind: str, faults: Faults) -> float:
    """How likely an answer amid a stretch seems to tell of something new where there is none."""
    renamed = (1 - faults.missed) * faults.renamed
    ends = {"idle": (faults.invented,), "one_empty": (renamed, faults.invented)}
    return float(np.mean(ends.get(kind, (renamed,))))
