"""A recall promise: an operating point whose recall holds beyond the recordings it was chosen on.

Learn-then-test (Angelopoulos, Bates, Candès, Jordan and Lei): thresholds are tested in increasing
order, from the safest on, each by a valid p-value of the hypothesis "this one misses too much". The
last threshold before the first whose hypothesis cannot be rejected is taken. The only assumption is
that development recordings and future recordings are exchangeable, recording by recording.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from earmark.timeline import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Misses:
    """The share of each development recording's actions that no episode touches, by threshold."""

    thresholds: FloatArray
    """Increasing, `(thresholds,)`; a higher one misses more."""
    shares: FloatArray
    """`(recordings, thresholds)`, each from 0 to 1."""

    def __post_init__(self) -> None:
        if self.shares.shape != (len(self.shares), len(self.thresholds)):
            raise ValueError("misses need one column a threshold")
        if not np.all(np.diff(self.thresholds) > 0):
            raise ValueError("thresholds increase")
        if not np.all((self.shares >= 0) & (self.shares <= 1)):
            raise ValueError("shares of missed actions lie between 0 and 1")


@dataclass(frozen=True, slots=True)
class Promise:
    """An operating point with its promised recall."""

    threshold: float
    recall: float
    """Promised mean recall over recordings."""
    confidence: float
    """The promise fails for at most `1 - confidence` of all possible development sets."""
    recordings: int
    """Number of development recordings it is based on."""
    observed: float
    """Mean recall at this threshold on those recordings."""


def promise(misses: Misses, *, recall: float, confidence: float = 0.95) -> Promise:
    """The highest threshold for which a mean `recall` over recordings can be promised.

    Raises:
        ValueError: `recall` or `confidence` is not in (0, 1); or the development set is too small,
            or the gate too weak, to promise this for any threshold.
    """
    for name, share in (("recall", recall), ("confidence", confidence)):
        if not 0 < share < 1:
            raise ValueError(f"a promised {name} lies between 0 % and 100 %, not {share:.0%}")
    count, risk, doubt = len(misses.shares), 1 - recall, 1 - confidence
    if count < fewest(recall=recall, confidence=confidence):
        raise ValueError(
            f"{count} development recordings cannot promise {recall:.0%} recall with "
            f"{confidence:.0%} confidence, however good the gate: that takes "
            f"{fewest(recall=recall, confidence=confidence)}; ask for less, or calibrate on more"
        )
    lost = misses.shares.mean(axis=0)
    safe = 0
    while safe < len(lost) and p_value(float(lost[safe]), count=count, risk=risk) <= doubt:
        safe += 1
    if safe == 0:
        raise ValueError(
            f"no threshold of this gate can be promised to keep {recall:.0%} with "
            f"{confidence:.0%} confidence: the lowest keeps {1 - lost[0]:.1%} of {count} "
            f"development recordings; ask for less"
        )
    return Promise(
        threshold=float(misses.thresholds[safe - 1]),
        recall=recall,
        confidence=confidence,
        recordings=count,
        observed=float(1 - lost[safe - 1]),
    )


def fewest(*, recall: float, confidence: float) -> int:
    """Least number of development recordings for the promise, even if the gate misses nothing.

    For a gate that misses nothing the p-value is `recall ** count`.
    """
    return math.ceil(math.log(1 - confidence) / math.log(recall) - 1e-9)


def p_value(mean: float, *, count: int, risk: float) -> float:
    """Bound on the chance of a `mean` loss this low in `count` recordings if truly above `risk`.

    The smaller of Hoeffding's bound in its relative-entropy form and Bentkus's, both valid for
    independent losses between 0 and 1 of any distribution.
    """
    if mean >= risk:
        return 1.0
    from scipy import special, stats  # slow to import, needed for promises only

    entropy = special.rel_entr(mean, risk) + special.rel_entr(1 - mean, 1 - risk)
    hoeffding = math.exp(-count * float(entropy))
    bentkus = math.e * float(stats.binom.cdf(math.ceil(count * mean - 1e-9), count, risk))
    return min(1.0, hoeffding, bentkus)
