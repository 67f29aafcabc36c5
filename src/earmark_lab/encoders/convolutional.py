"""PANNs Cnn14_DecisionLevelMax (Kong et al., 2020), MobileNetV3 (Schmid et al.), Auditory SlowFast.

mn04 classifies clips (ICASSP 2023), frame_mn06 and frame_mn10 moments. SlowFast (Kazakos et al.,
2021): the slow network reads every fourth spectrum with many channels, the fast one all of them
with few.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.features.spectrum import hertz_bands
from earmark_lab.encoders.audio_transformers import (
    EMPHASIS,
    EmphasisedLogMel,
    PowerSpectrum,
    kaldi_bands,
)
from earmark_lab.encoders.detector import STEPS, Detector, StrongDetector

PANNS_RATE = 32_000
BANDS = 64
HALVINGS = 5
"""Of the rate of spectra: 100 Hz to 3.125 Hz."""
STEPS_PER_DECISION = 8


class Cnn14(Detector):
    """Six blocks of two convolutions; a decision every 320 ms, repeated until the next."""

    def __init__(self, *, channels: int = 64, classes: int = 527) -> None:
        super().__init__()
        bands = hertz_bands(
            BANDS, size=1024, sample_rate=PANNS_RATE, low=50, high=14_000, slaney=True
        )
        self._mel = PowerSpectrum(torch.hann_window(1024), bands, hop=320)
        self.bn0 = nn.BatchNorm2d(BANDS)
        widths = [1, *(channels * 2**place for place in range(HALVINGS + 1))]
        for number, (wide, out) in enumerate(pairwise(widths), start=1):
            self.add_module(f"conv_block{number}", _DoubleConvolution(wide, out))
        self.fc1 = nn.Linear(widths[-1], widths[-1])
        self.fc_audioset = nn.Linear(widths[-1], classes)

    def spectrum(self, sound: Tensor) -> Tensor:
        """Decibels, `(batch, 1001, 64)` of ten seconds."""
        energy = self._mel(sound).clamp(min=1e-10)
        return 10.0 * torch.log10(energy).transpose(1, 2)

    def embed(self, spectrum: Tensor) -> Tensor:
        return repeat_decisions(self.decide(spectrum))

    def decide(self, spectrum: Tensor) -> Tensor:
        """One for every 320 ms, `(batch, decisions, width)`."""
        maps = self.bn0(spectrum.transpose(1, 2)[..., None]).permute(0, 3, 2, 1)
        for number in range(1, HALVINGS + 1):
            maps = F.avg_pool2d(self.get_submodule(f"conv_block{number}")(maps), 2)
        rows = self.get_submodule("conv_block6")(maps).mean(dim=3)  # (batch, width, 31)
        loudest = F.max_pool1d(rows, 3, stride=1, padding=1)
        around = F.avg_pool1d(rows, 3, stride=1, padding=1)
        return F.relu(self.fc1((loudest + around).transpose(1, 2)))

    def classify(self, rows: Tensor) -> Tensor:
        return self.fc_audioset(rows)


def repeat_decisions(rows: Tensor) -> Tensor:
    """Eight steps each, the last to the end of the ten seconds."""
    places = torch.arange(STEPS, device=rows.device) // STEPS_PER_DECISION
    return rows[:, places.clamp(max=rows.shape[1] - 1)]


class _DoubleConvolution(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.bn2 = nn.BatchNorm2d(out)

    def forward(self, maps: Tensor) -> Tensor:
        maps = F.relu(self.bn1(self.conv1(maps)))
        return F.relu(self.bn2(self.conv2(maps)))


class _Shape(NamedTuple):
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

CLIP_STRIDES = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1)
CLIP_BLOCKS = tuple(
    shape._replace(stride=(stride, stride))
    for shape, stride in zip(BLOCKS, CLIP_STRIDES, strict=True)
)
"""Halved in time and frequency four times here and once in the stem: a row every 0.32 s."""


class FrameMobileNet(StrongDetector):
    """Strides reduce all frequencies to one and leave 250 rows."""

    def __init__(self, *, width: float = 1.0, classes: int = 447) -> None:
        network = _MobileNet(width, BLOCKS)
        super().__init__("frame_mn", network, width=network.width, classes=classes)
        self._mel = EmphasisedLogMel(periodic=False)

    def spectrum(self, sound: Tensor) -> Tensor:
        return self._mel(sound)


class ClipMobileNet(Detector):
    """EfficientAT's network of a clip: the mean of `embed` over time, classified.

    The last layers also classify the mean of any stretch of rows.
    """

    def __init__(self, *, width: float = 0.4, classes: int = 527) -> None:
        super().__init__()
        bands = kaldi_bands(128, size=1024, sample_rate=32_000, low=0.0, high=15_000.0)
        self._mel = PowerSpectrum(torch.hann_window(800, periodic=False), bands, hop=320)
        network, wide = _MobileNet(width, CLIP_BLOCKS), _scaled(1280 * width)
        self.features = network.features
        self.classifier = nn.ModuleDict(
            {"2": nn.Linear(network.width, wide), "5": nn.Linear(wide, classes)}
        )

    def spectrum(self, sound: Tensor) -> Tensor:
        """Of 32,000 samples per second, `(batch, 128, spectra)`, 100 per second."""
        energy = self._mel(sound[:, 1:] - EMPHASIS * sound[:, :-1])
        return (torch.log(energy + 1e-5) + 4.5) / 5.0

    def embed(self, spectrum: Tensor) -> Tensor:
        return self.features(spectrum[:, None]).mean(dim=2).transpose(1, 2)

    def classify(self, rows: Tensor) -> Tensor:
        return self.classifier["5"](F.hardswish(self.classifier["2"](rows)))


class _MobileNet(nn.Module):
    def __init__(self, width: float, blocks: Sequence[_Shape]) -> None:
        super().__init__()
        channels = _scaled(16 * width)
        layers: list[nn.Module] = [_convolution(1, channels, 3, (2, 2), activation=nn.Hardswish)]
        for shape in blocks:
            layers.append(_InvertedResidual(shape, channels, width))
            channels = _scaled(shape.out * width)
        self.width = 6 * channels
        layers.append(_convolution(channels, self.width, 1, activation=nn.Hardswish))
        self.features = nn.Sequential(*layers)

    def forward(self, spectrum: Tensor) -> Tensor:
        maps: Tensor = self.features(spectrum[:, None])  # (batch, width, 1, 250)
        return maps.squeeze(2).transpose(1, 2)


class _InvertedResidual(nn.Module):
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
    """A list of one, as in the checkpoint."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        narrow = _scaled(channels // 4)
        layers = {"fc1": nn.Linear(channels, narrow), "fc2": nn.Linear(narrow, channels)}
        self.conc_se_layers = nn.ModuleList([nn.ModuleDict(layers)])

    def forward(self, maps: Tensor) -> Tensor:
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
    side, last = kernel // 2, [activation()] if activation else []
    inner = nn.Conv2d(channels, out, kernel, stride, padding=side, groups=groups, bias=False)
    return nn.Sequential(inner, nn.BatchNorm2d(out, eps=0.001), *last)


