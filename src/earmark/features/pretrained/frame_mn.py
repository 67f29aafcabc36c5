"""frame_mn06 and frame_mn10: MobileNetV3 that keeps the time axis, with AudioSet-Strong heads.

The small models: 1.62 and 3.83 million weights.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from earmark.features.pretrained.detector import StrongDetector
from earmark.features.pretrained.fpasst import EmphasisedLogMel


class _Shape(NamedTuple):
    """One inverted residual block of MobileNetV3-Large, before scaling by the width."""

    kernel: int
    expanded: int
    out: int
    squeezes: bool
    hard_swish: bool
    stride: tuple[int, int]
    """In frequency and in time."""


# fmt: off
BLOCKS = (
    _Shape(3,  16,  16, False, False, (1, 1)),
    _Shape(3,  64,  24, False, False, (2, 2)),
    _Shape(3,  72,  24, False, False, (2, 1)),
    _Shape(5,  72,  40, True,  False, (1, 1)),
    _Shape(5, 120,  40, True,  False, (1, 1)),
    _Shape(5, 120,  40, True,  False, (2, 1)),
    _Shape(3, 240,  80, False, True,  (1, 1)),
    _Shape(3, 200,  80, False, True,  (2, 1)),
    _Shape(3, 184,  80, False, True,  (1, 1)),
    _Shape(3, 184,  80, False, True,  (1, 1)),
    _Shape(3, 480, 112, True,  True,  (2, 1)),
    _Shape(3, 672, 112, True,  True,  (1, 1)),
    _Shape(5, 672, 160, True,  True,  (1, 1)),
    _Shape(5, 960, 160, True,  True,  (1, 1)),
    _Shape(5, 960, 160, True,  True,  (2, 1)),
)
# fmt: on
"""Halved in time once here and once in the stem: 1000 spectra give 250 rows."""


class FrameMobileNet(StrongDetector):
    """Convolutions only; their strides reduce all frequencies to one and leave 250 rows."""

    def __init__(self, *, width: float = 1.0, classes: int = 447) -> None:
        network = _MobileNet(width)
        super().__init__("frame_mn", network, width=network.width, classes=classes)
        self._mel = EmphasisedLogMel(periodic=False)

    def spectrum(self, sound: Tensor) -> Tensor:
        """The log-mel spectrum, `(batch, 128, 1000)`."""
        return self._mel(sound)


class _MobileNet(nn.Module):
    """The stem, fifteen blocks and a last layer, by the names in the checkpoint."""

    def __init__(self, width: float) -> None:
        super().__init__()
        channels = _scaled(16 * width)
        layers: list[nn.Module] = [_convolution(1, channels, 3, (2, 2), activation=nn.Hardswish)]
        for shape in BLOCKS:
            layers.append(_Block(shape, channels, width))
            channels = _scaled(shape.out * width)
        self.width = 6 * channels
        layers.append(_convolution(channels, self.width, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Rows, `(batch, 250, width)`."""
        maps: Tensor = self.features(spectrum[:, None])  # (batch, width, 1, 250)
        return maps.squeeze(2).transpose(1, 2)


class _Block(nn.Module):
    """Widen, look around in each channel by itself, weigh the channels, narrow."""

    def __init__(self, shape: _Shape, channels: int, width: float) -> None:
        super().__init__()
        expanded, out = _scaled(shape.expanded * width), _scaled(shape.out * width)
        activation = nn.Hardswish if shape.hard_swish else nn.ReLU
        layers: list[nn.Module] = []
        if expanded != channels:
            layers.append(_convolution(channels, expanded, 1, activation=activation))
        sizes = (expanded, expanded, shape.kernel, shape.stride)
        layers.append(_convolution(*sizes, groups=expanded, activation=activation))
        if shape.squeezes:
            layers.append(_SqueezeExcite(expanded))
        layers.append(_convolution(expanded, out, 1, activation=None))
        self.block = nn.Sequential(*layers)
        self._has_shortcut = shape.stride == (1, 1) and channels == out

    def forward(self, maps: Tensor) -> Tensor:
        residual: Tensor = self.block(maps)
        return residual + maps if self._has_shortcut else residual


class _SqueezeExcite(nn.Module):
    """Squeeze-and-excitation over the channels; a list of one, as in the checkpoint."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = _scaled(channels // 4)
        layers = {"fc1": nn.Linear(channels, narrow), "fc2": nn.Linear(narrow, channels)}
        self.conc_se_layers = nn.ModuleList([nn.ModuleDict(layers)])

    def forward(self, maps: Tensor) -> Tensor:
        """`maps`, each channel times its weight."""
        layer = self.conc_se_layers[0]
        assert isinstance(layer, nn.ModuleDict)
        weight = layer["fc2"](layer["fc1"](maps.mean(dim=(2, 3))).relu()).sigmoid()
        return maps * weight[:, :, None, None]


def _convolution(
    channels: int,
    out: int,
    kernel: int,
    stride: tuple[int, int] = (1, 1),
    *,
    groups: int = 1,
    activation: type[nn.Module] | None,
) -> nn.Sequential:
    """A convolution with same padding, a batch norm and an activation."""
    side, last = kernel // 2, [activation()] if activation else []
    inner = nn.Conv2d(channels, out, kernel, stride, padding=side, groups=groups, bias=False)
    return nn.Sequential(inner, nn.BatchNorm2d(out, eps=0.001), *last)


def _scaled(channels: float) -> int:
    """The nearest multiple of eight that is not more than a tenth too small."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
