"""Changes the expected rates between two answers by what these say.

    answers    chop ──────── chop     the same: hardly anything new in between
               .    ──────── .        both idle: hardly anything at all
               .    ──────── chop     one end idle
               chop ──────── wash     different: most new actions lie here

An answer may miss an activity or name it differently. So the ends of a gap count by what all
answers make likely there (`hidden_activity`), not by what those two say.

The answers show where new actions lie, not how many there are in all: rates are changed so that
their sum over all gaps stays the same. Where all ends agree, or all differ, nothing changes.
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
"""The activity of an answer that says that nothing is done."""


@dataclass(frozen=True, slots=True)
class ObservedActivity:
    """What one answer says is being done, and where."""

    window: int
    """Last step of its window, from 0; on the grid a window is one step."""
    activity: str | None
    """A few words; `NO_ACTIVITY` where nothing is done, None where the answer does not say."""
    start: float = 0.0
    """Start of its window in seconds."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The steps strictly between two answers that both say what is being done."""

    first: int
    stop: int
    start: float
    end: float
    """Seconds."""
    kind: str
    """The likeliest of `KINDS`."""
    factor: float
    """New actions, relative to a gap between two different activities."""
    expected: float
    """New actions expected from the sound that neither end touches."""


@dataclass(frozen=True, slots=True, eq=False)
class _AnswerGaps:
    """The gaps of one recording, before their kinds and factors are known."""

    sequence: ActivitySequence
    left_answer: IndexArray
    """For each gap, the index of its left end among the answers that say what is done."""
    distance: FloatArray
    """Mean lengths of an action between the two ends."""
    columns: tuple[list[float], ...]
    """First step and stop, start and end in seconds, and new actions expected, a list each."""
    has_sound_evidence: bool
    """Whether the sound distinguishes one window from another."""
    held_out: Sequence[HeldOutAnswers]

    @classmethod
    def build(
        cls, recording: int, windows: Windows, answers: Sequence[ObservedActivity], agree: Agrees
    ) -> _AnswerGaps:
        ordered = sorted(answers, key=lambda one: one.window)
        naming = [one for one in ordered if one.activity is not None]
        sequence = ActivitySequence.build(
            windows,
            [one.window for one in naming],
            [one.activity or NO_ACTIVITY for one in naming],
            agree,
        )
        positions = np.array([one.window for one in ordered], dtype=np.intp)
        names_activity = np.array([one.activity is not None for one in ordered], dtype=bool)
        distance = np.diff(positions)
        kept = names_activity[1:] & names_activity[:-1] & (distance > windows.per_call)
        rates = windows.rates
        total = np.cumsum(rates)
        touched = gains(windows, positions) - rates[positions]  # started earlier
        expected = total[positions[1:] - 1] - total[positions[:-1]] - touched[1:]
        first, stop = positions[:-1][kept] + 1, positions[1:][kept]
        ends = first * windows.step, (stop + 1 - windows.per_call) * windows.step
        columns = (first, stop, *ends, np.maximum(expected[kept], 0.0))
        mean = float(windows.survival.reach(windows.length).sum()) * windows.per_call
        number = np.cumsum(names_activity)[:-1][kept] - 1
        lists = tuple(each.tolist() for each in columns)
        has_sound_evidence = len(np.unique(rates[:-1])) > 1
        held_out = HeldOutAnswers.split(recording, windows, sequence) if len(sequence) > 2 else ()
        return cls(sequence, number, distance[kept] / mean, lists, has_sound_evidence, held_out)

    def gaps(self, kinds: FloatArray, factors: GapFactors, weight: float) -> list[Gap]:
        """The gaps, given the probabilities of `KINDS` between answers, shape (answers - 1, kinds).

        `weight` is the power of the factors to use; their mean stays the same.
        """
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
"""Least evidence to plan by, in units of log-likelihood: the evidence that activities continue from
one answer to the next, plus half the sum of the squared deviations of the factors from their mean.
Dense kitchen recordings have little of either. Set on the development halves: see
experiments/LOG.md."""

