"""How many new actions lie in a gap between two answers, given both; fitted anew in every run.

answers    chop ──── wash ──── chop     hold out the middle answer: its neighbours agree, but
                                        it is new, so in this run agreement means less
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
    infer_kinds,
)
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

FACTOR_PRIOR_COUNT = 4.0
"""In new activities."""

MIN_DETECTION = 0.1

MIN_DISTINCT_NAME = 0.02

SCALE_ITERATIONS = 10

MAX_NEW_PROBABILITY = 0.98

TRANSFER_WEIGHTS = np.linspace(0.0, 1.0, 5)
"""Powers to which factors may be raised: 0 ignores them, 1 uses them unchanged."""

TRANSFER_PRIOR = (
    np.exp(-2 * (1 - TRANSFER_WEIGHTS) ** 2) / np.exp(-2 * (1 - TRANSFER_WEIGHTS) ** 2).sum()
)

TRANSFER_PRIOR_COUNT = 4.0
"""In recordings."""

TRANSFER_ITERATIONS = 5


@dataclass(frozen=True, slots=True)
class GapFactors:
    """New actions in a gap, relative to a gap between two different activities."""

    distances: tuple[float, ...]
    """In mean lengths of an action, increasing."""
    same: tuple[float, ...]
    idle: tuple[float, ...]
    one_empty: tuple[float, ...]
    scales: tuple[float, ...] = (1.0,) * len(KINDS)

    def __post_init__(self) -> None:
        for shares in (self.same, self.idle, self.one_empty):
            if len(shares) != len(self.distances) or min(shares) <= 0:
                raise ValueError("factors are above 0, one for each length")

    def __call__(self, kinds: FloatArray, distance: FloatArray) -> FloatArray:
        """`kinds` are the probabilities of `KINDS`, shape (gaps, kinds)."""
        found: FloatArray = (kinds * self.by_kind(distance)).sum(axis=1)
        return found

    def by_kind(self, distance: FloatArray) -> FloatArray:
        """Shape (gaps, kinds)."""
        known, differ = np.log(self.distances), (1.0,) * len(self.distances)
        tables = (self.same, differ, self.one_empty, self.idle)  # in the order of `KINDS`
        of_kind = [np.interp(np.log(distance), known, table) for table in tables]
        found: FloatArray = np.stack(of_kind, axis=1) * self.scales
        return found


FITTED_FACTORS = GapFactors(
    distances=(0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    same=(0.05, 0.14, 0.2, 0.27, 0.39, 0.48, 0.87, 0.88),
    idle=(0.03, 0.03, 0.07, 0.1, 0.16, 0.2, 0.33, 0.4),
    one_empty=(0.75,) * 8,
)
"""Means over GoalStep steps and substeps and EPIC-KITCHENS-100, of perfect answers, on the
development half of each (`scripts/answer_bench.py`): see experiments/gap-factors.md."""


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutAnswers:
    recording: int
    neighbours: ActivitySequence
    distance: FloatArray
    """Mean lengths of an action between the two neighbours."""
    is_new: FloatArray
    """1 if the held-out answer names an activity that neither neighbour names, else 0."""
    expected: FloatArray
    """Probability of a new action there, from the sound."""
    distinct_name: FloatArray

    @classmethod
    def split(
        cls, recording: int, windows: Windows, sequence: ActivitySequence
    ) -> tuple[HeldOutAnswers, HeldOutAnswers]:
        """Held out in two ways: second, fourth, …; and third, fifth, …."""
        touched = gains(windows, sequence.positions)
        counts = np.bincount(sequence.labels[sequence.labels >= 0], minlength=1)
        shares = np.append(counts / max(1, counts.sum()), 0.0)  # last: label -1, no activity

        def hold_out(first: int) -> HeldOutAnswers:
            neighbours = sequence.every_other(first)
            count = max(0, len(neighbours) - 1)
            before, middle, after = (slice(at, at + 2 * count, 2) for at in range(first, first + 3))
            name, left, right = (sequence.labels[at] for at in (middle, before, after))
            is_new = (name >= 0) & (name != left) & (name != right)
            added = touched[middle] + touched[after] - gains(windows, neighbours.positions)[1:]
            distance = np.diff(neighbours.positions) / sequence.mean_steps
            chances = 1 - np.exp(-np.maximum(added, 0.0))
            neighbour_share = shares[left] + np.where(left == right, 0.0, shares[right])
            distinct_name = np.maximum(1 - neighbour_share, MIN_DISTINCT_NAME)
            return cls(
                recording, neighbours, distance, is_new.astype(float), chances, distinct_name
            )

        return hold_out(0), hold_out(1)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutTable:
    recording: IndexArray
    kinds: FloatArray
    """Shape (answers, kinds)."""
    false_positive: FloatArray
    """By kind: probability that an answer seems new if nothing is."""
    detection: FloatArray
    """By kind: how much this probability rises if something is new."""
    distance: FloatArray
    is_new: FloatArray
    expected: FloatArray
    distinct_name: FloatArray

    @classmethod
    def build(
        cls, held_out: Sequence[HeldOutAnswers], statistics: AnswerStatistics
    ) -> HeldOutTable:
        recordings = [one.recording for one in held_out]
        own = replace(statistics, active=statistics.active[recordings])
        kinds = np.concatenate(infer_kinds([one.neighbours for one in held_out], own)[0])
        columns = ((one.distance, one.is_new, one.expected, one.distinct_name) for one in held_out)
        rows = map(np.concatenate, zip(*columns, strict=True))
        errors = statistics.errors
        renamed, invented = (1 - errors.missed) * errors.renamed, errors.invented
        false_positive = np.array([renamed, renamed, (renamed + invented) / 2, invented])
        detection = np.maximum(1 - errors.missed - false_positive, MIN_DETECTION)
        recording = np.repeat(recordings, [len(one.distance) for one in held_out])
        return cls(recording, kinds, false_positive, detection, *rows)


def fit_factors(
    factors: GapFactors, held_out: Sequence[HeldOutAnswers], statistics: AnswerStatistics
) -> tuple[GapFactors, FloatArray]:
    count = len(statistics.active)
    table = HeldOutTable.build(held_out, statistics) if held_out else None
    if table is None or not table.expected.sum() > 0:
        return factors, np.full(count, TRANSFER_PRIOR @ TRANSFER_WEIGHTS)
    factors = _fit_scales(factors, table)
    return factors, _fit_transfer_weights(factors, table, count)


def _fit_scales(factors: GapFactors, table: HeldOutTable) -> GapFactors:
    """By the new activities observed in gaps of each kind over those predicted.

    The held-out answer counts as evidence of the kind too (expectation maximisation): by the ends
    alone, all kinds would come out alike.
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
    """Posterior means; the prior is the distribution over the recordings of the run."""
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
