"""fPaSST: PaSST (Koutini et al., 2022) with a token every 40 ms and an AudioSet-Strong head."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.features.pretrained.detector import (
    EPSILON,
    PUBLISHED,
    STEPS,
    Block,
    StrongDetector,
    TransformerSize,
)
from earmark.features.pretrained.spectrograms import PowerSpectrum, kaldi_bands

BANDS = 128
EMPHASIS = 0.97


class EmphasisedLogMel(nn.Module):
    """The log-mel spectrum that fPaSST and frame_mn read, `(batch, 128, 1000)` of ten seconds."""

    def __init__(self, *, periodic: bool) -> None:
        super().__init__()
        bands = kaldi_bands(BANDS, size=512, sample_rate=16_000, low=0.0, high=7_000.0)
        self._mel = PowerSpectrum(torch.hann_window(400, periodic=periodic), bands, hop=160)

    def forward(self, sound: Tensor) -> Tensor:
        """Natural-log energies, shifted and scaled to about -1..1."""
        emphasised = sound[:, 1:] - EMPHASIS * sound[:, :-1]
        energy: Tensor = self._mel(emphasised)
        return (torch.log(energy.clamp(min=1e-7)) + 4.5) / 5.0


class FrequencyPasst(StrongDetector):
    """250 tokens of 40 ms, each over the whole spectrum after three convolutions."""

    layers_path = "model.fpasst.blocks"

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("fpasst", _FrequencyTransformer(size), width=size.width, classes=classes)
        self._mel = EmphasisedLogMel(periodic=True)

    def spectrum(self, sound: Tensor) -> Tensor:
        """The log-mel spectrum, `(batch, 128, 1000)`."""
        return self._mel(sound)


class _FrequencyTransformer(nn.Module):
    """Three convolutions and the transformer, by the names in the checkpoint."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        width = size.width
        self.conv_in_1 = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.conv_in_2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv_in_3 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(16, width, (BANDS, 2), padding=(0, 1))})
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, width))
        self.new_pos_embed = nn.Parameter(torch.zeros(1, 2, width))
        self.freq_new_pos_embed = nn.Parameter(torch.zeros(1, width, 1, 1))
        self.time_new_pos_embed = nn.Parameter(torch.zeros(1, width, 1, STEPS))
        self.blocks = nn.Sequential(*(Block(size, qkv_bias=True) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Tokens, `(batch, 250, width)`, without the two tokens of the whole chunk."""
        maps = F.gelu(self.conv_in_1(spectrum[:, None]))
        maps = F.gelu(self.conv_in_2(maps))
        maps = F.gelu(self.conv_in_3(maps))  # (batch, 64, 32, 250)
        maps = maps.reshape(maps.shape[0], -1, BANDS, maps.shape[-1])  # (batch, 16, 128, 250)
        rows = self.patch_embed["proj"](maps)[..., 1:]  # (batch, width, 1, 250)
        rows = rows[..., :STEPS] + self.time_new_pos_embed[..., : rows.shape[-1]]
        rows = (rows + self.freq_new_pos_embed).flatten(2).transpose(1, 2)
        whole = torch.cat([self.cls_token, self.dist_token], dim=1) + self.new_pos_embed
        rows = torch.cat([whole.expand(rows.shape[0], -1, -1), rows], dim=1)
        return self.norm(self.blocks(rows))[:, 2:]
