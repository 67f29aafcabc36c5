"""How long the actions of a recording last: unknown, and inferred.

Actions are log-normal around a median that differs from site to site. `Lengths` holds the
probability of each of several medians:

    median   1 s   2 s   4 s   8 s   16 s  32 s  64 s
    usual    ▂     ▅     ▇     ▆     ▅     ▃     ▁
    from the sound: quick changes        ...long even stretches
             ▅▇▅▂                        ▁▂▄▇▆▃▁

Expected coverage is linear in the chance that an action is still going, so the best picks for a
distribution of lengths are the best picks for one curve, the mean of those of its medians. The
same sound holds fewer actions the longer these are: at a median of `m` seconds rates are
`(m / reference) ** -exponent` times those at `reference`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from earmark.gate.survival import Survival
from earmark.timeline import FloatArray, Track

MEDIAN_LENGTHS = tuple(np.geomspace(1.0, 64.0, 13).round(3).tolist())
"""Seconds: two per octave."""

SPREAD = 0.95
"""Standard deviation of the logarithm of lengths around their median: 0.94 in EgoExoLearn, 1.11 in
GoalStep's substeps, 0.96 in factory10k and 0.97 in CaptainCook4D (`scripts/length_table.py`)."""

REFERENCE = 5.0
"""Seconds: about where the usual lengths leave rates unchanged on average."""
EXPONENT = 0.6

USUAL_MEDIAN, USUAL_SPREAD = 6.0, 1.2
"""Geometric mean, and standard deviation of the logarithm, of the medians of these four sets."""

LONGEST = 600.0
"""Seconds; no action counts as longer."""

NEGLIGIBLE = 4e-3
"""Least chance to be still going that the rule `coverage` counts."""

LAGS = (1.0, 4.0, 16.0)
"""Seconds between two moments whose levels are compared."""

LEVEL_RANGE_DB = 20.0
"""Above the noise floor; louder counts the same."""

FLOOR_QUANTILE, FLOOR_RADIUS = 0.2, 60.0
"""The noise floor is this quantile of the level over so many seconds on each side."""

FROM_SOUND, TOLD = "from the sound", "told"


@dataclass(frozen=True, slots=True)
class Lengths:
    """The probability of each median length of actions.

    >>> print(Lengths.told(7.0))
    actions of about 7 s, told
    """

    medians: tuple[float, ...]
    """Seconds, increasing."""
    weights: tuple[float, ...]
    """Probabilities; their sum is 1."""
    spread: float = SPREAD
    reference: float = REFERENCE
    """The median at which rates hold unchanged, in seconds."""
    exponent: float = EXPONENT
    origin: str = ""
    """How the weights are known; empty if they are the usual ones."""

    def __post_init__(self) -> None:
        if len(self.medians) != len(self.weights) or not self.medians:
            raise ValueError("lengths need as many weights as medians")
        if not (min(self.medians) > 0 and math.isfinite(max(self.medians))):
            raise ValueError(f"actions last more than 0 seconds, not {min(self.medians):g}")
        if min(self.weights) < 0 or abs(sum(self.weights) - 1) > 1e-6:
            raise ValueError("the weights of lengths are probabilities")

    @classmethod
    def around(
        cls, median: float, sigma: float, medians: Sequence[float] = MEDIAN_LENGTHS, **others: Any
    ) -> Lengths:
        """Log-normal over `medians`; `sigma` is that of natural logarithms."""
        return cls(tuple(medians), _normal(medians, math.log(median), sigma), **others)

    @classmethod
    def told(cls, median: float, **others: Any) -> Lengths:
        if not (math.isfinite(median) and median > 0):
            raise ValueError(f"actions last more than 0 seconds, not {median:g}")
        return cls((float(median),), (1.0,), origin=TOLD, **others)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Lengths:
        lists = {name: tuple(kept[name]) for name in ("medians", "weights")}
        return cls(**{**kept, **lists})

    @property
    def factors(self) -> FloatArray:
        """Of rates, for each median."""
        factors: FloatArray = (np.array(self.medians) / self.reference) ** -self.exponent
        return factors

    @property
    def rate_factor(self) -> float:
        """Of the rates at `reference`; the mean of `factors`."""
        return float(np.dot(self.weights, self.factors))

    @property
    def shares(self) -> FloatArray:
        """The probability of each median for an action drawn at random."""
        shares: FloatArray = np.array(self.weights) * self.factors / self.rate_factor
        return shares

    @property
    def median(self) -> float:
        """Geometric mean of the medians."""
        return math.exp(float(np.dot(self.weights, np.log(self.medians))))

    def range(self, confidence: float = 0.8) -> tuple[float, float]:
        """The medians that `confidence` of the probability lies between."""
        total = np.cumsum(self.weights)
        tail = (1 - confidence) / 2
        low, high = np.searchsorted(total, [tail, 1 - tail - 1e-9])
        return self.medians[int(low)], self.medians[min(int(high), len(self.medians) - 1)]

    def __call__(self, seconds: FloatArray) -> FloatArray:
        """The share of actions that last longer."""
        logs = np.log(np.maximum(seconds, 1e-3))[..., None] - np.log(self.medians)
        lasting: FloatArray = ndtr(-logs / self.spread) @ self.shares
        return lasting

    def reaches(self, window: float) -> FloatArray:
        """`g(d)` of each median, shape (medians, distances)."""
        return _reaches(self.medians, self.spread, window)

    def reach(self, window: float) -> FloatArray:
        """`g(d)`: the chance that an action starting in window m still lasts when m + d begins."""
        chances = self.shares @ self.reaches(window)
        return chances[: max(1, int(np.count_nonzero(chances >= NEGLIGIBLE)))]

    def sharpened(self, likelihoods: FloatArray, origin: str) -> Lengths:
        weights = _normalised(np.array(self.weights) * likelihoods)
        return replace(self, weights=weights, origin=origin)

    def __str__(self) -> str:
        low, high = self.range()
        limits = f" ({low:.2g}–{high:.2g} s)" if low < high else ""
        return f"actions of about {self.median:.2g} s{limits}, {self.origin or 'as usual'}"


