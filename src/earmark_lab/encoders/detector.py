from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.timeline import FloatArray

STEPS = 250
"""Ten seconds at 25 Hz."""


class Detector(nn.Module):
    """A model in three stages, which can be run separately and in different precision.

    sound (batch, samples) ─spectrum▶ ... ─embed▶ (batch, rows, width) ─classify▶ logits
    """

    def prepare(self) -> None: ...

    layers_path: ClassVar[str] = ""
    """Name of the submodule; empty without a transformer."""

    def drop_layers(self, count: int) -> None:
        layers = self.get_submodule(self.layers_path) if self.layers_path else nn.ModuleList()
        assert isinstance(layers, nn.Sequential | nn.ModuleList)
        kept = len(layers) - count
        if count and not 0 < kept < len(layers):
            name = type(self).__name__
            raise ValueError(f"cannot drop {count} of the {len(layers)} layers of {name}")
        del layers[kept:]

    @abstractmethod
    def spectrum(self, sound: Tensor) -> Tensor:
        """From `(batch, samples)`; always in full precision."""

    @abstractmethod
    def embed(self, spectrum: Tensor) -> Tensor:
        """`(batch, rows, width)`."""

    @abstractmethod
    def classify(self, rows: Tensor) -> Tensor:
        """`(batch, rows, classes)`."""

    def posteriors(self, logits: Tensor) -> Tensor:
        """In double precision: single has no numbers between 0.9999999 and 1."""
        return torch.sigmoid(logits.double())

    def forward(self, sound: Tensor) -> Tensor:
        return self.classify(self.embed(self.spectrum(sound)))


class StrongDetector(Detector):
    """With a head trained on AudioSet-Strong (Schmid et al., ICASSP 2025), which reads 250 rows.

    The network is called `model.<name>`, as in the checkpoints.
    """

    def __init__(self, name: str, network: nn.Module, *, width: int, classes: int = 447) -> None:
        super().__init__()
        self.model = nn.ModuleDict({name: network})
        self.strong_head = nn.Linear(width, classes)
        self._name = name

    def embed(self, spectrum: Tensor) -> Tensor:
        rows: Tensor = self.model[self._name](spectrum).transpose(1, 2)  # (batch, width, rows)
        if rows.shape[-1] > STEPS:
            rows = F.adaptive_avg_pool1d(rows, STEPS)
        elif rows.shape[-1] < STEPS:
            rows = F.interpolate(rows, size=STEPS, mode="linear")
        return rows.transpose(1, 2)

    def classify(self, rows: Tensor) -> Tensor:
        return self.strong_head(rows)


@dataclass(frozen=True, slots=True)
class TransformerSize:
    width: int = 768
    heads: int = 12
    layers: int = 12
    widening: int = 4
    """Relative to `width`."""


PUBLISHED = TransformerSize()

EPSILON = 1e-6


class Block(nn.Module):
    """Self-attention and a feed-forward layer, each after a layer norm."""

    def __init__(self, size: TransformerSize, *, qkv_bias: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=EPSILON)
        self.attn = Attention(size, qkv_bias=qkv_bias)
        self.norm2 = nn.LayerNorm(size.width, eps=EPSILON)
        wide = size.widening * size.width
        layers = {"fc1": nn.Linear(size.width, wide), "fc2": nn.Linear(wide, size.width)}
        self.mlp = nn.ModuleDict(layers)

    def forward(self, rows: Tensor) -> Tensor:
        rows = rows + self.attn(self.norm1(rows))
        return rows + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(rows))))


class Attention(nn.Module):
    def __init__(self, size: TransformerSize, *, qkv_bias: bool) -> None:
        super().__init__()
        self._heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=qkv_bias)
        self.proj = nn.Linear(size.width, size.width)

    def forward(self, rows: Tensor) -> Tensor:
        batch, count, width = rows.shape
        parts = self.qkv(rows).reshape(batch, count, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, rows, width / heads)
        seen = F.scaled_dot_product_attention(query, key, value)
        return self.proj(seen.transpose(1, 2).reshape(batch, count, width))


class PowerSpectrum(nn.Module):
    """Power of short-time spectra in bands, `(batch, bands, rows)`, with `weights` per bin.

    Row `r` is centred on sample `r * hop`, and `taper` is centred in the samples of one transform.
    With `is_magnitude` the root of the power is summed.
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
        side, margin = self._size // 2, (self._size - len(self.taper)) // 2
        taper = F.pad(self.taper, (margin, self._size - len(self.taper) - margin))
        sound = F.pad(sound[:, None, :], (side, side), mode=self._padding)[:, 0]
        return self._in_bands(sound.unfold(1, self._size, self._hop) * taper)

    def _in_bands(self, stretches: Tensor) -> Tensor:
        """From `(batch, rows, samples)` to `(batch, bands, rows)`."""
        spectra = torch.view_as_real(torch.fft.rfft(stretches, n=self._size))
        power = (spectra * spectra).sum(dim=-1).transpose(1, 2)
        return self.weights @ (power.sqrt() if self._is_magnitude else power)


class KaldiSpectrum(PowerSpectrum):
    """As Kaldi computes it: row `r` begins at sample `r * hop`.

    The mean is subtracted from each row, then `emphasis` times the previous sample from every
    sample; the first sample is its own predecessor.
    """

    def __init__(self, length: int, weights: FloatArray, *, hop: int, emphasis: float) -> None:
        super().__init__(
            torch.hann_window(length, periodic=False).pow(0.85), weights, hop=hop
        )  # Povey's
        self._emphasis = emphasis

    def forward(self, sound: Tensor) -> Tensor:
        stretches = sound.unfold(1, len(self.taper), self._hop)
        stretches = stretches - stretches.mean(dim=2, keepdim=True)
        before = torch.cat([stretches[..., :1], stretches[..., :-1]], dim=2)
        return self._in_bands((stretches - self._emphasis * before) * self.taper)


def kaldi_bands(bands: int, *, size: int, sample_rate: int, low: float, high: float) -> FloatArray:
    """Triangular, `(bands, size // 2 + 1)`, linear in mel: 1127 ln(1 + f / 700).

    The lowest bands depend on the last digit: computed in single precision and in this order, as
    the models were trained.
    """
    start, end = (1127.0 * math.log(1.0 + frequency / 700.0) for frequency in (low, high))
    step = (end - start) / (bands + 1)
    band = torch.arange(bands)[:, None]
    left, centre, right = (start + (band + side) * step for side in (0.0, 1.0, 2.0))
    bins = 1127.0 * (1.0 + sample_rate / size * torch.arange(size // 2) / 700.0).log()
    rising, falling = (bins - left) / (centre - left), (right - bins) / (right - centre)
    triangles = torch.minimum(rising, falling).clamp(min=0.0)
    return F.pad(triangles, (0, 1)).numpy()
