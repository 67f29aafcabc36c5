"""A frontline: the encoder, scorer and rates that listen to a recording before any model call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from earmark.features.encoder import Encoder
from earmark.gate.forecast_error import ForecastError
from earmark.gate.rates import RankRates, RateMap
from earmark.gate.survival import Survival
from earmark.media import Meter, Recording
from earmark.timeline import Track

UNHEARD = "none"
"""Name of the frontline that listens to nothing."""


@cache
def everyday() -> Survival:
    """Default lengths of actions: a log-normal, as in EPIC-KITCHENS-100's training set."""
    return Survival.lognormal(median=1.5, sigma=1.1)


class Scorer(Protocol):
    """Computes a score for each step from features: the higher, the more it deserves a call.

    Takes consecutive tracks of features, `(steps, channels)` or `(steps,)`, and yields consecutive
    tracks of scores, `(steps,)`, with the same clock and the same total number of rows. The scores
    do not depend on how the features are cut into tracks.
    """

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class MeanChannel:
    """Scores each step by the mean of its channels."""

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        for track in features:
            rows = track.values if track.values.ndim == 1 else track.values.mean(axis=1)
            yield Track(rows, hop=track.hop, start=track.start)


@dataclass(frozen=True, slots=True)
class Frontline:
    """An encoder, a scorer of its features, and what turns scores into expected actions."""

    name: str
    encoder: Encoder
    scorer: Scorer = field(default_factory=MeanChannel)
    rates: RateMap = field(default_factory=RankRates)
    survival: Survival = field(default_factory=everyday)
    error: ForecastError | None = None
    """Errors of its forecasts; none if not measured."""
    fallback: str = ""
    """Name of the frontline used where nothing can be heard; empty for none."""
    separation: int | None = None
    """Best distance between calls for the rule `separated`, in windows; none if not measured."""
    shows_loudest: bool = False
    """Whether a window shows its loudest instant rather than that of its highest score."""
    spec: str = field(default="", compare=False)
    """What `frontline_named` makes it of again in any folder; empty if that is its name."""

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """The scores of `recording`, in order, as consecutive tracks."""
        return self.scorer(self.encoder(recording, meter=meter))


@dataclass(frozen=True, slots=True)
class NoEncoder:
    """An encoder that reads nothing and gives no features."""

    channels: int = 0

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:  # noqa: ARG002
        """No features at all."""
        return iter(())


@cache
def unheard() -> Frontline:
    """The frontline for rules that use no scores: it reads nothing, and all windows score alike."""
    return Frontline(UNHEARD, NoEncoder())
