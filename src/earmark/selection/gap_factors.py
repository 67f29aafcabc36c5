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
    ActivitySequence,
    AnswerStatistics,
    ErrorRates,
    infer_kinds,
)
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

FACTOR_PRIOR_COUNT = 4.0
"""New activities that the fitted factors of a kind count as much as."""

MIN_DETECTION = 0.1
"""Of activities, however often answers are thought to miss them."""

MIN_DISTINCT_NAME = 0.02
"""Of new activities that bear another name than the ends of a stretch, however few names there
are."""

SCALE_ITERATIONS = 10
"""Of expectation maximisation, over the answers of a run."""

MAX_NEW_PROBABILITY = 0.98
"""That an answer tells of something new."""

TRANSFER_WEIGHTS = np.linspace(0.0, 1.0, 5)
"""How far factors may hold in a recording, as a power of them: 0 not at all, 1 as they are."""

TRANSFER_PRIOR = (
    np.exp(-2 * (1 - TRANSFER_WEIGHTS) ** 2) / np.exp(-2 * (1 - TRANSFER_WEIGHTS) ** 2).sum()
)
"""How often, by what is known before any answer."""

TRANSFER_PRIOR_COUNT = 4.0
"""Recordings that this counts as much as."""

TRANSFER_ITERATIONS = 5
"""Of expectation maximisation, over the recordings of a run."""


@dataclass(frozen=True, slots=True)
class GapFactors:
    """New actions between two answers, beside those where two different things are being done.

    By how many mean lengths of an action the answers lie apart: over a stretch much longer than
    an action, that the same is done at both ends tells less.
    """

    distances: tuple[float, ...]
    """Distances, in mean lengths of an action, increasing."""
    same: tuple[float, ...]
    idle: tuple[float, ...]
    """Nothing is being done at either end."""
    one_empty: tuple[float, ...]
    scales: tuple[float, ...] = (1.0,) * len(KINDS)
    """What those of each of `KINDS` are multiplied by, in the run at hand."""

    def __post_init__(self) -> None:
        for shares in (self.same, self.idle, self.one_empty):
            if len(shares) != len(self.distances) or min(shares) <= 0:
                raise ValueError("factors are above 0, one for each length")

    def __call__(self, kinds: FloatArray, distance: FloatArray) -> FloatArray:
        """The factor of each stretch.

        Args:
            kinds: Shape (stretches, kinds): how likely each is what `KINDS` say.
            distance: Mean lengths of an action that its ends lie apart.
        """
        found: FloatArray = (kinds * self.by_kind(distance)).sum(axis=1)
        return found

    def by_kind(self, distance: FloatArray) -> FloatArray:
        """What each of `KINDS` would have, shape (stretches, kinds)."""
        known = np.log(self.distances)
        tables = {"same": self.same, "one_empty": self.one_empty, "idle": self.idle}
        of_kind = [
            np.interp(np.log(distance), known, tables[kind])
            if kind in tables
            else np.ones(len(distance))
            for kind in KINDS
        ]
        found: FloatArray = np.stack(of_kind, axis=1) * self.scales
        return found


