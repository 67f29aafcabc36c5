"""Spectra as the published models expect them: the same arithmetic, in the same order.

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
    """Power of short-time spectra, `(batch, size // 2 + 1, rows)`.

    Row `r` is centred on sample `r * hop`, and `taper` lies in the middle of its `size` samples;
    the ends are extended by half of that, by `reflect` or `constant` padding.
    """

    taper: Tensor

    def __init__(self, taper: Tensor, *, size: int, hop: int, padding: str = "reflect") -> None:
        super().__init__()
        self._size, self._hop, self._padding = size, hop, padding
        side = (size - len(taper)) // 2
        taper = F.pad(taper, (side, size - len(taper) - side))
        self.register_buffer("taper", taper, persistent=False)

    def forward(self, sound: Tensor) -> Tensor:
        """The power of `sound`, `(batch, samples)`."""
        side = self._size // 2
        sound = F.pad(sound[:, None, :], (side, side), mode=self._padding)[:, 0]
        return _power(sound.unfold(1, self._size, self._hop) * self.taper, self._size)


class KaldiSpectrum(nn.Module):
    """Power of short-time spectra as Kaldi takes them, `(batch, size // 2 + 1, rows)`.

    Row `r` begins at sample `r * hop`, and only whole stretches count. Each loses its mean, then
    `emphasis` times the sample before from every sample; the first stands in for the one before it.
    """

    taper: Tensor

    def __init__(self, length: int, *, size: int, hop: int, emphasis: float) -> None:
        super().__init__()
        self._size, self._hop, self._emphasis = size, hop, emphasis
        taper = hann(length, periodic=False).pow(0.85)  # Povey's
        self.register_buffer("taper", taper, persistent=False)

    def forward(self, sound: Tensor) -> Tensor:
        """The power of `sound`, `(batch, samples)`."""
        stretches = sound.unfold(1, len(self.taper), self._hop)
        stretches = stretches - stretches.mean(dim=2, keepdim=True)
        before = torch.cat([stretches[..., :1], stretches[..., :-1]], dim=2)
        return _power((stretches - self._emphasis * before) * self.taper, self._size)


class Bands(nn.Module):
    """Sums spectral bins into bands, `(batch, bands, rows)`."""

    weights: Tensor

    def __init__(self, weights: FloatArray) -> None:
        super().__init__()
        weights = np.ascontiguousarray(weights, dtype=np.float32)
        self.register_buffer("weights", torch.from_numpy(weights), persistent=False)

    def forward(self, spectra: Tensor) -> Tensor:
        """The bands of `spectra`, `(batch, bins, rows)`."""
        return self.weights @ spectra


def hann(length: int, *, periodic: bool = True) -> Tensor:
    """The raised cosine; periodic for analysis, symmetric as Kaldi has it.

    PyTorch's, to the last digit: quiet bins beside loud ones hang on it.
    """
    return torch.hann_window(length, periodic=periodic)


def kaldi_bands(bands: int, *, size: int, sample_rate: int, low: float, high: float) -> FloatArray:
    """Triangles that are straight on the mel scale, `(bands, size // 2 + 1)`.

    Mel as 1127 ln(1 + f / 700). The bin of half the sample rate weighs nothing. The lowest bands
    are narrower than a bin, so that their weights hang on the last digit: they are reckoned in
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


def _power(stretches: Tensor, size: int) -> Tensor:
    """Power of each of `stretches`, `(batch, rows, samples)`, with the bins before the rows."""
    spectra = torch.view_as_real(torch.fft.rfft(stretches, n=size))
    return (spectra * spectra).sum(dim=-1).transpose(1, 2)
