"""The gate's head: a small dilated temporal convolution over frozen features."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

DILATIONS = (1, 4, 16)
"""Steps between the taps of the three blocks; the paper's."""

AROUND = 12
"""Steps on each side over which a channel's restlessness is taken: a second in all."""


LEAST_VARIANCE = 1e-4
"""Variance below which a channel counts as at rest; keeps the gradient of the root finite."""


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
        width = 2 * AROUND + 1
        mean = functional.avg_pool1d(levels, width, 1, AROUND)
        square = functional.avg_pool1d(levels * levels, width, 1, AROUND)
        spread = torch.sqrt((square - mean * mean).clamp(min=LEAST_VARIANCE))
        return torch.cat([levels, rises, spread], dim=1)


class Head(nn.Module):
    """One logit a step from features, `(batch, steps, channels)` to `(batch, steps)`.

    A pointwise layer, then residual blocks of one three-tap convolution each. Reading 447 channels
    as they are it has 0.41 M parameters at width 192 and 0.2 M at width 128. Steps beyond the
    ends of what it is given count as zeros, so whoever cuts a recording into pieces gives each
    piece `context` more steps on both sides.

    What is read is first brought from its `usual` value and spread to 0 and 1: logits of hundreds
    of classes lie around -10, where a fresh layer learns next to nothing.
    """

    usual: Tensor
    spread: Tensor

    def __init__(
        self,
        channels: int,
        *,
        width: int = 192,
        bands: int = 0,
        dilations: tuple[int, ...] = DILATIONS,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.front = Front(channels, bands=bands)
        self.enter = nn.Conv1d(self.front.channels, width, 1)
        self.blocks = nn.ModuleList(
            nn.Conv1d(width, width, 3, dilation=step, padding=step) for step in dilations
        )
        self.leave = nn.Conv1d(width, 1, 1)
        self.drop = nn.Dropout1d(dropout)  # whole channels: as good here, and twice as fast
        self.channels = channels
        self.context = self.front.context + sum(dilations)
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
        layer = nn.Conv1d(self.enter.in_channels, self.enter.out_channels, 1)
        assert layer.bias is not None and self.enter.bias is not None
        with torch.no_grad():
            layer.weight.copy_(self.enter.weight / self.spread)
            layer.bias.copy_(self.enter.bias - layer.weight.sum((1, 2)) * self.usual)
        return layer

    def forward(self, features: Tensor) -> Tensor:
        """The logits of `features`."""
        read = (self.front(features) - self.usual) / self.spread
        hidden = torch.relu(self.enter(read))  # (batch, width, steps)
        for block in self.blocks:
            hidden = hidden + torch.relu(block(self.drop(hidden)))
        logits: Tensor = self.leave(self.drop(hidden)).squeeze(1)
        return logits
