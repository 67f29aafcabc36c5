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
from earmark.timeline import FloatArray

FACTOR_DOUBT = 4.0
"""New activities that the fitted factors of a kind count as much as."""

LEAST_TOLD = 0.1
"""Of activities, however often answers are thought to miss them."""


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

    @classmethod
    def of(cls, number: int, windows: Windows, said: KnownActivities, first: int) -> Trials:
        """What those between the ends say, which are every second from the `first` on."""
        ends = said.every_other(first)
        count = max(0, len(ends) - 1)
        before, middle, after = (slice(at, at + 2 * count, 2) for at in range(first, first + 3))
        names, touched = said.names, gains(windows, said.places)
        is_new = (names[middle] >= 0) & (names[middle] != names[before])
        is_new &= names[middle] != names[after]
        more = touched[middle] + touched[after] - gains(windows, ends.places)[1:]
        apart = np.diff(ends.places) / (said.length * windows.per_call)
        chances = 1 - np.exp(-np.maximum(more, 0.0))
        return cls(number, ends, apart, is_new.astype(float), chances)


def fit_scales(factors: GapFactors, trials: Sequence[Trials], habits: Habits) -> GapFactors:
    """The factors as they are in this run."""
    if not trials:
        return factors
    own = replace(habits, active=habits.active[[one.number for one in trials]])
    share = np.concatenate(likely_kinds([one.ends for one in trials], own)[0])
    columns = ((one.apart, one.is_new, one.expected) for one in trials)
    apart, is_new, expected = map(np.concatenate, zip(*columns, strict=True))
    foretold = (share * factors.of_kinds(apart) * expected[:, None]).sum(axis=0)
    if not foretold.sum() > 0:
        return factors
    faulty = np.array([_false_news(kind, habits.faults) for kind in KINDS])
    seen = np.maximum(share.T @ is_new - faulty * share.sum(axis=0), 0.0)
    seen /= np.maximum(1 - habits.faults.missed - faulty, LEAST_TOLD)
    foretold *= seen.sum() / foretold.sum()
    scales = (seen + FACTOR_DOUBT) / (foretold + FACTOR_DOUBT)
    return replace(factors, scales=tuple(scales.tolist()))


def _false_news(kind: str, faults: Faults) -> float:
    """How likely an answer amid a stretch seems to tell of something new where there is none."""
    renamed = (1 - faults.missed) * faults.renamed
    ends = {"idle": (faults.invented,), "one_empty": (renamed, faults.invented)}
    return float(np.mean(ends.get(kind, (renamed,))))
