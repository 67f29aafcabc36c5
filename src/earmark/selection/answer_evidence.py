"""What answers tell about the stretches between them: rates changed by what both ends say.

    answers    chop ──────── chop     the same: hardly anything new in between
               .    ──────── .        nothing is done: hardly anything at all
               .    ──────── chop     one end empty
               chop ──────── wash     different: most of what is new lies here

An answer may miss what is done, or call it otherwise: so what is likely at both ends by all answers
counts (`hidden_activity`), and not what the two of them say.

Only the order of the stretches can be learnt from that, not how much there is in all: the rates are
changed so that they expect as much in the stretches between answers as before. Where all ends say
alike, or all differ, nothing changes, and the plan stays what it was.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from earmark.grid import Windows
from earmark.selection.gap_factors import FITTED_FACTORS, GapFactors, HeldOutAnswers, fit_factors
from earmark.selection.hidden_activity import KINDS, ActivitySequence, Agreement, infer_kinds
from earmark.selection.pick import gains
from earmark.timeline import FloatArray, IndexArray

NO_ACTIVITY = ""
"""The activity of an answer that says nothing is being done."""


@dataclass(frozen=True, slots=True)
class ObservedActivity:
    """What one answer says is being done, and where."""

    window: int
    """The last of its steps, from 0; on the grid a window is a step."""
    activity: str | None
    """A few words; `NOTHING` where nothing is being done, None where the answer does not say."""
    start: float = 0.0
    """Second its window begins at."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The windows strictly between two answers that say what is being done."""

    first: int
    stop: int
    start: float
    end: float
    """Seconds."""
    kind: str
    """What is likeliest at its ends, of `KINDS`."""
    factor: float
    """New actions beside a stretch with two different things at its ends."""
    expected: float
    """New actions the sound lets expect, that neither end touches."""


def find_gaps(
    many: Collection[Windows],
    answers: Sequence[Sequence[ObservedActivity]],
    agree: Agreement,
    factors: GapFactors,
) -> tuple[list[list[Gap]], float, bool]:
    """The stretches between answers, in order; those with an end that does not say are left out.

    And how much the answers say that things go on from one to the next, see `likely_kinds`; and
    whether anything is heard.
    """
    pairs = enumerate(zip(many, answers, strict=True))
    found = [_AnswerGaps.build(number, *pair, agree) for number, pair in pairs]
    kinds, evidence, statistics = infer_kinds([row.sequence for row in found])
    factors, weights = fit_factors(
        factors, [one for row in found for one in row.held_out], statistics
    )
    rows = zip(found, kinds, weights.tolist(), strict=True)
    gaps = [row.gaps(row_kinds, factors, weight) for row, row_kinds, weight in rows]
    return gaps, evidence, any(row.has_sound_evidence for row in found)


@dataclass(frozen=True, slots=True, eq=False)
class _AnswerGaps:
    """What lies between the answers about one recording, before it is known what that tells."""

    sequence: ActivitySequence
    left_answer: IndexArray
    """Of the first end of each stretch among the answers that say."""
    distance: FloatArray
    """Mean lengths of an action from one end to the other."""
    columns: tuple[list[float], ...]
    """First and last window, start and end, and new actions expected."""
    has_sound_evidence: bool
    """Whether the sound tells one window from another."""
    held_out: Sequence[HeldOutAnswers]

    @classmethod
    def build(
        cls, recording: int, windows: Windows, answers: Sequence[ObservedActivity], agree: Agreement
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
        touched = gains(windows, positions) - rates[positions]  # of those that start before it
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
        """The stretches, given how likely it is between answers what `KINDS` say.

        Factors that do not hold as they are differ less from one another; their mean is the same.
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
"""Of the factors about their mean, 1, squared: with less there is less to gain by moving calls than
is lost by calls that lie unevenly. Set on the development halves, as the next are."""

MIN_EVIDENCE = 1.0
"""From which on answers are planned by, in units of log-likelihood: how much the answers say that
things go on from one to the next, and half of the squared differences of the factors from their
mean, added up. Of dense kitchens neither is much. Set on the development halves: see
experiments/LOG.md."""

MIN_EVIDENCE_UNHEARD = 3.0
"""Likewise where nothing is heard: even spacing is hard to better, and a few misses of the model in
a row look like idle time."""

SPREAD_MARGIN = 2.0
"""Likewise by how much more the factors must spread, divided by the number of stretches: of few
answers the spread is partly chance."""

KIND_PHRASES = {
    "same": "between answers that agree",
    "idle": "between answers that see nothing done",
    "one_empty": "between something and nothing done",
    "differ": "between answers that differ",
}


class RevisedWindows(Collection[Windows]):
    """The windows of many recordings with rates that know the answers; gone over, never held."""

    def __init__(
        self,
        many: Collection[Windows],
        answers: Sequence[Sequence[ObservedActivity]],
        *,
        agree: Agreement,
        factors: GapFactors | None = None,
        busyness: Sequence[float] | None = None,
    ) -> None:
        """Read the answers about each of `many`.

        Args:
            many: The windows of each recording, rated by the sound.
            answers: The answers about each.
            agree: Compares what two answers say.
            factors: What the ends of a stretch tell; `FITTED` if not given.
            busyness: How many times as busy as it sounds each is; 1 if not given.
        """
        self.many = many
        self.busyness = [1.0] * len(many) if busyness is None else busyness
        found = find_gaps(many, answers, agree, factors or FITTED_FACTORS)
        self.gaps, self.evidence, self.has_sound_evidence = found
        every = [gap for row in self.gaps for gap in row]
        after = sum(gap.expected * gap.factor for gap in every)
        self.normaliser = sum(gap.expected for gap in every) / after if after > 0 else 1.0
        """What all factors are multiplied by, so that as much is expected in all as before."""

    def __len__(self) -> int:
        return len(self.many)

    def __iter__(self) -> Iterator[Windows]:
        for windows, row, busy in zip(self.many, self.gaps, self.busyness, strict=True):
            rates = windows.rates * busy
            if row:
                rates = rates * self._factors(windows, row)
            yield replace(windows, rates=rates)

    def _factors(self, windows: Windows, row: Sequence[Gap]) -> FloatArray:
        """What the rate of each step is multiplied by, with answers that say on either side.

        Elsewhere by the mean of the recording. Where nothing is heard, what begins after the last
        answer counts if it ends before the recording does, as what ends before the first answer
        counts if it begins with it: nothing tells one end of a recording from the other.
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
        """Let the stretches between answers be rated by their sound again."""
        self.gaps = [[] for _ in self.gaps]

    def gap_reason(self, recording: int, start: float) -> str:
        """What the answers around a window are to one another, in words; empty where none are."""
        row = self.gaps[recording]
        place = bisect_right(row, start, key=lambda gap: gap.start) - 1
        inside = place >= 0 and start < row[place].end
        return KIND_PHRASES[row[place].kind] if inside else ""

    @property
    def is_informative(self) -> bool:
        """Whether the answers tell one stretch from another by enough to plan by."""
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
