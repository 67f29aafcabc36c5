"""The gate's networks: a head for steps, a context for minutes around them, a detector of talk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from earmark.timeline import CLOCK_RATE

DILATIONS = (1, 4, 16)
"""Steps between the taps of the three blocks; the paper's."""

TALK_DILATIONS = (1, 3, 9, 27, 81, 243)
"""The same of the detector of talk: 14.6 s to each side in all."""

SHARPER = 2.0
"""Factor of the detector's logits: unsure moments of work keep their score, and pauses in talk lose
theirs."""

SECONDS = (1, 3, 9)
"""Seconds between the taps of the context's blocks: 13 s to each side in all."""

VARIETY = (5, 15, 45)
"""Seconds on each side over which the context computes the standard deviation of a channel."""

HELD = 5
"""Values of a channel in a second that the context reads; see `in_seconds`."""

AROUND = 12
"""Steps on each side over which a channel's standard deviation is computed: a second in all."""

LEAST_VARIANCE = 1e-4
"""Lower limit of a variance, which keeps the gradient of its square root finite."""

FARTHEST = 5.0
"""Limit, in standard deviations from the mean, to which a context's inputs are clipped."""


class Tower(nn.Module):
    """A network: a pointwise layer, residual blocks of one convolution each, logits a step."""

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
        self.drop = nn.Dropout1d(dropout)  # drops whole channels: as good here, and twice as fast

    @classmethod
    def untrained(
        cls, channels: int, *, width: int, dilations: Iterable[int], dropout: float
    ) -> Tower:
        """A tower with one logit a step and three taps a block."""
        return cls(
            nn.Conv1d(channels, width, 1),
            [nn.Conv1d(width, width, 3, dilation=step, padding=step) for step in dilations],
            nn.Conv1d(width, 1, 1),
            dropout=dropout,
        )

    def forward(self, read: Tensor) -> Tensor:
        """Logits `(batch, logits, steps)` of the inputs `read`, `(batch, channels, steps)`."""
        hidden = torch.relu(self.enter(read))  # (batch, width, steps)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(self.drop(hidden)))
        logits: Tensor = self.leave(self.drop(hidden))
        return logits


class Front(nn.Module):
    """Input of a head, computed from the features: bands, their rises and their deviations.

    Neighbouring channels are averaged into `bands`. For each band there is also its rise since the
    step before (0 if it fell) and its standard deviation over the second around the step. Nothing
    here is trained. With 0 bands the features are passed on unchanged.
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
        """Number of output channels."""
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

    With 447 channels and 0 bands it has 0.41 M parameters at width 192 and 0.2 M at width 128.
    Steps beyond both ends of the input count as zeros, so pieces of a recording must be given with
    `context` more steps on both sides.

    The input is first normalised by its mean `usual` and standard deviation `spread`: an encoder's
    logits for hundreds of classes lie around -10, where an untrained layer hardly learns.
    """

    clock_rate = CLOCK_RATE
    """Rows a second of its input."""
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
        """Set mean and standard deviation from `features`, the same for all channels.

        Normalising each channel by itself would amplify the noise of rare classes. With bands
        nothing is set: spectra are normalised already.
        """
        if self.front.bands:
            return
        size = sum(each.numel() for each in features)
        mean = sum(each.double().sum() for each in features) / size
        square = sum(((each.double() - mean) ** 2).sum() for each in features) / size
        self.usual.copy_(torch.as_tensor(mean))
        self.spread.copy_(torch.sqrt(torch.as_tensor(square)).clamp(min=LEAST_VARIANCE))

    def settled_enter(self) -> nn.Conv1d:
        """The first layer with the normalisation in its weights, to be applied to `front`."""
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
        """The tower's output for `features`, `(batch, 1, steps)`."""
        logits: Tensor = self.tower((self.front(features) - self.usual) / self.spread)
        return logits


