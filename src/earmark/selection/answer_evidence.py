"""Changes the expected rates between two answers by what these say.

    answers    chop ──────── chop     the same: hardly anything new in between
               .    ──────── .        both idle: hardly anything at all
               .    ──────── chop     one end idle
               chop ──────── wash     different: most new actions lie here

The ends of a gap count by what all answers make likely there (`hidden_activity`). The sum of the
rates over all gaps stays the same. How much each kind of gap holds is fitted anew in every run:

    answers    chop ──── wash ──── chop     hold out the middle answer: its neighbours agree, but
                                            it is new, so in this run agreement means less
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from earmark.grid import Windows
from earmark.selection.hidden_activity import (
    KINDS,
    ActivitySequence,
    Agrees,
    AnswerStatistics,
    infer_kinds,
)
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

NO_ACTIVITY = ""

DISTANCES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Between the two ends of a gap, in mean lengths of an action."""

FACTORS = {
    "same": (0.05, 0.14, 0.2, 0.27, 0.39, 0.48, 0.87, 0.88),
    "differ": (1.0,) * 8,
    "one_empty": (0.75,) * 8,
    "idle": (0.03, 0.03, 0.07, 0.1, 0.16, 0.2, 0.33, 0.4),
}
"""New actions in a gap relative to one between two different activities, for each of `DISTANCES`.

Means over GoalStep steps and substeps and EPIC-KITCHENS-100, of perfect answers, on the development
half of each (`scripts/answer_bench.py`): see experiments/gap-factors.md."""

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

MIN_SPREAD = 0.06
"""Least variance of the factors (their mean is 1) to plan by. Below it, moving calls gains less
than their uneven spacing loses. Set on the development halves, as are the next ones."""

MIN_EVIDENCE = 1.0
"""In units of log-likelihood: that activities continue, plus half the sum of the squared deviations
of the factors from their mean. See experiments/when-to-replan.md."""

MIN_EVIDENCE_UNHEARD = 3.0
"""`MIN_EVIDENCE` if nothing is heard: a few misses of the model in a row look like idle time."""

SPREAD_MARGIN = 2.0
"""Added to `MIN_SPREAD` if nothing is heard, divided by the number of gaps."""

KIND_PHRASES = {
    "same": "between answers that agree",
    "idle": "between answers that see nothing done",
    "one_empty": "between something and nothing done",
    "differ": "between answers that differ",
}


@dataclass(frozen=True, slots=True)
class ObservedActivity:
    window: int
    activity: str | None
    """`NO_ACTIVITY` if nothing is done, None if the answer does not say."""


@dataclass(slots=True, eq=False)
class Gaps:
    """The gaps between adjacent answers of one recording, in order of time."""

    first: IndexArray
    stop: IndexArray
    """Windows."""
    left_answer: IndexArray
    """Index of the left end among the answers that say what is done."""
    distance: FloatArray
    """In mean lengths of an action, from answer to answer."""
    expected: FloatArray
    """New actions expected from the sound that neither end touches."""
    kind: IndexArray
    """The likeliest of `KINDS`."""
    factor: FloatArray
    """New actions, relative to a gap between two different activities."""

    @classmethod
    def find(cls, windows: Windows, answers: Sequence[ObservedActivity]) -> Gaps:
        """`answers` are sorted by window; kinds and factors are set by `rate`."""
        positions = np.array([answer.window for answer in answers], dtype=np.intp)
        names_activity = np.array([answer.activity is not None for answer in answers], dtype=bool)
        distance = np.diff(positions)
        is_gap = names_activity[1:] & names_activity[:-1] & (distance > 1)
        total = np.cumsum(windows.rates)
        touched = gains(windows, positions) - windows.rates[positions]  # started earlier
        expected = total[positions[1:] - 1] - total[positions[:-1]] - touched[1:]
        return cls(
            first=positions[:-1][is_gap] + 1,
            stop=positions[1:][is_gap],
            left_answer=np.cumsum(names_activity)[:-1][is_gap] - 1,
            distance=distance[is_gap] / float(windows.reach.sum()),
            expected=np.maximum(expected[is_gap], 0.0),
            kind=np.zeros(0, np.intp),
            factor=np.zeros(0),
        )

    def rate(self, kinds: FloatArray, scales: FloatArray, weight: float) -> None:
        """`kinds` has the shape (answers - 1, kinds); `weight` is the power of the factors."""
        own = kinds[self.left_answer]
        factor = (own * (factors_by_kind(self.distance) * scales)).sum(axis=1)
        weaker = factor**weight
        mean = float((weaker * self.expected).sum())
        self.factor = weaker * (factor * self.expected).sum() / mean if mean > 0 else factor
        self.kind = own.argmax(axis=1)


