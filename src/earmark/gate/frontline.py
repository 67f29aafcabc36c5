"""A frontline: what listens to a recording before anything is looked at."""

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
"""The name of what listens to nothing."""


@cache
def everyday() -> Survival:
    """How long actions last when nobody says: as EPIC-KITCHENS-100's in training, a log-normal."""
    return Survival.lognormal(median=1.5, sigma=1.1)


class Scorer(Protocol):
    """Says how much each moment deserves a look, from the features alone.

    Takes consecutive tracks of features, `(steps, channels)` or `(steps,)`, and yields consecutive
    tracks of scores, `(steps,)`, with the same clock and as many rows in all. However the
    features are cut into tracks, the scores are the same.
    """

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class MeanChannel:
    """The mean over the channels is the score; a single channel is the score itself."""

    def __call__(self, features: Iterable[Track]) -> Iterator[Track]:
        """The scores of `features`, in order."""
        for track in features:
            rows = track.values if track.values.ndim == 1 else track.values.mean(axis=1)
            yield Track(rows, hop=track.hop, start=track.start)


@dataclass(frozen=True, slots=True)
class Frontline:
    """An encoder, how its features become a score, and what a score is worth in actions."""

    name: str
    encoder: Encoder
    scorer: Scorer = field(default_factory=MeanChannel)
    rates: RateMap = field(default_factory=RankRates)
    survival: Survival = field(default_factory=everyday)
    error: ForecastError | None = None
    """How far its forecasts may be off; none where nobody has measured it."""
    fallback: str = ""
    """Name of what looks where there is nothing to hear; empty where that is then left unheard."""
    separation: int | None = None
    """Windows between two calls that suited the rule `separated` best; none where not measured."""
    shows_loudest: bool = False
    """Whether the instant of a window is its loudest moment, and not that of its highest score."""

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:
        """The scores of `recording`, in order, a stretch at a time."""
        return self.scorer(self.encoder(recording, meter=meter))


@dataclass(frozen=True, slots=True)
class NoEncoder:
    """Hears nothing."""

    channels: int = 0

    def __call__(self, recording: Recording, *, meter: Meter) -> Iterator[Track]:  # noqa: ARG002
        """No features at all."""
        return iter(())


@cache
def unheard() -> Frontline:
    """What a rule that reads no scores needs: nothing is listened to, and all windows are alike."""
    return Frontline(UNHEARD, NoEncoder())
