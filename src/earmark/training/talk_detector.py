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
from torch import Tensor, nn
from torch.nn import functional

from earmark.timeline import CLOCK_RATE
from earmark.training.dataset import TalkMixture, TrainingRecording
from earmark.training.head import FARTHEST, Tower
from earmark.training.optimisation import STEEPEST, Checkpoint, origin_of
from earmark.training.settings import Settings
from earmark.training.talk_mixture import ALONE, UNKNOWN, WORK

DILATIONS = (1, 3, 9, 27, 81, 243)
"""Steps between the taps of the blocks: 14.6 s to each side in all."""

SHARPER = 2.0
"""Factor of the logits: unsure moments of work keep their score, and pauses in talk lose theirs."""

RARE = 4.0
"""Weight of a step of work in talk; there are few of them."""


class TalkDetector(nn.Module):
    """One logit a step of talk alone, from features `(batch, steps, channels)`."""

    usual: Tensor
    spread: Tensor

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.tower = Tower.untrained(channels, width=width, dilations=DILATIONS, dropout=dropout)
        self.context = sum(DILATIONS)
        """Steps on each side that a logit depends on."""
        self.register_buffer("usual", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))

    def settle(self, features: Sequence[Tensor]) -> None:
        """Set the mean and standard deviation of each channel from `features`."""
        rows = torch.cat([each.double() for each in features])
        self.usual.copy_(rows.mean(0))
        self.spread.copy_(rows.std(0, correction=0) + 0.05)

    def forward(self, features: Tensor) -> Tensor:
        """The logits of `features`, `(batch, steps)`."""
        read = ((features - self.usual) / self.spread).clamp(-FARTHEST, FARTHEST)
        logits: Tensor = self.tower(read.transpose(1, 2))
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

    Half of the examples are of either. Where `checkpoint` has a finished training of the same
    settings and recordings, its detector is returned.
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
    optimizer = torch.optim.AdamW(
        detector.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    known = hashlib.sha256()
    for each in mixtures:
        known.update(each.features.tobytes() + each.labels.tobytes())
    origin = {**origin_of(recordings, settings), "talk": known.hexdigest()}
    state = Checkpoint(checkpoint, detector, optimizer, rng, origin)
    if not state.resume():
        for step in range(1, settings.steps + 1):
            for group in optimizer.param_groups:
                group["lr"] = settings.rate_at(step)
            _step(detector, optimizer, draw(mixtures, plain, settings, rng))
        state.keep(step=settings.steps)
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


def _step(
    detector: TalkDetector, optimizer: torch.optim.Optimizer, batch: tuple[Tensor, Tensor]
) -> None:
    """Make one step of the optimizer."""
    features, labels = batch
    detector.train()
    weights = torch.where(labels == WORK, RARE, 1.0) * (labels != UNKNOWN)
    each = functional.binary_cross_entropy_with_logits(
        detector(features), (labels == ALONE).float(), weights, reduction="sum"
    )
    optimizer.zero_grad()
    (each / weights.sum().clamp(min=1.0)).backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(detector.parameters(), STEEPEST)
    optimizer.step()
