"""How long actions last at a site, by how far apart answers that agree lie."""

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
"""Neighbouring answers below which nothing is learnt of how long actions last."""

FARTHEST = 120.0
"""Seconds between neighbouring answers beyond which that they agree says little."""

STRETCHES = np.geomspace(1 / 8, 16, 57)
"""How many times longer actions may last than the base gate says."""

AGREEMENTS = np.linspace(0.3, 0.98, 35)
"""How likely two answers about the same action may be to agree."""


def fit_lengths(parts: Part, survival: Survival) -> Survival:
    """The base curve stretched to how far apart answers that agree lie in `parts`."""
    apart, same = _pairs(parts)
    prior = PRIOR / len(apart)
    base = survival.remaining(apart)
    share = AGREEMENTS[:, None]  # (agreements, pairs) below
    yes, no = same + prior * share * base, 1 - same + prior * (1 - share * base)

    def likelihood(stretch: float) -> float:
        chance = np.clip(share * survival.remaining(apart / stretch), 1e-6, 1 - 1e-6)
        return float((yes * np.log(chance) + no * np.log1p(-chance)).sum(axis=1).max())

    return survival.stretched(survival.median * max(STRETCHES.tolist(), key=likelihood))


def _pairs(parts: Part) -> tuple[FloatArray, FloatArray]:
    """Seconds from inside an active window to the next answer, and whether that says the same."""
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
    """The lengths learnt; None where there are too few pairs, or no better on those kept aside."""
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
                np.clip(_agreement(rest, curve) * curve.remaining(apart), 1e-6, 1 - 1e-6),
                same,
                np.ones(len(same)),
            )
            for curve in (survival, fit_lengths(rest, survival))
        )
        judged.append((old, new, float(len(apart))))
    is_better = len(judged) > 1 and measure_gain(judged).is_one
    return fit_lengths(parts, survival) if is_better else None


def _agreement(parts: Part, curve: Survival) -> float:
    """How likely two answers about the same action are to agree, if actions last as `curve`."""
    apart, same = _pairs(parts)
    chances = np.clip(AGREEMENTS[:, None] * curve.remaining(apart), 1e-6, 1 - 1e-6)
    return float(AGREEMENTS[np.argmax(np.log(chances) @ same + np.log1p(-chances) @ (1 - same))])
