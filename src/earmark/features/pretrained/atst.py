"""ATST-Frame (Li, Shao, Li, 2024) with its AudioSet-Strong head."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from earmark.features.pretrained.detector import (
    EPSILON,
    PUBLISHED,
    STEPS,
    Block,
    StrongDetector,
    TransformerSize,
)
from earmark.features.pretrained.spectrograms import PowerSpectrum
from earmark.features.spectrum import hertz_bands

BANDS = 64
SPECTRA = 4
"""Spectra in one token: 40 ms."""

RANGE_DB = (-79.6482, 50.6842)
"""The levels that become -1 and 1; from the authors' training data."""

DEPTH_DB = 80.0
"""Range of levels in dB; those further below the loudest of the chunk are raised to this."""


class AtstFrame(StrongDetector):
    """250 tokens of 40 ms, each all 64 mel bands of four spectra."""

    layers_path = "model.atst.blocks"

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("atst", _FrameTransformer(size), width=size.width, classes=classes)
        bands = hertz_bands(BANDS, size=1024, sample_rate=16_000, low=60, high=7_800, slaney=False)
        self._mel = PowerSpectrum(torch.hann_window(1024), bands, hop=160)

    def spectrum(self, sound: Tensor) -> Tensor:
        """Log-mel levels brought to about -1..1, `(batch, 64, 1001)`.

        The loudest level is looked for in each chunk by itself; the authors' code, given several
        chunks at once, looks in all of them, so that chunks would change with their neighbours.
        """
        level = 10.0 * torch.log10(self._mel(sound).clamp(min=1e-10))
        floor = level.amax(dim=(1, 2), keepdim=True) - DEPTH_DB
        level = torch.maximum(level, floor).clamp(-50.0, 80.0)
        low, high = RANGE_DB
        return (level - low) / (high - low) * 2.0 - 1.0


class _FrameTransformer(nn.Module):
    """The transformer, by the names in the checkpoint."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.mask_embed = nn.Parameter(torch.zeros(1, 1, size.width))  # of its pre-training
        self.pos_embed = nn.Parameter(torch.zeros(1, STEPS + 1, size.width))
        self.patch_embed = nn.ModuleDict({"patch_embed": nn.Linear(BANDS * SPECTRA, size.width)})
        self.blocks = nn.Sequential(*(Block(size, qkv_bias=False) for _ in range(size.layers)))
        self.norm_frame = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Tokens, `(batch, 250, width)`."""
        batch, bands, spectra = spectrum.shape
        tokens = spectra // SPECTRA
        patches = spectrum[:, :, : tokens * SPECTRA].reshape(batch, bands, tokens, SPECTRA)
        patches = patches.transpose(1, 2).reshape(batch, tokens, bands * SPECTRA)
        rows = self.patch_embed["patch_embed"](patches)
        rows = rows + self.pos_embed[:, 1 : tokens + 1]  # place 0 was a class token's
        return self.norm_frame(self.blocks(rows))
