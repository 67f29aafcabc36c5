"""The gate's two heads: one hears where in a second, one knows what minute it is in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.timeline import CLOCK_RATE

DILATIONS = (1, 4, 16)
"""Steps between the taps of the three blocks; the paper's."""

SECONDS = (1, 3, 9)
"""Seconds between the taps of the context's blocks: 13 s to each side in all."""

VARIETY = (5, 15, 45)
"""Seconds on each side over which the context takes how much a channel varies."""

HELD = 5
"""Values that the context has of a channel in a second; see `in_seconds`."""

AROUND = 12
"""Steps on each side over which a channel's restlessness is taken: a second in all."""

LEAST_VARIANCE = 1e-4
"""Variance below which a channel counts as at rest; keeps the gradient of the root finite."""

FARTHEST = 5.0
"""Spreads from the usual value beyond which one oddity is like another."""


class Tower(nn.Module):
    """A pointwise layer, residual blocks of one convolution each, and logits a step."""

    def __init__(
        self,
        enter: nn.Conv1d,
        blocks: Iterable[nn.Conv1d],
        leave: nn.Conv1d,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.enter, self.blocks, self.leave = enter, nn.ModuleList(blocks), leave
        self.drop = nn.Dropout1d(dropout)  # whole channels: as good here, and twice as fast

    @classmethod
    def untrained(
        cls, channels: int, *, width: int, dilations: Iterable[int], dropout: float
    ) -> Tower:
        """One logit a step, from three taps a block."""
        return cls(
            nn.Conv1d(channels, width, 1),
            [nn.Conv1d(width, width, 3, dilation=step, padding=step) for step in dilations],
            nn.Conv1d(width, 1, 1),
            dropout=dropout,
        )

    def forward(self, read: Tensor) -> Tensor:
        """Logits `(batch, logits, steps)` of what is read, `(batch, channels, steps)`."""
        hidden = torch.relu(self.enter(read))  # (batch, width, steps)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(self.drop(hidden)))
        logits: Tensor = self.leave(self.drop(hidden))
        return logits


class Front(nn.Module):
    """What a head reads of the features: fewer bands, what rises in them, how restless they are.

    Neighbouring channels are averaged into `bands`; beside each stands how much it rose since the
    step before (falls count as nothing) and its standard deviation over the second around the
    step. Nothing here is trained. With 0 bands the features are read as they are.
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
        """Channels that come out."""
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

    Reading 447 channels as they are it has 0.41 M parameters at width 192 and 0.2 M at width 128.
    Steps beyond the ends of what it is given count as zeros, so whoever cuts a recording into
    pieces gives each piece `context` more steps on both sides.

    What is read is first brought from its `usual` value and spread to 0 and 1: logits of hundreds
    of classes lie around -10, where a fresh layer learns next to nothing.
    """

    clock_rate = CLOCK_RATE
    """Rows a second of what it is given."""
    usual: Tensor
    spread: Tensor

    def __init__(
        self, channels: int, *, width: int = 192, bands: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.front = Front(channels, bands=bands)
        read = self.front.channels
        self.tower = Tower.untrained(read, width=width, dilations=DILATIONS, dropout=dropout)
        self.channels = channels
        self.context = self.front.context + sum(DILATIONS)
        """Steps on each side that a logit depends on."""
        self.register_buffer("usual", torch.zeros(()))
        self.register_buffer("spread", torch.ones(()))

    def settle(self, features: Sequence[Tensor]) -> None:
        """Take the usual value and spread from `features`, one for all channels.

        Those of a single class would blow up the noise of the rare ones. Bands are left as they
        are: spectra come normalised.
        """
        if self.front.bands:
            return
        size = sum(each.numel() for each in features)
        mean = sum(each.double().sum() for each in features) / size
        square = sum(((each.double() - mean) ** 2).sum() for each in features) / size
        self.usual.copy_(torch.as_tensor(mean))
        self.spread.copy_(torch.sqrt(torch.as_tensor(square)).clamp(min=LEAST_VARIANCE))

    def settled_enter(self) -> nn.Conv1d:
        """The first layer with `usual` and `spread` in its weights: for whoever reads the front."""
        enter = self.tower.enter
        layer = nn.Conv1d(enter.in_channels, enter.out_channels, 1)
        assert layer.bias is not None and enter.bias is not None
        with torch.no_grad():
            layer.weight.copy_(enter.weight / self.spread)
            layer.bias.copy_(enter.bias - layer.weight.sum((1, 2)) * self.usual)
        return layer

    def forward(self, features: Tensor) -> Tensor:
        """The logits of `features`."""
        return self.logits(features).squeeze(1)

    def logits(self, features: Tensor) -> Tensor:
        """What the tower makes of `features`, `(batch, 1, steps)`."""
        logits: Tensor = self.tower((self.front(features) - self.usual) / self.spread)
        return logits


class Context(nn.Module):
    """One logit a second: is this second part of a bout of work?

    Reads what `in_seconds` makes of the features, `(batch, seconds, HELD * channels)`, each brought
    to its usual value and spread, and how much that varies around the second: work changes from
    one thing to the next where wind, engines and steps go on as they are. 58 s to each side.
    """

    clock_rate = 1
    usual: Tensor
    spread: Tensor

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.channels = channels
        """Of the features; what it reads has `HELD` times as many."""
        read = HELD * channels * (1 + len(VARIETY))
        self.tower = Tower.untrained(read, width=width, dilations=SECONDS, dropout=dropout)
        self.context = (sum(SECONDS) + max(VARIETY)) * CLOCK_RATE
        """Steps of the features on each side that a logit depends on."""
        self.register_buffer("usual", torch.zeros(HELD * channels))
        self.register_buffer("spread", torch.ones(HELD * channels))

    def settle(self, seconds: Sequence[Tensor]) -> None:
        """Take the usual value and spread of each channel from `seconds`."""
        rows = torch.cat([each.double() for each in seconds])
        self.usual.copy_(rows.mean(0))
        self.spread.copy_(rows.std(0, correction=0) + 0.05)

    def forward(self, seconds: Tensor) -> Tensor:
        """The logits of `seconds`."""
        return self.judge(self.read(seconds))

    def judge(self, rows: Tensor) -> Tensor:
        """The logits of what `read` gave, which stays the same while the tower is fitted."""
        logits: Tensor = self.tower(self.tower.drop(rows))
        return logits.squeeze(1)

    def read(self, seconds: Tensor) -> Tensor:
        """What the tower is given of `seconds`: `(batch, rows, seconds)`."""
        rows = ((seconds - self.usual) / self.spread).clamp(-FARTHEST, FARTHEST).transpose(1, 2)
        return torch.cat([rows, *(deviation(rows, side) for side in VARIETY)], dim=1)


def chance_of_work(contexts: Sequence[Context], features: Tensor) -> Tensor:
    """The mean chance that `contexts` give each step of `features`, `(batch, steps)`."""
    seconds = in_seconds(features, contexts[0].channels)
    each = torch.stack([torch.sigmoid(context(seconds)) for context in contexts])
    return each.mean(0).repeat_interleave(CLOCK_RATE, 1)[:, : features.shape[1]]


def deviation(rows: Tensor, side: int, *, padded: bool = False) -> Tensor:
    """Standard deviation of `(batch, channels, steps)` over `side` steps to both sides.

    Beyond the ends there is nothing, or, `padded`, zeros.
    """
    mean, square = (
        functional.avg_pool1d(each, 2 * side + 1, 1, side, count_include_pad=padded)
        for each in (rows, rows * rows)
    )
    return torch.sqrt((square - mean * mean).clamp(min=LEAST_VARIANCE))


def in_seconds(features: Tensor, channels: int) -> Tensor:
    """What each second holds of the first `channels`, `(batch, seconds, HELD * channels)`.

    Mean, standard deviation, largest value, largest rise from step to step, and how far a channel
    moves apart from the others: those of a voice do, those of a blow rise together. A last second
    that is cut short lasts on as it ends.
    """
    read = in_whole_seconds(features[:, :, :channels]).transpose(1, 2)
    cells = read.reshape(len(features), channels, -1, CLOCK_RATE)
    mean = cells.mean(3)
    variance = ((cells - mean[..., None]) ** 2).mean(3).clamp(min=LEAST_VARIANCE)
    moves = cells[..., 1:] - cells[..., :-1]
    apart = (moves - moves.mean(1, keepdim=True)).abs().mean(3)
    held = [mean, torch.sqrt(variance), cells.amax(3), torch.relu(moves).amax(3), apart]
    return torch.cat(held, dim=1).transpose(1, 2)


def in_whole_seconds(features: Tensor) -> Tensor:
    """`features`, `(batch, steps, channels)`, with the last row repeated to the second's end."""
    short = -features.shape[1] % CLOCK_RATE
    return torch.cat([features, features[:, -1:].expand(-1, short, -1)], dim=1)
