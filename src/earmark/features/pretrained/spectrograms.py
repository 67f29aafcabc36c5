"""Spectra as the published models expect them, with the same arithmetic in the same order.

PyTorch's Hann window is used to the last digit: quiet bins beside loud ones depend on it.

sound (batch, samples) ──▶ power (batch, bins, rows) ──▶ bands (batch, bands, rows)
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.timeline import FloatArray


class PowerSpectrum(nn.Module):
    """Power of short-time spectra in bands, `(batch, bands, rows)`, with `weights` per bin.

    Row `r` is centred on sample `r * hop`, and `taper` is centred in the samples of one transform;
    the ends are padded by half a transform, by `reflect` or `constant` padding. With
    `is_magnitude` the root of the power is summed.
    """

    taper: Tensor
    weights: Tensor

    def __init__(
        self,
        taper: Tensor,
        weights: FloatArray,
        *,
        hop: int,
        padding: str = "reflect",
        is_magnitude: bool = False,
    ) -> None:
        super().__init__()
        self._hop, self._padding, self._is_magnitude = hop, padding, is_magnitude
        weights = np.ascontiguousarray(weights, dtype=np.float32)  # (bands, size // 2 + 1)
        self._size = 2 * (weights.shape[1] - 1)
        self.register_buffer("taper", taper, persistent=False)
        self.register_buffer("weights", torch.from_numpy(weights), persistent=False)

    def forward(self, sound: Tensor) -> Tensor:
        """The bands of `sound`, `(batch, samples)`."""
        side, margin = self._size // 2, (self._size - len(self.taper)) // 2
        taper = F.pad(self.taper, (margin, self._size - len(self.taper) - margin))
        sound = F.pad(sound[:, None, :], (side, side), mode=self._padding)[:, 0]
        return self._in_bands(sound.unfold(1, self._size, self._hop) * taper)

    def _in_bands(self, stretches: Tensor) -> Tensor:
        """The bands of each of `stretches`, `(batch, rows, samples)`, as `(batch, bands, rows)`."""
        spectra = torch.view_as_real(torch.fft.rfft(stretches, n=self._size))
        power = (spectra * spectra).sum(dim=-1).transpose(1, 2)
        return self.weights @ (power.sqrt() if self._is_magnitude else power)


class KaldiSpectrum(PowerSpectrum):
    """Power of short-time spectra in bands as Kaldi computes it, `(batch, bands, rows)`.

    Row `r` begins at sample `r * hop`; an incomplete last row is left out. The mean is subtracted
    from each row, then `emphasis` times the previous sample from every sample; the first sample
    is its own predecessor.
    """

    def __init__(self, length: int, weights: FloatArray, *, hop: int, emphasis: float) -> None:
        super().__init__(
            torch.hann_window(length, periodic=False).pow(0.85), weights, hop=hop
        )  # Povey's
        self._emphasis = emphasis

    def forward(self, sound: Tensor) -> Tensor:
        """The bands of `sound`, `(batch, samples)`."""
        stretches = sound.unfold(1, len(self.taper), self._hop)
        stretches = stretches - stretches.mean(dim=2, keepdim=True)
        before = torch.cat([stretches[..., :1], stretches[..., :-1]], dim=2)
        return self._in_bands((stretches - self._emphasis * before) * self.taper)


def kaldi_bands(bands: int, *, size: int, sample_rate: int, low: float, high: float) -> FloatArray:
    """Triangular bands that are linear in mel, `(bands, size // 2 + 1)`.

    Mel is 1127 ln(1 + f / 700). The bin of half the sample rate has weight 0. The lowest bands are
    narrower than a bin, so that their weights depend on the last digit: they are computed in
    single precision and in this order, as the models were trained.
    """
    start, end = (1127.0 * math.log(1.0 + frequency / 700.0) for frequency in (low, high))
    step = (end - start) / (bands + 1)
    band = torch.arange(bands)[:, None]
    left, centre, right = (start + (band + side) * step for side in (0.0, 1.0, 2.0))
    bins = 1127.0 * (1.0 + sample_rate / size * torch.arange(size // 2) / 700.0).log()
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return F.pad(triangles, (0, 1)).numpy()
