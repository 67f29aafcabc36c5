"""A network that hears talk alone: somebody speaks, and nothing else is going on.

Scores are multiplied by one minus its probability, so that talk by itself is not taken for work
while work goes on being heard through talk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from earmark.timeline import CLOCK_RATE
from earmark.training.dataset import TalkMixture, TrainingRecording
from earmark.training.head import Normalised, Tower
from earmark.training.optimisation import Descent
from earmark.training.settings import Settings
from earmark.training.talk_mixture import ALONE, UNKNOWN, WORK

DILATIONS = (1, 3, 9, 27, 81, 243)
"""Steps between the taps of the blocks: 14.6 s to each side in all."""

SHARPER = 2.0
"""Factor of the logits: unsure moments of work keep their score, and pauses in talk lose theirs."""

RARE = 4.0
"""Weight of a step of work in talk; there are few of them."""


class TalkDetector(Normalised):
    """One logit a step of talk alone, from features `(batch, steps, channels)`."""

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__(channels)
        self.tower = Tower.untrained(channels, width=width, dilations=DILATIONS, dropout=dropout)
        self.context = sum(DILATIONS)
        """Steps on each side that a logit depends on."""

    def forward(self, features: Tensor) -> Tensor:
        """The logits of `features`, `(batch, steps)`."""
        logits: Tensor = self.tower(self.normalised(features))
        return logits.squeeze(1)

    def without_talk(self, features: Tensor) -> Tensor:
        """Factors of scores, `(batch, steps)`: near 0 where there is talk alone, else near 1."""
        return torch.sigmoid(-SHARPER * self(features))


def fit_detector(
    mixtures: Sequence[TalkMixture],
    recordings: Sequence[TrainingRecording],
    settings: Settings,
    *,
    checkpoint: Path,
) -> TalkDetector:
    """A detector trained on `mixtures`, and on `recordings` as what is no talk.

    Half of the examples are of either. A fit that finds a `checkpoint` continues from it, see
    `Descent`.
    """
    seed, settings = settings.first_seed, settings.of_detector()
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    detector = TalkDetector(
        recordings[0].takes[0].shape[1], width=settings.width, dropout=settings.dropout
    )
    plain = [
        TalkMixture(each, np.zeros(len(each), np.int8)) for one in recordings for each in one.takes
    ]
    detector.settle([torch.from_numpy(each.features) for each in (*mixtures, *plain)])
    known = hashlib.sha256()
    for each in mixtures:
        known.update(each.features.tobytes() + each.labels.tobytes())

    def loss() -> Tensor:
        features, labels = draw(mixtures, plain, settings, rng)
        weights = torch.where(labels == WORK, RARE, 1.0) * (labels != UNKNOWN)
        total = functional.binary_cross_entropy_with_logits(
            detector(features), (labels == ALONE).float(), weights, reduction="sum"
        )
        return total / weights.sum().clamp(min=1.0)

    descent = Descent(detector, recordings, settings, rng, checkpoint, talk=known.hexdigest())
    for _ in descent.steps(loss):
        pass
    return detector.eval()


def draw(
    mixtures: Sequence[TalkMixture],
    plain: Sequence[TalkMixture],
    settings: Settings,
    rng: np.random.Generator,
) -> tuple[Tensor, Tensor]:
    """Features and labels of a batch: as many crops of either, the longer the more often."""
    steps = round(settings.crop * CLOCK_RATE)
    channels = plain[0].features.shape[1]
    features = np.zeros((settings.batch, steps, channels), np.float32)
    labels = np.full((settings.batch, steps), UNKNOWN)
    for row in range(settings.batch):
        some = mixtures if row % 2 else plain
        lengths = np.array([len(each.labels) for each in some], dtype=float)
        chosen = some[int(rng.choice(len(some), p=lengths / lengths.sum()))]
        first = int(rng.integers(0, max(1, len(chosen.labels) - steps + 1)))
        crop = chosen.labels[first : first + steps]
        features[row, : len(crop)] = chosen.features[first : first + steps]
        labels[row, : len(crop)] = crop
    return torch.from_numpy(features), torch.from_numpy(labels)