FITTED_FACTORS = GapFactors(
    distances=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    same=(0.05, 0.14, 0.2, 0.27, 0.39, 0.48, 0.87, 0.88),
    idle=(0.03, 0.03, 0.07, 0.1, 0.16, 0.2, 0.33, 0.4),
    one_empty=(0.75,) * 8,
)
"""Means over GoalStep steps and substeps and EPIC-KITCHENS-100, of perfect answers, on the
development half of each (`scripts/answer_bench.py`): see experiments/LOG.md."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutAnswers:
    """What every second answer about a recording says beside those on either side of it."""

    recording: int
    """Of the recording."""
    neighbours: ActivitySequence
    """The other answers."""
    distance: FloatArray
    """Mean lengths of an action between two of the ends."""
    is_new: FloatArray
    """Whether the answer between them says what neither does."""
    expected: FloatArray
    """How likely that was by the sound."""
    distinct_name: FloatArray
    """How likely something new between them bears another name than they: by how often these names
    are said of the recording."""

    @classmethod
    def split(
        cls, recording: int, windows: Windows, sequence: ActivitySequence
    ) -> tuple[HeldOutAnswers, HeldOutAnswers]:
        """What every second answer says, from the second on, and from the third on."""
        touched = gains(windows, sequence.positions)
        counts = np.bincount(sequence.labels[sequence.labels >= 0], minlength=1)
        shares = np.append(counts / max(1, counts.sum()), 0.0)  # the last is of nothing, name -1

        def hold_out(first: int) -> HeldOutAnswers:
            neighbours = sequence.every_other(first)
            count = max(0, len(neighbours) - 1)
            before, middle, after = (slice(at, at + 2 * count, 2) for at in range(first, first + 3))
            name, left, right = (sequence.labels[at] for at in (middle, before, after))
            is_new = (name >= 0) & (name != left) & (name != right)
            added = touched[middle] + touched[after] - gains(windows, neighbours.positions)[1:]
            distance = np.diff(neighbours.positions) / (sequence.mean_steps * windows.per_call)
            chances = 1 - np.exp(-np.maximum(added, 0.0))
            neighbour_share = shares[left] + np.where(left == right, 0.0, shares[right])
            distinct_name = np.maximum(1 - neighbour_share, MIN_DISTINCT_NAME)
            return cls(
                recording, neighbours, distance, is_new.astype(float), chances, distinct_name
            )

        return hold_out(0), hold_out(1)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutTable:
    """What was said where it was left out, in all recordings of a run: a row for each answer."""

    recording: IndexArray
    """Of its recording."""
    kinds: FloatArray
    """Shape (answers, kinds): how likely the ends around it are what `KINDS` say."""
    distance: FloatArray
    is_new: FloatArray
    expected: FloatArray
    distinct_name: FloatArray
    false_positive: FloatArray
    """By kind: how likely an answer seems to tell of something new where there is none."""
    detection: FloatArray
    """By kind: how much likelier one does where there is."""

    @classmethod
    def build(
        cls, held_out: Sequence[HeldOutAnswers], statistics: AnswerStatistics
    ) -> HeldOutTable:
        """All of `trials`, of which there is one at least."""
        recordings = [one.recording for one in held_out]
        own = replace(statistics, active=statistics.active[recordings])
        kinds = np.concatenate(infer_kinds([one.neighbours for one in held_out], own)[0])
        columns = ((one.distance, one.is_new, one.expected, one.distinct_name) for one in held_out)
        distance, is_new, expected, distinct_name = map(np.concatenate, zip(*columns, strict=True))
        false_positive = np.array([_false_positive_rate(kind, statistics.errors) for kind in KINDS])
        detection = np.maximum(1 - statistics.errors.missed - false_positive, MIN_DETECTION)
        recording = np.repeat(recordings, [len(one.distance) for one in held_out])
        return cls(
            recording, kinds, distance, is_new, expected, distinct_name, false_positive, detection
        )


def fit_factors(
    factors: GapFactors, held_out: Sequence[HeldOutAnswers], statistics: AnswerStatistics
) -> tuple[GapFactors, FloatArray]:
    """The factors as they are in this run, and how far they hold in each recording: 0 to 1."""
    count = len(statistics.active)
    table = HeldOutTable.build(held_out, statistics) if held_out else None
    if table is None or not table.expected.sum() > 0:
        return factors, np.full(count, TRANSFER_PRIOR @ TRANSFER_WEIGHTS)
    factors = _fit_scales(factors, table)
    return factors, _fit_transfer_weights(factors, table, count)


def _fit_scales(factors: GapFactors, table: HeldOutTable) -> GapFactors:
    """What was new between ends of each kind, beside what was foretold.

    Of what kind the ends are is uncertain where answers err: to count what is new by how likely
    each kind is by the ends alone would give every kind a part of what is new between the others,
    and make them all alike. So what the answer between them says counts as well (expectation
    maximisation).
    """
    predicted = factors.by_kind(table.distance) * (table.expected * table.distinct_name)[:, None]
    is_new = table.is_new[:, None] > 0
    total = max(float((table.is_new - table.kinds @ table.false_positive).sum()), 1.0)
    level = total / float((table.kinds * predicted * table.detection).sum())
    scales = np.ones(len(KINDS))
    for _ in range(SCALE_ITERATIONS):
        true_positive = np.minimum(
            table.detection * level * scales * predicted, MAX_NEW_PROBABILITY - table.false_positive
        )
        new_probability = table.false_positive + true_positive
        likely = table.kinds * np.where(is_new, new_probability, 1 - new_probability)
        likely /= likely.sum(axis=1, keepdims=True)
        observed = (likely * is_new * true_positive / new_probability).sum(axis=0) / table.detection
        own = (likely * predicted).sum(axis=0)
        level = observed.sum() / own.sum()
        scales = (observed + FACTOR_PRIOR_COUNT) / (level * own + FACTOR_PRIOR_COUNT)
    return replace(factors, scales=tuple(scales.tolist()))


def _fit_transfer_weights(factors: GapFactors, table: HeldOutTable, count: int) -> FloatArray:
    """How far the factors hold in each of `count` recordings, as far as its own answers tell.

    The posterior mean; the prior is how far they hold in the recordings of the run.
    """
    likely = _transfer_likelihoods(factors, table, count)  # (recordings, weights)
    has_held_out = np.bincount(table.recording, minlength=count) > 0
    prior = TRANSFER_PRIOR
    for _ in range(TRANSFER_ITERATIONS):
        chances = likely * prior
        chances /= chances.sum(axis=1, keepdims=True)
        total = chances[has_held_out].sum(axis=0) + TRANSFER_PRIOR_COUNT * TRANSFER_PRIOR
        prior = total / total.sum()
    chances = likely * prior
    weights: FloatArray = (chances @ TRANSFER_WEIGHTS) / chances.sum(axis=1)
    return weights


def _transfer_likelihoods(factors: GapFactors, table: HeldOutTable, count: int) -> FloatArray:
    """How likely what was new in each recording is, the factors to each power; 1 of the best."""
    factor = factors(table.kinds, table.distance)
    false_positive = table.kinds @ table.false_positive
    detection = table.kinds @ table.detection * table.expected
    recording, is_new = table.recording, table.is_new
    new_count = np.maximum(np.bincount(recording, is_new - false_positive, count), 0.0) + 0.5
    found = []
    for weight in TRANSFER_WEIGHTS.tolist():
        chances = detection * factor**weight
        busy = new_count / np.maximum(np.bincount(recording, chances, count), 1e-9)
        chances = np.clip(false_positive + busy[recording] * chances, 1e-6, MAX_NEW_PROBABILITY)
        logs = np.where(is_new > 0, np.log(chances), np.log(1 - chances))
        found.append(np.bincount(recording, logs, count))
    rows = np.stack(found, axis=1)
    likely: FloatArray = np.exp(rows - rows.max(axis=1, keepdims=True))
    return likely


def _false_positive_rate(kind: str, errors: ErrorRates) -> float:
    """How likely an answer amid a stretch seems to tell of something new where there is none."""
    renamed = (1 - errors.missed) * errors.renamed
    ends = {"idle": (errors.invented,), "one_empty": (renamed, errors.invented)}
    return float(np.mean(ends.get(kind, (renamed,))))
