"""The gate's networks: a head for steps, a context for minutes around them, a detector of talk."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.timeline import CLOCK_RATE, HOP

DILATIONS = (1, 4, 16)
"""Steps between taps; the paper's."""

TALK_DILATIONS = (1, 3, 9, 27, 81, 243)
"""Likewise of the detector of talk: 14.6 s to each side in all."""

SHARPER = 2.0

SECONDS = (1, 3, 9)
"""Between the taps of the context's blocks: 13 s to each side in all."""

VARIETY = (5, 15, 45)
"""Seconds on each side over which the context computes standard deviations."""

STATISTICS = 5
"""Of a channel in a second."""

AROUND = 12
"""Steps on each side: a second in all."""

LEAST_VARIANCE = 1e-4
"""Keeps the gradient of the square root finite."""

FARTHEST = 5.0
"""Standard deviations."""


class Tower(nn.Module):
    def __init__(
        self, channels: int, *, width: int, dilations: Iterable[int], dropout: float
    ) -> None:
        super().__init__()
        self.enter = nn.Conv1d(channels, width, 1)
        self.blocks = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=step, padding=step) for step in dilations
        )
        self.leave = nn.Conv1d(width, 1, 1)
        self.drop = nn.Dropout1d(dropout)  # drops whole channels: as good here, and twice as fast

    def forward(self, read: Tensor) -> Tensor:
        """From `(batch, channels, steps)` to `(batch, logits, steps)`."""
        hidden = torch.relu(self.enter(read))  # (batch, width, steps)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(self.drop(hidden)))
        logits: Tensor = self.leave(self.drop(hidden))
        return logits


class Front(nn.Module):
    """Bands of the features, their rises since the step before and their deviations over a second.

    A fall counts as 0. With 0 bands the features are passed on unchanged. Nothing is trained.
    """

    def __init__(self, channels: int, *, bands: int) -> None:
        super().__init__()
        if bands and channels % bands:
            raise ValueError(
                f"{channels} channels cannot be averaged into {bands} equal bands; "
                f"ask for 0 to read them as they are"
            )
        self.bands = bands
        self.channels = 3 * bands if bands else channels
        self.context = AROUND if bands else 0

    def forward(self, features: Tensor) -> Tensor:
        """From `(batch, steps, channels)` to `(batch, self.channels, steps)`."""
        if not self.bands:
            return features.transpose(1, 2)
        grouped = features.reshape(features.shape[0], features.shape[1], self.bands, -1)
        levels = grouped.mean(3).transpose(1, 2)
        rises = torch.relu(levels - functional.pad(levels, (1, 0))[:, :, :-1])
        return torch.cat([levels, rises, deviation(levels, AROUND, padded=True)], dim=1)


