"""Auditory SlowFast (Kazakos et al., 2021) with the 44 classes of EPIC-SOUNDS.

Two networks read one spectrogram: the slow one every fourth spectrum with many channels, the fast
one all of them with few. At every stage the maps of the fast one are fused into the slow one.
One clip of two seconds gives one row.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.features.pretrained.detector import Detector
from earmark.features.pretrained.spectrograms import PowerSpectrum
from earmark.features.spectrum import hertz_bands

SAMPLE_RATE = 24_000
CLIP = 47_975
"""Samples of one clip: 1.999 s, less one as the authors cut it; 400 spectra."""
SPECTRA = 400
FRAME_RATIO = 4
"""Spectra of the fast network per spectrum of the slow one."""
CHANNEL_RATIO = 8
"""Channels of the slow network per channel of the fast one."""
FUSION_RATIO = 2
"""Channels of a fusion per channel of the fast network at that stage."""
DEPTHS = (3, 4, 6, 3)
"""Blocks in the four stages: a ResNet-50."""


class SlowFast(Detector):
    """One row per clip, `(batch, 1, classes)`; the classes exclude each other."""

    def __init__(self, *, channels: int = 64, classes: int = 44) -> None:
        super().__init__()
        bands = hertz_bands(
            128, size=2048, sample_rate=SAMPLE_RATE, low=0, high=12_000, slaney=False
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
        """Log-mel magnitudes of each clip, `(batch, 400, 128)`."""
        return torch.log(self._mel(sound[:, :CLIP]) + 1e-6).transpose(1, 2)

    def embed(self, spectrum: Tensor) -> Tensor:
        """One vector per clip, `(batch, 1, width)`."""
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
        """Logits of the EPIC-SOUNDS classes."""
        return self.head["projection"](rows)

    def posteriors(self, logits: Tensor) -> Tensor:
        """The probability of each class, in double precision; they sum to 1."""
        return torch.softmax(logits.double(), dim=-1)


class _Stem(nn.Module):
    """The first convolution of both networks; a quarter of the spectra and bands remain."""

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
    """Concatenates the fast network's maps, at the slow rate, with those of the slow network."""

    def __init__(self, fast: int) -> None:
        super().__init__()
        self.conv_f2s = nn.Conv2d(
            fast, FUSION_RATIO * fast, (7, 1), stride=(FRAME_RATIO, 1), padding=(3, 0), bias=False
        )
        self.bn = nn.BatchNorm2d(FUSION_RATIO * fast)

    def forward(self, slow: Tensor, fast: Tensor) -> Tensor:
        """The slow network's maps, followed by the fused ones."""
        return torch.cat([slow, F.relu(self.bn(self.conv_f2s(fast)))], dim=1)


class _Stage(nn.Module):
    """Residual blocks of both networks; the slow one convolves along time from stage four on."""

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
            for place in range(depth):
                block = _Bottleneck(
                    incoming if place == 0 else 4 * inner * channels,
                    inner=inner * channels,
                    reach=reach,
                    stride=stride if place == 0 else 1,
                )
                self.add_module(f"pathway{path}_res{place}", block)

    def forward(self, slow: Tensor, fast: Tensor) -> tuple[Tensor, Tensor]:
        for place in range(self._depth):
            slow = self.get_submodule(f"pathway0_res{place}")(slow)
            fast = self.get_submodule(f"pathway1_res{place}")(fast)
        return slow, fast


class _Bottleneck(nn.Module):
    """A bottleneck: narrow and convolve along time, convolve along frequency, widen."""

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
        """Maps of four times the inner channels."""
        residual = maps
        for layer in ("a", "b"):
            residual = F.relu(self.branch2[f"{layer}_bn"](self.branch2[layer](residual)))
        residual = self.branch2["c_bn"](self.branch2["c"](residual))
        shortcut = self.branch1_bn(self.branch1(maps)) if self._has_projection else maps
        return F.relu(shortcut + residual)