def _scaled(channels: float) -> int:
    """The nearest multiple of eight that is not more than a tenth too small."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


SLOWFAST_RATE = 24_000
CLIP = 47_975
"""Samples: 1.999 s, less one as the authors cut it; 400 spectra."""
SPECTRA = 400
FRAME_RATIO = 4
"""Spectra, fast to slow."""
CHANNEL_RATIO = 8
"""Channels, slow to fast."""
FUSION_RATIO = 2
DEPTHS = (3, 4, 6, 3)
"""Blocks of a ResNet-50."""


class SlowFast(Detector):
    """One row per clip, `(batch, 1, classes)`; the classes exclude each other."""

    def __init__(self, *, channels: int = 64, classes: int = 44) -> None:
        super().__init__()
        bands = hertz_bands(
            128, size=2048, sample_rate=SLOWFAST_RATE, low=0, high=12_000, slaney=False
        )
        self._mel = PowerSpectrum(
            torch.hann_window(240), bands, hop=120, padding="constant", is_magnitude=True
        )
        slow, fast = channels, channels // CHANNEL_RATIO
        self.s1 = _Stem(slow, fast)
        self.s1_fuse = _Fusion(fast)
        for stage, depth in enumerate(DEPTHS, start=2):
            self.add_module(f"s{stage}", _Stage(stage, depth, slow=slow, fast=fast))
            if stage < 5:
                self.add_module(f"s{stage}_fuse", _Fusion(fast * 2**stage))
        self.head = nn.ModuleDict({"projection": nn.Linear(32 * (slow + fast), classes)})

    def spectrum(self, sound: Tensor) -> Tensor:
        """`(batch, 400, 128)`."""
        return torch.log(self._mel(sound[:, :CLIP]) + 1e-6).transpose(1, 2)

    def embed(self, spectrum: Tensor) -> Tensor:
        fast = spectrum[:, None]
        sparse = torch.linspace(0, SPECTRA - 1, SPECTRA // FRAME_RATIO, device=fast.device).long()
        slow, fast = self.s1(fast[:, :, sparse], fast)
        slow = self.s1_fuse(slow, fast)
        for stage in range(2, 6):
            slow, fast = self.get_submodule(f"s{stage}")(slow, fast)
            if stage < 5:
                slow = self.get_submodule(f"s{stage}_fuse")(slow, fast)
        return torch.cat([slow.mean(dim=(2, 3)), fast.mean(dim=(2, 3))], dim=1)[:, None]

    def classify(self, rows: Tensor) -> Tensor:
        return self.head["projection"](rows)

    def posteriors(self, logits: Tensor) -> Tensor:
        return torch.softmax(logits.double(), dim=-1)


class _Stem(nn.Module):
    def __init__(self, slow: int, fast: int) -> None:
        super().__init__()
        self.pathway0_stem = self._make_stem(slow, reach=1)
        self.pathway1_stem = self._make_stem(fast, reach=5)

    def forward(self, slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor]:
        return self._run_stem(self.pathway0_stem, slow), self._run_stem(self.pathway1_stem, fast)

    @staticmethod
    def _make_stem(out: int, *, reach: int) -> nn.ModuleDict:
        convolution = nn.Conv2d(1, out, (reach, 7), stride=2, padding=(reach // 2, 3), bias=False)
        return nn.ModuleDict({"conv": convolution, "bn": nn.BatchNorm2d(out)})

    @staticmethod
    def _run_stem(stem: nn.ModuleDict, maps: Tensor) -> Tensor:
        return F.max_pool2d(F.relu(stem["bn"](stem["conv"](maps))), 3, stride=2, padding=1)


class _Fusion(nn.Module):
    def __init__(self, fast: int) -> None:
        super().__init__()
        self.conv_f2s = nn.Conv2d(
            fast, FUSION_RATIO * fast, (7, 1), stride=(FRAME_RATIO, 1), padding=(3, 0), bias=False
        )
        self.bn = nn.BatchNorm2d(FUSION_RATIO * fast)

    def forward(self, slow: Tensor, fast: Tensor) -> Tensor:
        return torch.cat([slow, F.relu(self.bn(self.conv_f2s(fast)))], dim=1)


class _Stage(nn.Module):
    """The slow network convolves along time from stage four on."""

    def __init__(self, stage: int, depth: int, *, slow: int, fast: int) -> None:
        super().__init__()
        self._depth = depth
        stride = 1 if stage == 2 else 2
        inner = 2 ** (stage - 2)
        entry = 1 if stage == 2 else 2 ** (stage - 1)  # times the first channels, coming in
        for path, (channels, fused, reach) in enumerate(
            [(slow, FUSION_RATIO * fast, 3 if stage >= 4 else 1), (fast, 0, 3)]
        ):
            incoming = entry * (channels + fused)
            for number in range(depth):
                block = _Bottleneck(
                    incoming if number == 0 else 4 * inner * channels,
                    inner=inner * channels,
                    reach=reach,
                    stride=stride if number == 0 else 1,
                )
                self.add_module(f"pathway{path}_res{number}", block)

    def forward(self, slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor]:
        for number in range(self._depth):
            slow = self.get_submodule(f"pathway0_res{number}")(slow)
            fast = self.get_submodule(f"pathway1_res{number}")(fast)
        return slow, fast


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, *, inner: int, reach: int, stride: int) -> None:
        super().__init__()
        out = 4 * inner
        self._has_projection = channels != out or stride != 1
        if self._has_projection:
            self.branch1 = nn.Conv2d(channels, out, 1, stride=(1, stride), bias=False)
            self.branch1_bn = nn.BatchNorm2d(out)
        layers = {
            "a": nn.Conv2d(channels, inner, (reach, 1), padding=(reach // 2, 0), bias=False),
            "b": nn.Conv2d(inner, inner, (1, 3), (1, stride), padding=(0, 1), bias=False),
            "c": nn.Conv2d(inner, out, 1, bias=False),
        }
        norms = {f"{name}_bn": nn.BatchNorm2d(each.out_channels) for name, each in layers.items()}
        self.branch2 = nn.ModuleDict({**layers, **norms})

    def forward(self, maps: Tensor) -> Tensor:
        residual = maps
        for layer in ("a", "b"):
            residual = F.relu(self.branch2[f"{layer}_bn"](self.branch2[layer](residual)))
        residual = self.branch2["c_bn"](self.branch2["c"](residual))
        shortcut = self.branch1_bn(self.branch1(maps)) if self._has_projection else maps
        return F.relu(shortcut + residual)
