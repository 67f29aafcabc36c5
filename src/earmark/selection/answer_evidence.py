"""Changes the expected rates between two answers by what these say.

    answers    chop ──────── chop     the same: hardly anything new in between
               .    ──────── .        both idle: hardly anything at all
               .    ──────── chop     one end idle
               chop ──────── wash     different: most new actions lie here

The ends of a gap count by what all answers make likely there (`hidden_activity`). The sum of the
rates over all gaps stays the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.gap_factors import FITTED_FACTORS, GapFactors, HeldOutAnswers, fit_factors
from earmark.selection.hidden_activity import KINDS, ActivitySequence, Agrees, infer_kinds
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

NO_ACTIVITY = ""


@dataclass(frozen=True, slots=True)
class ObservedActivity:
    window: int
    activity: str | None
    """`NO_ACTIVITY` if nothing is done, None if the answer does not say."""
    start: float = 0.0


@dataclass(frozen=True, slots=True)
class Gap:
    first: int
    stop: int
    start: float
    end: float
    kind: str
    factor: float
    """New actions, relative to a gap between two different activities."""
    expected: float
    """New actions expected from the sound that neither end touches."""


@dataclass(frozen=True, slots=True, eq=False)
class _AnswerGaps:
    sequence: ActivitySequence
    left_answer: IndexArray
    """Index of the left end among the answers that say what is done."""
    distance: FloatArray
    columns: tuple[list[float], ...]
    """First window and stop, start and end in seconds, and new actions expected, a list each."""
    has_sound_evidence: bool
    held_out: Sequence[HeldOutAnswers]

    @classmethod
    def build(
        cls, recording: int, windows: Windows, answers: Sequence[ObservedActivity], agree: Agrees
    ) -> _AnswerGaps:
        ordered = sorted(answers, key=lambda answer: answer.window)
        naming = [answer for answer in ordered if answer.activity is not None]
        sequence = ActivitySequence.build(
            windows,
            [answer.window for answer in naming],
            [answer.activity or NO_ACTIVITY for answer in naming],
            agree,
        )
        positions = np.array([answer.window for answer in ordered], dtype=np.intp)
        names_activity = np.array([answer.activity is not None for answer in ordered], dtype=bool)
        distance = np.diff(positions)
        is_gap = names_activity[1:] & names_activity[:-1] & (distance > 1)
        rates = windows.rates
        total = np.cumsum(rates)
        touched = gains(windows, positions) - rates[positions]  # started earlier
        expected = total[positions[1:] - 1] - total[positions[:-1]] - touched[1:]
        first, stop = positions[:-1][is_gap] + 1, positions[1:][is_gap]
        ends = first * windows.length, stop * windows.length
        columns = (first, stop, *ends, np.maximum(expected[is_gap], 0.0))
        mean = float(windows.reach.sum())
        number = np.cumsum(names_activity)[:-1][is_gap] - 1
        lists = tuple(column.tolist() for column in columns)
        has_sound_evidence = len(np.unique(rates[:-1])) > 1
        held_out = HeldOutAnswers.split(recording, windows, sequence) if len(sequence) > 2 else ()
        return cls(sequence, number, distance[is_gap] / mean, lists, has_sound_evidence, held_out)

    def gaps(self, kinds: FloatArray, factors: GapFactors, weight: float) -> list[Gap]:
        """`kinds` has the shape (answers - 1, kinds); `weight` is the power of the factors."""
        own = kinds[self.left_answer]
        factor = factors(own, self.distance)
        weaker, expected = factor**weight, np.array(self.columns[-1])
        mean = float((weaker * expected).sum())
        factor = (weaker * (factor * expected).sum() / mean if mean > 0 else factor).tolist()
        likeliest = [KINDS[place] for place in own.argmax(axis=1).tolist()]
        *ends, new = self.columns
        rows = zip(*ends, likeliest, factor, new, strict=True)
        return [Gap(*row) for row in rows]


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


class RevisedWindows(Collection[Windows]):
    def __init__(
        self,
        many: Collection[Windows],
        answers: Sequence[Sequence[ObservedActivity]],
        *,
        agree: Agrees,
        factors: GapFactors = FITTED_FACTORS,
        busyness: Sequence[float] | None = None,
    ) -> None:
        self.many = many
        self.busyness = [1.0] * len(many) if busyness is None else busyness
        pairs = enumerate(zip(many, answers, strict=True))
        rows = [_AnswerGaps.build(number, *pair, agree) for number, pair in pairs]
        kinds, self.evidence, statistics = infer_kinds([row.sequence for row in rows])
        held_out = [answers for row in rows for answers in row.held_out]
        factors, weights = fit_factors(factors, held_out, statistics)
        fitted = zip(rows, kinds, weights.tolist(), strict=True)
        self.gaps = [row.gaps(row_kinds, factors, weight) for row, row_kinds, weight in fitted]
        self.has_sound_evidence = any(row.has_sound_evidence for row in rows)
        every = [gap for row in self.gaps for gap in row]
        after = sum(gap.expected * gap.factor for gap in every)
        self.normaliser = sum(gap.expected for gap in every) / after if after > 0 else 1.0

    def __len__(self) -> int:
        return len(self.many)

    def __iter__(self) -> Iterator[Windows]:
        for windows, row, busy in zip(self.many, self.gaps, self.busyness, strict=True):
            rates = windows.rates * busy
            if row:
                rates = rates * self._factors(windows, row)
            yield replace(windows, rates=rates)

    def _factors(self, windows: Windows, row: Sequence[Gap]) -> FloatArray:
        """Within a gap its factor, elsewhere the mean of the recording."""
        expected = sum(gap.expected for gap in row)
        mean = sum(gap.expected * gap.factor for gap in row) / expected if expected > 0 else 1.0
        factors = np.full(len(windows), mean)
        for gap in row:
            factors[gap.first : gap.stop] = gap.factor
        if not windows.has_evidence:
            left = np.arange(len(windows) - row[-1].stop - 1, 0, -1)
            going = windows.reach
            factors[row[-1].stop + 1 :] *= 1 - np.append(going, 0.0)[np.minimum(left, len(going))]
        return factors * self.normaliser

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)

    def discard_gaps(self) -> None:
        self.gaps = [[] for _ in self.gaps]

    def gap_reason(self, recording: int, start: float) -> str:
        row = self.gaps[recording]
        place = bisect_right(row, start, key=lambda gap: gap.start) - 1
        inside = place >= 0 and start < row[place].end
        return KIND_PHRASES[row[place].kind] if inside else ""

    @property
    def is_informative(self) -> bool:
        every = [gap for row in self.gaps for gap in row]
        weights = np.array([gap.expected for gap in every])
        if not weights.sum() > 0:
            return False
        factors = np.array([gap.factor for gap in every]) * self.normaliser  # their mean is 1
        spread = np.average((factors - 1) ** 2, weights=weights)
        evidence = self.evidence + spread * len(every) / 2
        if self.has_sound_evidence:
            return bool(spread >= MIN_SPREAD and evidence >= MIN_EVIDENCE)
        doubt = SPREAD_MARGIN / len(every)
        return bool(spread >= MIN_SPREAD + doubt and evidence >= MIN_EVIDENCE_UNHEARD)