MIN_EVIDENCE_UNHEARD = 3.0
"""The same where nothing is heard: even spacing is hard to beat there, and a few misses of the
model in a row look like idle time."""

SPREAD_MARGIN = 2.0
"""Added to `MIN_SPREAD` where nothing is heard, divided by the number of gaps: with few answers the
spread is partly chance."""

KIND_PHRASES = {
    "same": "between answers that agree",
    "idle": "between answers that see nothing done",
    "one_empty": "between something and nothing done",
    "differ": "between answers that differ",
}


class RevisedWindows(Collection[Windows]):
    """The windows of many recordings with rates revised by the answers; made one at a time."""

    def __init__(
        self,
        many: Collection[Windows],
        answers: Sequence[Sequence[ObservedActivity]],
        *,
        agree: Agrees,
        factors: GapFactors = FITTED_FACTORS,
        busyness: Sequence[float] | None = None,
    ) -> None:
        """Read the answers about each of `many`, whose rates are those of the sound.

        `busyness` is a factor on all rates of each recording.
        """
        self.many = many
        self.busyness = [1.0] * len(many) if busyness is None else busyness
        pairs = enumerate(zip(many, answers, strict=True))
        found = [_AnswerGaps.build(number, *pair, agree) for number, pair in pairs]
        kinds, self.evidence, statistics = infer_kinds([row.sequence for row in found])
        """That activities continue from one answer to the next."""
        held_out = [one for row in found for one in row.held_out]
        factors, weights = fit_factors(factors, held_out, statistics)
        rows = zip(found, kinds, weights.tolist(), strict=True)
        self.gaps = [row.gaps(row_kinds, factors, weight) for row, row_kinds, weight in rows]
        """Of each recording, in order; none has an end that does not say what is done."""
        self.has_sound_evidence = any(row.has_sound_evidence for row in found)
        every = [gap for row in self.gaps for gap in row]
        after = sum(gap.expected * gap.factor for gap in every)
        self.normaliser = sum(gap.expected for gap in every) / after if after > 0 else 1.0
        """Multiplies all factors, so that the total of expected actions stays the same."""

    def __len__(self) -> int:
        return len(self.many)

    def __iter__(self) -> Iterator[Windows]:
        for windows, row, busy in zip(self.many, self.gaps, self.busyness, strict=True):
            rates = windows.rates * busy
            if row:
                rates = rates * self._factors(windows, row)
            yield replace(windows, rates=rates)

    def _factors(self, windows: Windows, row: Sequence[Gap]) -> FloatArray:
        """The multiplier of the rate of each step of a recording.

        Within a gap this is its factor, elsewhere the mean of the recording. Where nothing is
        heard, an action after the last answer counts only if it ends before the recording does,
        just as one before the first answer counts only if it starts within the recording: both ends
        are alike.
        """
        expected = sum(gap.expected for gap in row)
        mean = sum(gap.expected * gap.factor for gap in row) / expected if expected > 0 else 1.0
        found = np.full(len(windows), mean)
        for gap in row:
            found[gap.first : gap.stop] = gap.factor
        if not windows.has_evidence:
            left = np.arange(len(windows) - row[-1].stop - 1, 0, -1)
            going = windows.survival.reach(windows.step)
            found[row[-1].stop + 1 :] *= 1 - np.append(going, 0.0)[np.minimum(left, len(going))]
        return found * self.normaliser

    def __contains__(self, item: object) -> bool:
        return any(windows is item for windows in self)

    def discard_gaps(self) -> None:
        """Rate the gaps by their sound alone again."""
        self.gaps = [[] for _ in self.gaps]

    def gap_reason(self, recording: int, start: float) -> str:
        """How the answers around a window compare, in words; empty outside all gaps."""
        row = self.gaps[recording]
        place = bisect_right(row, start, key=lambda gap: gap.start) - 1
        inside = place >= 0 and start < row[place].end
        return KIND_PHRASES[row[place].kind] if inside else ""

    @property
    def is_informative(self) -> bool:
        """Whether the gaps differ enough to plan by."""
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