def factors_by_kind(distance: FloatArray) -> FloatArray:
    """Shape (gaps, kinds)."""
    columns = [np.interp(np.log(distance), np.log(DISTANCES), FACTORS[kind]) for kind in KINDS]
    return np.stack(columns, axis=1)


class RevisedWindows(Collection[Windows]):
    def __init__(
        self,
        many: Collection[Windows],
        answers: Sequence[Sequence[ObservedActivity]],
        *,
        agree: Agrees,
        busyness: Sequence[float] | None = None,
    ) -> None:
        self.many = many
        self.busyness = [1.0] * len(many) if busyness is None else busyness
        self.gaps: list[Gaps] = []
        self.uses_gaps = True
        self.has_sound_evidence = False
        sequences: list[ActivitySequence] = []
        held_out: list[HeldOutAnswers] = []
        for recording, (windows, some) in enumerate(zip(many, answers, strict=True)):
            ordered = sorted(some, key=lambda answer: answer.window)
            named = {
                answer.window: answer.activity for answer in ordered if answer.activity is not None
            }
            sequence = ActivitySequence.build(windows, list(named), list(named.values()), agree)
            sequences.append(sequence)
            if len(sequence) > 2:
                held_out += hold_out(recording, windows, sequence)
            self.gaps.append(Gaps.find(windows, ordered))
            self.has_sound_evidence |= len(np.unique(windows.rates[:-1])) > 1
        kinds, self.evidence, statistics = infer_kinds(sequences)
        scales, weights = fit_factors(held_out, statistics)
        for gaps, own, weight in zip(self.gaps, kinds, weights.tolist(), strict=True):
            gaps.rate(own, scales, weight)
        expected, factor = self._all_gaps()
        after = float(sum(expected * factor))
        self.normaliser = float(sum(expected)) / after if after > 0 else 1.0

    def _all_gaps(self) -> tuple[FloatArray, FloatArray]:
        expected = np.concatenate([np.zeros(0), *(gaps.expected for gaps in self.gaps)])
        return expected, np.concatenate([np.zeros(0), *(gaps.factor for gaps in self.gaps)])

    def __len__(self) -> int:
        return len(self.many)

    def __iter__(self) -> Iterator[Windows]:
        for windows, gaps, busy in zip(self.many, self.gaps, self.busyness, strict=True):
            rates = windows.rates * busy
            if self.uses_gaps and len(gaps.first):
                rates = rates * self._factors(windows, gaps)
            yield replace(windows, rates=rates)

    def _factors(self, windows: Windows, gaps: Gaps) -> FloatArray:
        """Within a gap its factor, elsewhere the mean of the recording."""
        expected = sum(gaps.expected)
        mean = sum(gaps.expected * gaps.factor) / expected if expected > 0 else 1.0
        factors = np.full(len(windows), mean)
        for first, stop, factor in zip(gaps.first, gaps.stop, gaps.factor, strict=True):
            factors[first:stop] = factor
        if not windows.has_evidence:
            last = gaps.stop[-1] + 1
            remaining = np.arange(len(windows) - last, 0, -1)
            going = windows.reach
            factors[last:] *= 1 - np.append(going, 0.0)[np.minimum(remaining, len(going))]
        return factors * self.normaliser

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)

    def gap_reason(self, recording: int, window: int) -> str:
        gaps = self.gaps[recording]
        place = int(np.searchsorted(gaps.first, window, side="right")) - 1
        inside = self.uses_gaps and place >= 0 and window < gaps.stop[place]
        return KIND_PHRASES[KINDS[gaps.kind[place]]] if inside else ""

    @property
    def is_informative(self) -> bool:
        weights, factors = self._all_gaps()
        if not weights.sum() > 0:
            return False
        factors = factors * self.normaliser  # their mean is 1
        spread = np.average((factors - 1) ** 2, weights=weights)
        evidence = self.evidence + spread * len(factors) / 2
        if self.has_sound_evidence:
            return bool(spread >= MIN_SPREAD and evidence >= MIN_EVIDENCE)
        doubt = SPREAD_MARGIN / len(factors)
        return bool(spread >= MIN_SPREAD + doubt and evidence >= MIN_EVIDENCE_UNHEARD)


