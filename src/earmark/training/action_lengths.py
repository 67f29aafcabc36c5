"""How long actions last at a site, estimated from how far apart agreeing answers are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from earmark.captioning.activity import same_activity
from earmark.gate.survival import Survival
from earmark.timeline import FloatArray
from earmark.training.answered_windows import PRIOR, Part, folds_of, measure_gain, without

FEWEST_PAIRS = 30
"""Least number of pairs of neighbouring answers to learn lengths from."""

FARTHEST = 120.0
"""Longest gap in seconds between neighbouring answers that are used: beyond it, agreement says
little."""

STRETCHES = np.geomspace(1, 16, 33)
"""Factors by which actions may last longer than by the base gate. Never shorter: answers that give
one action two names look like short actions."""

AGREEMENTS = np.linspace(0.8, 0.98, 10)
"""Probabilities tried for two answers about the same action to agree. With lower ones, names that
recur now and then would look like one long action that is often misnamed."""


def learn_lengths(parts: Part, survival: Survival) -> Survival | None:
    """The curve fitted to all answers; None with too few pairs or without gain on held-out ones."""
    if len(_Pairs.of(parts)) < FEWEST_PAIRS:
        return None
    judged = []
    for fold in folds_of(parts):
        held, rest = _Pairs.of(fold), _Pairs.of(without(parts, fold))
        if len(held) and len(rest):
            old, new = (
                rest.chances(curve, held.apart, rest.agreement(curve))
                for curve in (survival, rest.fit(survival))
            )
            judged.append((old, new, held.same, np.ones(len(held))))
    return fit_lengths(parts, survival) if judged and measure_gain(judged).is_one else None


def fit_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve, stretched by the factor of highest likelihood given the answers of `parts`.

    The base enters as `PRIOR` more pairs, spread evenly. Needs at least one pair.
    """
    return _Pairs.of(parts).fit(survival)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Answers about active windows, each with the next answer of its recording."""

    apart: FloatArray
    """Seconds from the middle of the window to the next answer, `(pairs,)`."""
    same: FloatArray
    """Whether the two agree, 1 or 0, `(pairs,)`."""
    again: float
    """Probability that two answers agree because the action was taken up again."""

    def __len__(self) -> int:
        return len(self.apart)

    @classmethod
    def of(cls, parts: Part) -> _Pairs:
        """The pairs of `parts` at most `FARTHEST` apart."""
        apart, same = [], []
        for one in parts:
            for first, last in pairwise(one.answers):
                spans = one.windows.span(first.window), one.windows.span(last.window)
                gap = spans[1].start - (spans[0].start + spans[0].end) / 2
                if first.activity and last.activity is not None and 0 < gap <= FARTHEST:
                    is_same = last.activity and same_activity(first.activity, last.activity)
                    apart.append(gap)
                    same.append(float(bool(is_same)))
        return cls(np.array(apart), np.array(same), _recurrence(parts))

    def chances(self, curve: Survival, apart: FloatArray, share: FloatArray | float) -> FloatArray:
        """Probability that answers `apart` agree, if the lengths of actions follow `curve`.

        `share` is the probability to agree about the same action.
        """
        chance = self.again + (1 - self.again) * share * curve.remaining(apart)
        return np.clip(chance, 1e-6, 1 - 1e-6)

    def fit(self, survival: Survival) -> Survival:
        """The curve of `fit_lengths`."""
        prior, shares = PRIOR / len(self), AGREEMENTS[:, None]
        base = self.chances(survival, self.apart, shares)  # (agreements, pairs)
        yes, no = self.same + prior * base, 1 - self.same + prior * (1 - base)

        def likelihood(stretch: float) -> float:
            chance = self.chances(survival, self.apart / stretch, shares)
            return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

        return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))

    def agreement(self, curve: Survival) -> float:
        """The likeliest of `AGREEMENTS`, if the lengths of actions follow `curve`."""
        chances = self.chances(curve, self.apart, AGREEMENTS[:, None])
        logs = np.log(chances) @ self.same + np.log1p(-chances) @ (1 - self.same)
        return float(AGREEMENTS[np.argmax(logs)])


def _recurrence(parts: Part) -> float:
    """Share of answers that agree with the last but one where the answer between them differs.

    Then the action ended and was taken up again: a cook washes, puts away and washes. Without this,
    repeated actions would look like one long action. One disagreement is added, so the share is 0
    if there are no such answers.
    """
    found = [0.0]
    for one in parts:
        names = [(each.activity, one.windows.span(each.window).start) for each in one.answers]
        triples = zip(names, names[1:], names[2:], strict=False)
        for (first, begin), (other, _), (last, end) in triples:
            is_near = end - begin <= FARTHEST
            if is_near and first and other and last and not same_activity(first, other):
                found.append(float(same_activity(first, last)))
    return float(np.mean(found))
