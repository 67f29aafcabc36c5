"""What a gate file says about itself: where it comes from and what it was chosen on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from earmark.errors import ModelMismatch


@dataclass(frozen=True, slots=True)
class Honesty:
    """Coverage the gate forecast and coverage it got, at one budget, on development recordings."""

    budget: float
    """Share of the windows."""
    forecast: float
    """Expected share of the actions touched, over all recordings."""
    actual: float
    """Share of the actions that were touched."""


@dataclass(frozen=True, slots=True)
class Card:
    """Where a gate comes from, and what it may be used on."""

    encoder: str
    """Name of the encoder whose features it reads."""
    encoder_options: dict[str, float]
    """The encoder's fields; features made with others are not the ones it was trained on."""
    channels: int
    clock_rate: int
    """Steps a second of features and scores."""
    context: int
    """Steps on each side that a score depends on."""
    objective: str
    heads: int
    """How many trained heads are averaged."""
    seeds: tuple[int, ...]
    data: str
    """What it was trained and calibrated on, in words."""
    data_hash: str
    """SHA-256 over the recordings and spans it was trained on."""
    licence: str
    """Terms of the data it was trained on."""
    commit: str
    """Of the project, when it was trained."""
    recordings: int
    actions: int
    hours: float
    settings: dict[str, Any]
    """Every setting of the training."""
    honesty: tuple[Honesty, ...] = ()
    """Forecast against actual coverage on recordings the scoring heads had not heard."""

    def to_json(self) -> dict[str, Any]:
        """The card as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Card:
        """The card that `to_json` wrote."""
        missing = {each.name for each in fields(cls)} - set(kept)
        if missing:
            raise ModelMismatch(f"the gate's card says nothing of {', '.join(sorted(missing))}")
        honesty = tuple(Honesty(**row) for row in kept["honesty"])
        return cls(**{**kept, "seeds": tuple(kept["seeds"]), "honesty": honesty})