@dataclass(frozen=True, slots=True, eq=False)
class HeldOutAnswers:
    recording: int
    neighbours: ActivitySequence
    """The answers not held out."""
    distance: FloatArray
    """Mean lengths of an action between the two neighbours."""
    is_new: FloatArray
    """1 if the held-out answer names an activity that neither neighbour names, else 0."""
    expected: FloatArray
    """Probability of a new action there, from the sound."""
    distinct_name: FloatArray
    """Probability that a new action has another name than the neighbours."""


def hold_out(
    recording: int, windows: Windows, sequence: ActivitySequence
) -> Iterator[HeldOutAnswers]:
    """In two ways: second, fourth, …; and third, fifth, …."""
    touched = gains(windows, sequence.positions)
    counts = np.bincount(sequence.labels[sequence.labels >= 0], minlength=1)
    shares = np.append(counts / max(1, counts.sum()), 0.0)  # last: label -1, no activity
    for first in (0, 1):
        neighbours = sequence.every_other(first)
        count = max(0, len(neighbours) - 1)
        before, middle, after = (slice(at, at + 2 * count, 2) for at in range(first, first + 3))
        name, left, right = (sequence.labels[at] for at in (middle, before, after))
        added = touched[middle] + touched[after] - gains(windows, neighbours.positions)[1:]
        neighbour_share = shares[left] + np.where(left == right, 0.0, shares[right])
        yield HeldOutAnswers(
            recording,
            neighbours,
            distance=np.diff(neighbours.positions) / sequence.mean_steps,
            is_new=((name >= 0) & (name != left) & (name != right)).astype(float),
            expected=1 - np.exp(-np.maximum(added, 0.0)),
            distinct_name=np.maximum(1 - neighbour_share, MIN_DISTINCT_NAME),
        )