class Head(nn.Module):
    """One logit a step from features, `(batch, steps, channels)` to `(batch, steps)`.

    Steps beyond both ends count as zeros, so pieces need `context` more steps on both sides.
    """

    clock_rate = CLOCK_RATE
    usual: Tensor
    spread: Tensor

    def __init__(
        self, channels: int, *, width: int = 192, bands: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.front = Front(channels, bands=bands)
        read = self.front.channels
        self.tower = Tower(read, width=width, dilations=DILATIONS, dropout=dropout)
        self.channels = channels
        self.context = self.front.context + sum(DILATIONS)
        """Steps on each side that a logit depends on."""
        self.register_buffer("usual", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def settle(self, features: Sequence[Tensor]) -> None:
        """The same for all channels, or the noise of rare classes would be amplified."""
        if self.front.bands:
            return
        size = sum(rows.numel() for rows in features)
        mean = sum(rows.double().sum() for rows in features) / size
        square = sum(((rows.double() - mean) ** 2).sum() for rows in features) / size
        self.usual.copy_(torch.as_tensor(mean))
        self.spread.copy_(torch.sqrt(torch.as_tensor(square)).clamp(min=LEAST_VARIANCE))

    def settled_enter(self) -> nn.Conv1d:
        enter = self.tower.enter
        layer = nn.Conv1d(enter.in_channels, enter.out_channels, 1)
        assert layer.bias is not None and enter.bias is not None
        with torch.no_grad():
            layer.weight.copy_(enter.weight / self.spread)
            layer.bias.copy_(enter.bias - layer.weight.sum((1, 2)) * self.usual)
        return layer

    def forward(self, features: Tensor) -> Tensor:
        return self.logits(features).squeeze(1)

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.tower((self.front(features) - self.usual) / self.spread)
        return logits


class Normalised(nn.Module):
    usual: Tensor
    spread: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("usual", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))

    def settle(self, features: Sequence[Tensor]) -> None:
        joined = torch.cat([rows.double() for rows in features])
        self.usual.copy_(joined.mean(0))
        self.spread.copy_(joined.std(0, correction=0) + 0.05)

    def normalised(self, rows: Tensor) -> Tensor:
        """From `(batch, steps, channels)` to `(batch, channels, steps)`."""
        scaled = (rows - self.usual) / self.spread
        return scaled.clamp(-FARTHEST, FARTHEST).transpose(1, 2)


class Context(Normalised):
    """One logit a second: is this second part of a bout of work? It depends on 58 s to each side.

    The sound of work changes, that of wind, engines and steps stays the same.
    """

    clock_rate = 1

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__(STATISTICS * channels)
        self.channels = channels
        read = STATISTICS * channels * (1 + len(VARIETY))
        self.tower = Tower(read, width=width, dilations=SECONDS, dropout=dropout)
        self.context = (sum(SECONDS) + max(VARIETY)) * CLOCK_RATE
        """Steps of the features on each side."""

    def forward(self, seconds: Tensor) -> Tensor:
        logits: Tensor = self.tower(self.tower.drop(self.read(seconds)))
        return logits.squeeze(1)

    def read(self, seconds: Tensor) -> Tensor:
        """`(batch, rows, seconds)`."""
        rows = self.normalised(seconds)
        return torch.cat([rows, *(deviation(rows, side) for side in VARIETY)], dim=1)


class TalkDetector(Normalised):
    """One logit a step of talk alone: somebody speaks, and nothing else is going on."""

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__(channels)
        self.tower = Tower(channels, width=width, dilations=TALK_DILATIONS, dropout=dropout)
        self.context = sum(TALK_DILATIONS)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.tower(self.normalised(features))
        return logits.squeeze(1)

    def without_talk(self, features: Tensor) -> Tensor:
        """Factors of scores, `(batch, steps)`: near 0 if there is talk alone, else near 1."""
        return torch.sigmoid(-SHARPER * self(features))


def chance_of_work(contexts: Sequence[Context], features: Tensor) -> Tensor:
    """Mean probability, `(batch, steps)`."""
    seconds = in_seconds(features, contexts[0].channels)
    chances = torch.stack([torch.sigmoid(context(seconds)) for context in contexts])
    return chances.mean(0).repeat_interleave(CLOCK_RATE, 1)[:, : features.shape[1]]


def deviation(rows: Tensor, side: int, *, padded: bool = False) -> Tensor:
    """Over `side` steps to both sides; those beyond the ends are left out, or 0 if `padded`."""
    mean, square = (
        functional.avg_pool1d(values, 2 * side + 1, 1, side, count_include_pad=padded)
        for values in (rows, rows * rows)
    )
    return torch.sqrt((square - mean * mean).clamp(min=LEAST_VARIANCE))


def in_seconds(features: Tensor, channels: int) -> Tensor:
    """Statistics of the first `channels` in each second, `(batch, seconds, STATISTICS * channels)`.

    Mean, standard deviation, largest value, largest rise, and mean difference between a channel's
    change and that of all: channels change differently in a voice and together in a blow.
    """
    read = in_whole_seconds(features[:, :, :channels]).transpose(1, 2)
    cells = read.reshape(len(features), channels, -1, CLOCK_RATE)
    mean = cells.mean(3)
    variance = ((cells - mean[..., None]) ** 2).mean(3).clamp(min=LEAST_VARIANCE)
    moves = cells[..., 1:] - cells[..., :-1]
    apart = (moves - moves.mean(1, keepdim=True)).abs().mean(3)
    statistics = [mean, torch.sqrt(variance), cells.amax(3), torch.relu(moves).amax(3), apart]
    return torch.cat(statistics, dim=1).transpose(1, 2)


def in_whole_seconds(features: Tensor) -> Tensor:
    short = -features.shape[1] % CLOCK_RATE
    return torch.cat([features, features[:, -1:].expand(-1, short, -1)], dim=1)


LEAST_RATE = 1e-6
"""Added to intensities, in starts a second."""

NEAR = 4.0
"""Seconds around an action that still belong to its bout of work."""


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Positions are indices into the flattened batch."""

    heard: Tensor
    """Not padding, `(batch, steps)`, bool."""
    active: Tensor
    """`(batch, steps)`, bool."""
    inside: Tensor
    """Positions inside the actions, one action after the other."""
    owner: Tensor
    """The action each of `inside` belongs to, counted through the batch."""
    starts: Tensor
    """One position for each start in a crop, even if equal."""

    @property
    def actions(self) -> int:
        return int(self.owner[-1]) + 1 if len(self.owner) else 0


SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "logistic": torch.sigmoid,
    "softplus": functional.softplus,
}


class Objective:
    """A loss over logits `(batch, steps)`, and the function from logits to scores."""

    __slots__ = ()
    activation: ClassVar[str] = "logistic"

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        """Finite for any finite logits, with or without actions."""
        raise NotImplementedError

    def score(self, logits: Tensor) -> Tensor:
        """At least 0, rising with the logit."""
        return SCORES[self.activation](logits)


@dataclass(frozen=True, slots=True)
class SpanObjective(Objective):
    """High somewhere in every action, low outside actions: the paper's coverage-aligned loss."""

    tau: float = 4.0
    """Sharpness of pooling: the higher, the closer to the largest logit of an action."""

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        pooled = pool_spans(logits, targets, self.tau)
        idle = logits[targets.heard & ~targets.active]
        return _mean(functional.softplus(-pooled)) + _mean(functional.softplus(idle))


@dataclass(frozen=True, slots=True)
class FrameObjective(Objective):
    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        heard = targets.heard
        return functional.binary_cross_entropy_with_logits(
            logits[heard], targets.active[heard].to(logits.dtype)
        )


@dataclass(frozen=True, slots=True)
class RateObjective(Objective):
    """Predict action starts a second: the likelihood of a Poisson process, in two parts.

    The likelihood of starts at times s under an intensity of mean `m` over a crop of `T` seconds
    is that of *where* they are, given how many, times that of *how many* there are:

        sum of log(intensity(s) / m)     +     starts * log(m) - m * T
    """

    activation: ClassVar[str] = "softplus"
    counts: float = 1.0
    jitter: float = 0.0
    """Seconds on both sides of an annotated start over which the intensity is averaged."""
    near: float = math.inf

    def loss(self, logits: Tensor, targets: Targets) -> Tensor:
        counted = self._counted(targets)
        rates = self.score(logits) * counted
        side = round(self.jitter / HOP)
        around = functional.avg_pool1d(
            rates.unsqueeze(1), 2 * side + 1, 1, side, count_include_pad=False
        )
        seconds = (counted.sum(1) * HOP).clamp(min=HOP)  # (batch,)
        mean = rates.sum(1) * HOP / seconds + LEAST_RATE
        crop = targets.starts // logits.shape[1]
        starts = torch.bincount(crop, minlength=len(mean)).to(mean.dtype)
        where = torch.log(around.flatten()[targets.starts] + LEAST_RATE) - torch.log(mean)[crop]
        how_many = starts * torch.log(mean) - mean * seconds
        return -(where.sum() + self.counts * how_many.sum()) / seconds.sum()

    def _counted(self, targets: Targets) -> Tensor:
        if math.isinf(self.near):
            return targets.heard
        side = round(self.near / HOP)
        active = targets.active.float().unsqueeze(1)
        return targets.heard & (functional.max_pool1d(active, 2 * side + 1, 1, side)[:, 0] > 0)


OBJECTIVES: dict[str, Objective] = {
    "span": SpanObjective(),
    "frame": FrameObjective(),
    "rate": RateObjective(),
    "where": RateObjective(counts=0.1, jitter=1.0, near=NEAR),
}
"""`where` is `rate` with most weight on where in a bout of work the starts are."""


def pool_spans(logits: Tensor, targets: Targets, tau: float) -> Tensor:
    """The unnormalised log-sum-exp of the logits inside each action, `(actions,)`."""
    inside = logits.flatten()[targets.inside] * tau
    largest = inside.new_full((targets.actions,), -torch.inf)
    largest = largest.scatter_reduce(0, targets.owner, inside.detach(), "amax")
    total = torch.zeros_like(largest)
    total = total.index_add(0, targets.owner, torch.exp(inside - largest[targets.owner]))
    return (torch.log(total) + largest) / tau


def _mean(values: Tensor) -> Tensor:
    return values.sum() / max(1, values.numel())
