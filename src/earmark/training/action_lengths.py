"""How long actions last at a site, estimated from how far apart agreeing answers are."""

from __future__ import annotations

import numpy as np

from earmark.captioning.activity import same_activity
from earmark.gate.survival import Survival
from earmark.timeline import FloatArray
from earmark.training.answered_windows import (
    PRIOR,
    Part,
    folds_of,
    log_likelihood,
    measure_gain,
    without,
)

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


def fit_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve, stretched by the factor of highest likelihood given the answers of `parts`.

    The base enters as `PRIOR` more pairs, spread evenly. Needs at least one pair.
    """
    apart, same = _pairs(parts)
    again = _recurrence(parts)
    prior = PRIOR / len(apart)
    base = _agree(survival.remaining(apart), AGREEMENTS[:, None], again)  # (agreements, pairs)
    yes, no = same + prior * base, 1 - same + prior * (1 - base)

    def likelihood(stretch: float) -> float:
        chance = _agree(survival.remaining(apart / stretch), AGREEMENTS[:, None], again)
        return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

    return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))


def _agree(going: FloatArray, share: FloatArray | float, again: float) -> FloatArray:
    """Probability that two answers agree if the action still lasts with the chance `going`.

    `share` is the probability to agree about the same action; `again` is the probability to agree
    because the action was taken up again.
    """
    chance: FloatArray = np.clip(again + (1 - again) * share * going, 1e-6, 1 - 1e-6)
    return chance


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


def _pairs(parts: Part) -> tuple[FloatArray, FloatArray]:
    """Seconds from the middle of an active window to the next answer, and whether they agree.

    Both `(pairs,)`; 1 where they agree, else 0.
    """
    apart, same = [], []
    for one in parts:
        for first, last in zip(one.answers, one.answers[1:], strict=False):
            spans = one.windows.span(first.window), one.windows.span(last.window)
            gap = spans[1].start - (spans[0].start + spans[0].end) / 2
            if first.activity and last.activity is not None and 0 < gap <= FARTHEST:
                is_same = last.activity and same_activity(first.activity, last.activity)
                apart.append(gap)
                same.append(float(bool(is_same)))
    return np.array(apart), np.array(same)


def learn_lengths(parts: Part, survival: Survival) -> Survival | None:
    """The curve fitted to all answers; None with too few pairs or without gain on held-out ones."""
    if len(_pairs(parts)[0]) < FEWEST_PAIRS:
        return None
    judged = []
    for fold in folds_of(parts):
        rest = without(parts, fold)
        apart, same = _pairs(fold)
        if not len(apart) or not len(_pairs(rest)[0]):
            continue
        old, new = (
            log_likelihood(
                _agree(curve.remaining(apart), _agreement(rest, curve), _recurrence(rest)),
                same,
                np.ones(len(same)),
            )
            for curve in (survival, fit_lengths(rest, survival))
        )
        judged.append((old, new, float(len(apart))))
    is_better = len(judged) > 1 and measure_gain(judged).is_one
    return fit_lengths(parts, survival) if is_better else None


def _agreement(parts: Part, curve: Survival) -> float:
    """The likeliest of `AGREEMENTS`, if the lengths of actions follow `curve`."""
    apart, same = _pairs(parts)
    chances = _agree(curve.remaining(apart), AGREEMENTS[:, None], _recurrence(parts))
    return float(AGREEMENTS[np.argmax(np.log(chances) @ same + np.log1p(-chances) @ (1 - same))])