def fit_factors(
    held_out: Sequence[HeldOutAnswers], statistics: AnswerStatistics
) -> tuple[FloatArray, FloatArray]:
    """Scale of the factors of each kind, and the power to raise them to in each recording."""
    count = len(statistics.active)
    if not any(half.expected.sum() > 0 for half in held_out):
        return np.ones(len(KINDS)), np.full(count, TRANSFER_PRIOR @ TRANSFER_WEIGHTS)
    recordings = [half.recording for half in held_out]
    own = replace(statistics, active=statistics.active[recordings])
    kinds = np.concatenate(infer_kinds([half.neighbours for half in held_out], own)[0])
    recording = np.repeat(recordings, [len(half.distance) for half in held_out])
    distance, is_new, expected, distinct_name = (
        np.concatenate([getattr(half, name) for half in held_out])
        for name in ("distance", "is_new", "expected", "distinct_name")
    )
    errors = statistics.errors
    renamed, invented = (1 - errors.missed) * errors.renamed, errors.invented
    # By kind: probability that an answer seems new if nothing is, and its rise if something is.
    false_positive = np.array([renamed, renamed, (renamed + invented) / 2, invented])
    detection = np.maximum(1 - errors.missed - false_positive, MIN_DETECTION)
    factors = factors_by_kind(distance)
    predicted = factors * (expected * distinct_name)[:, None]
    scales = _fit_scales(is_new > 0, kinds, predicted, false_positive, detection)
    likely = _transfer_likelihoods(
        is_new,
        recording,
        factor=(kinds * (factors * scales)).sum(axis=1),
        false_positive=kinds @ false_positive,
        detection=kinds @ detection * expected,
        count=count,
    )
    has_held_out = np.bincount(recording, minlength=count) > 0
    return scales, _fit_transfer_weights(likely, has_held_out)


def _fit_scales(
    is_new: NDArray[np.bool_],
    kinds: FloatArray,
    predicted: FloatArray,
    false_positive: FloatArray,
    detection: FloatArray,
) -> FloatArray:
    """By the new activities observed in gaps of each kind over those `predicted`.

    The held-out answer counts as evidence of the kind too (expectation maximisation): by the ends
    alone, all kinds would come out alike.
    """
    total = max(float((is_new - kinds @ false_positive).sum()), 1.0)
    level = total / float((kinds * predicted * detection).sum())
    scales = np.ones(len(KINDS))
    new = is_new[:, None]
    for _ in range(SCALE_ITERATIONS):
        true_positive = np.minimum(
            detection * level * scales * predicted, MAX_NEW_PROBABILITY - false_positive
        )
        new_probability = false_positive + true_positive
        likely = kinds * np.where(new, new_probability, 1 - new_probability)
        likely /= likely.sum(axis=1, keepdims=True)
        observed = (likely * new * true_positive / new_probability).sum(axis=0) / detection
        own = (likely * predicted).sum(axis=0)
        level = observed.sum() / own.sum()
        scales = (observed + FACTOR_PRIOR_COUNT) / (level * own + FACTOR_PRIOR_COUNT)
    return scales


def _transfer_likelihoods(
    is_new: FloatArray,
    recording: IndexArray,
    *,
    factor: FloatArray,
    false_positive: FloatArray,
    detection: FloatArray,
    count: int,
) -> FloatArray:
    """Shape (recordings, weights)."""
    new_count = np.maximum(np.bincount(recording, is_new - false_positive, count), 0.0) + 0.5
    columns = []
    for weight in TRANSFER_WEIGHTS.tolist():
        chances = detection * factor**weight
        busy = new_count / np.maximum(np.bincount(recording, chances, count), 1e-9)
        chances = np.clip(false_positive + busy[recording] * chances, 1e-6, MAX_NEW_PROBABILITY)
        logs = np.where(is_new > 0, np.log(chances), np.log(1 - chances))
        columns.append(np.bincount(recording, logs, count))
    rows = np.stack(columns, axis=1)
    likely: FloatArray = np.exp(rows - rows.max(axis=1, keepdims=True))
    return likely


def _fit_transfer_weights(likely: FloatArray, has_held_out: NDArray[np.bool_]) -> FloatArray:
    """Posterior means; the prior is the distribution over the recordings of the run."""
    prior = TRANSFER_PRIOR
    for _ in range(TRANSFER_ITERATIONS):
        chances = likely * prior
        chances /= chances.sum(axis=1, keepdims=True)
        total = chances[has_held_out].sum(axis=0) + TRANSFER_PRIOR_COUNT * TRANSFER_PRIOR
        prior = total / total.sum()
    chances = likely * prior
    weights: FloatArray = (chances @ TRANSFER_WEIGHTS) / chances.sum(axis=1)
    return weights