ActionLengths = Survival | Lengths


def describe_lengths(many: Sequence[ActionLengths]) -> str:
    """The lengths of one recording, or the mean over several; empty if a curve was given.

    >>> describe_lengths([Lengths.told(7.0)])
    'actions of about 7 s, told'
    """
    known = [lengths for lengths in many if isinstance(lengths, Lengths)]
    if not known or len({lengths.medians for lengths in known}) > 1:
        return ""
    mean = np.mean([lengths.weights for lengths in known], axis=0)
    return str(replace(known[0], weights=_normalised(mean)))


def lengths_to_json(lengths: ActionLengths) -> dict[str, Any]:
    return asdict(lengths)


@lru_cache(maxsize=256)
def read_lengths(text: str) -> ActionLengths:
    """From the JSON of `lengths_to_json`; parsed once, as recordings of an archive share it."""
    kept = json.loads(text)
    if "times" in kept:
        return Survival(tuple(kept["times"]), tuple(kept["shares"]))
    return Lengths.from_json(kept)


@dataclass(frozen=True, slots=True)
class LengthModel:
    """Infers the lengths of actions from the sound level of a recording.

    The logarithm of the median is normal around `intercept + describe_level(level) @ weights`.
    """

    usual: Lengths = field(
        default_factory=lambda: Lengths.around(USUAL_MEDIAN, USUAL_SPREAD, MEDIAN_LENGTHS)
    )
    intercept: float = 0.0
    weights: tuple[float, ...] = ()
    """One for each of `LAGS`; empty if the sound says nothing about lengths."""
    doubt: float = 1.0
    """Standard deviation of the logarithm of the median, on families of sites never met."""

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> LengthModel:
        usual = Lengths.from_json(kept["usual"])
        return cls(**{**kept, "usual": usual, "weights": tuple(kept["weights"])})

    def infer(self, level: Track | None) -> Lengths:
        """`level` is in dB; the usual lengths if it is too short."""
        if not self.weights or level is None:
            return self.usual
        described = describe_level(level)
        if described is None:
            return self.usual
        expected = self.intercept + float(described @ np.array(self.weights))
        weights = _normal(self.usual.medians, expected, self.doubt)
        return replace(self.usual, weights=weights, origin=FROM_SOUND)

    @property
    def curve(self) -> Survival:
        """That of the middle of the usual medians."""
        return Survival.lognormal(median=self.usual.median, sigma=self.usual.spread)

    def told(self, median: float) -> Lengths:
        usual = self.usual
        return Lengths.told(
            median, spread=usual.spread, reference=usual.reference, exponent=usual.exponent
        )


def describe_level(level: Track) -> FloatArray | None:
    """How alike two moments of the level above the noise floor are, for each of `LAGS`.

    Correlations, of minutes in which something is audible. None if shorter than four of the
    longest lag, or if nothing stands out from the floor.
    """
    from scipy.ndimage import percentile_filter  # slow to import

    steps = [max(1, round(lag / level.hop)) for lag in LAGS]
    values = np.asarray(level.values, dtype=float)
    if len(values) < 4 * max(steps):
        return None
    second = max(1, round(1.0 / level.hop))
    whole = len(values) // second * second
    seconds = values[:whole].reshape(-1, second).mean(axis=1)
    size = 2 * min(round(FLOOR_RADIUS), len(seconds) - 1) + 1
    floor = percentile_filter(seconds, 100 * FLOOR_QUANTILE, size=size)
    above = np.clip(values[:whole] - np.repeat(floor, second), 0.0, LEVEL_RANGE_DB)
    above -= above.mean()
    variance = float(np.mean(above**2))
    if not variance > 1e-6:
        return None
    return np.array([np.mean(above[step:] * above[:-step]) / variance for step in steps])


@lru_cache(maxsize=64)
def _reaches(medians: tuple[float, ...], spread: float, window: float) -> FloatArray:
    rows = [
        Survival.lognormal(median=median, sigma=spread, longest=max(LONGEST, 4 * median)).reach(
            window, negligible=NEGLIGIBLE / 10
        )
        for median in medians
    ]
    table = np.zeros((len(rows), max(map(len, rows))))
    for row, chances in zip(table, rows, strict=True):
        row[: len(chances)] = chances
    table.setflags(write=False)
    return table


def _normal(medians: Sequence[float], mean: float, sigma: float) -> tuple[float, ...]:
    squares = ((np.log(medians) - mean) / sigma) ** 2
    return _normalised(np.exp(-0.5 * (squares - squares.min())))


def _normalised(likely: FloatArray) -> tuple[float, ...]:
    return tuple((likely / likely.sum()).tolist())
