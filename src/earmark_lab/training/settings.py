"""Settings of a training; the defaults were found best on development recordings."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from earmark.features.encoder import split_name
from earmark.gate.frontline import encoder_named
from earmark_lab.training.head import OBJECTIVES, Objective, SpanObjective

CLASSES = "classes"


@dataclass(frozen=True, slots=True)
class Settings:
    objective: str = "where"
    tau: float = 4.0
    encoder: str = "floor-mel"
    bands: int = 8
    """See `head.Front`; 0 for none."""
    context_channels: int = 8
    """First channels, which the context reads; 0 for no context."""
    loudness: float = 0.1
    """Increase of the log score per natural-log unit of level above the floor."""
    width: int = 16
    dropout: float = 0.3
    steps: int = 600
    batch: int = 6
    crop: float = 60.0
    """Seconds of one training example."""
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    cooling: float = 0.4
    """Share of the steps, at the end, in which the learning rate falls to 0."""
    folds: int = 3
    """Of participants: one for calibration, the rest for training."""
    seeds: int = 1
    first_seed: int = 0
    made: int = 16
    """Synthetic recordings; 0 also means no recordings of lone actions and no detector of talk."""
    check_every: int = 200
    """Steps; also between checkpoints."""

    def __post_init__(self) -> None:
        known = (*OBJECTIVES, CLASSES)
        if self.objective not in known:
            raise ValueError(
                f"there is no objective {self.objective!r}; there are {', '.join(known)}"
            )
        positive = "tau width steps batch crop seeds check_every learning_rate"
        for name in positive.split():
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is more than 0, not {getattr(self, name)}")
        for name in ("context_channels", "bands", "weight_decay", "made"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is 0 or more, not {getattr(self, name)}")
        if self.loudness and not self.context_channels:
            raise ValueError(
                "loudness is read from the channels of the context, and there is none: make it 0"
            )
        if not 0 <= self.cooling <= 1:
            raise ValueError(f"cooling is a share of the steps, not {self.cooling}")
        if self.folds < 2:
            raise ValueError(f"calibration needs at least 2 folds, not {self.folds}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout lies in [0, 1), not {self.dropout}")

    def rate_at(self, step: int) -> float:
        remaining = (self.steps - step + 1) / self.steps
        return self.learning_rate * min(1.0, remaining / self.cooling if self.cooling else 1.0)

    def is_check(self, step: int) -> bool:
        return step % self.check_every == 0 or step == self.steps

    @property
    def loss(self) -> Objective:
        objective = OBJECTIVES[self.objective]
        return (
            replace(objective, tau=self.tau) if isinstance(objective, SpanObjective) else objective
        )

    def of_context(self) -> Settings:
        return replace(
            self, objective="frame", learning_rate=2e-3, weight_decay=1e-3, crop=10 * self.crop,
            batch=8, steps=5 * self.steps // 3,
        )  # fmt: skip

    def of_detector(self) -> Settings:
        return replace(
            self, objective="frame", learning_rate=2e-3, weight_decay=1e-3, dropout=0.1,
            batch=8, steps=20 * self.steps // 3,
        )  # fmt: skip

    @property
    def all_seeds(self) -> tuple[int, ...]:
        return tuple(range(self.first_seed, self.first_seed + self.seeds))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


PAPER = Settings(
    objective="span",
    tau=4.0,
    encoder="beats",
    bands=0,
    context_channels=0,
    loudness=0.0,
    made=0,
    width=192,
    dropout=0.0,
    steps=15 * 200,
    learning_rate=3e-4,
    weight_decay=1e-4,
    cooling=0.0,
    batch=16,
    crop=20.0,
)
"""Crops, dropout and cooling are ours; see experiments/paper-head.md.

Width 192 gives the 0.41 M parameters of the paper's text; 128 gives the 0.2 M of its table."""


RECIPES = ("earmark", "paper")


def settings_of(recipe: str, encoder: str | None = None, **chosen: Any) -> Settings:
    """The recipe `earmark` is what works best for the encoder: a head and a context.

    Spectra and single channels are read in bands, classes of a pretrained network unchanged.
    """
    if recipe not in RECIPES:
        raise ValueError(f"there is no recipe {recipe!r}; there are {', '.join(RECIPES)}")
    given = {name: value for name, value in chosen.items() if value is not None}
    if recipe == "paper":
        return replace(PAPER, encoder=encoder or PAPER.encoder, **given)
    encoder = encoder or Settings().encoder
    name, channels = split_name(encoder)[0], encoder_named(encoder).channels
    best: dict[str, Any] = {"context_channels": channels, "loudness": 0.0, "made": 0}
    if name == "floor-mel":
        best = {"bands": channels // 2, "context_channels": channels // 2}
    elif name == "log-mel":
        best["bands"] = 4
    elif channels == 1:
        best["bands"] = 1
    else:
        best |= {"bands": 0, "width": 32, "steps": 400}
    return Settings(encoder=encoder, **best | given)