class Normalised(nn.Module):
    """A network whose input channels are each normalised by their mean and standard deviation."""

    usual: Tensor
    spread: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("usual", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))

    def settle(self, rows: Sequence[Tensor]) -> None:
        """Set the mean and standard deviation of each channel from `rows`, `(steps, channels)`."""
        joined = torch.cat([each.double() for each in rows])
        self.usual.copy_(joined.mean(0))
        self.spread.copy_(joined.std(0, correction=0) + 0.05)

    def normalised(self, rows: Tensor) -> Tensor:
        """`rows`, `(batch, steps, channels)`, normalised, as `(batch, channels, steps)`."""
        scaled = (rows - self.usual) / self.spread
        return scaled.clamp(-FARTHEST, FARTHEST).transpose(1, 2)


class Context(Normalised):
    """One logit a second: is this second part of a bout of work?

    Reads the values of `in_seconds`, `(batch, seconds, HELD * channels)`, normalised, and their
    standard deviations around the second: the sound of work changes, that of wind, engines and
    steps stays the same. A logit depends on 58 s to each side.
    """

    clock_rate = 1

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__(HELD * channels)
        self.channels = channels
        """Channels of the features; its input has `HELD` times as many."""
        read = HELD * channels * (1 + len(VARIETY))
        self.tower = Tower.untrained(read, width=width, dilations=SECONDS, dropout=dropout)
        self.context = (sum(SECONDS) + max(VARIETY)) * CLOCK_RATE
        """Steps of the features on each side that a logit depends on."""

    def forward(self, seconds: Tensor) -> Tensor:
        """The logits of `seconds`."""
        logits: Tensor = self.tower(self.tower.drop(self.read(seconds)))
        return logits.squeeze(1)

    def read(self, seconds: Tensor) -> Tensor:
        """The tower's input for `seconds`: `(batch, rows, seconds)`."""
        rows = self.normalised(seconds)
        return torch.cat([rows, *(deviation(rows, side) for side in VARIETY)], dim=1)


class TalkDetector(Normalised):
    """One logit a step of talk alone: somebody speaks, and nothing else is going on.

    Scores are multiplied by one minus its probability, so that talk by itself is not taken for work
    while work goes on being heard through talk.
    """

    def __init__(self, channels: int, *, width: int, dropout: float) -> None:
        super().__init__(channels)
        self.tower = Tower.untrained(
            channels, width=width, dilations=TALK_DILATIONS, dropout=dropout
        )
        self.context = sum(TALK_DILATIONS)
        """Steps on each side that a logit depends on."""

    def forward(self, features: Tensor) -> Tensor:
        """The logits of `features`, `(batch, steps)`."""
        logits: Tensor = self.tower(self.normalised(features))
        return logits.squeeze(1)

    def without_talk(self, features: Tensor) -> Tensor:
        """Factors of scores, `(batch, steps)`: near 0 where there is talk alone, else near 1."""
        return torch.sigmoid(-SHARPER * self(features))


def chance_of_work(contexts: Sequence[Context], features: Tensor) -> Tensor:
    """The mean probability of work by `contexts` at each step of `features`, `(batch, steps)`."""
    seconds = in_seconds(features, contexts[0].channels)
    each = torch.stack([torch.sigmoid(context(seconds)) for context in contexts])
    return each.mean(0).repeat_interleave(CLOCK_RATE, 1)[:, : features.shape[1]]


def deviation(rows: Tensor, side: int, *, padded: bool = False) -> Tensor:
    """Standard deviation of `(batch, channels, steps)` over `side` steps to both sides.

    Steps beyond the ends are left out, or count as zeros if `padded`.
    """
    mean, square = (
        functional.avg_pool1d(each, 2 * side + 1, 1, side, count_include_pad=padded)
        for each in (rows, rows * rows)
    )
    return torch.sqrt((square - mean * mean).clamp(min=LEAST_VARIANCE))


def in_seconds(features: Tensor, channels: int) -> Tensor:
    """Statistics of the first `channels` in each second, `(batch, seconds, HELD * channels)`.

    Mean, standard deviation, largest value, largest rise from step to step, and mean difference
    between a channel's change and that of all channels: channels change differently in a voice and
    together in a blow. An incomplete last second is filled by repeating its last row.
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
    """`features`, `(batch, steps, channels)`, with the last row repeated to a whole second."""
    short = -features.shape[1] % CLOCK_RATE
    return torch.cat([features, features[:, -1:].expand(-1, short, -1)], dim=1)
