"""The base of published models: from a chunk of sound to one row of class scores per step."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

STEPS = 250
"""Rows of a chunk of ten seconds at 25 Hz."""


class Detector(nn.Module):
    """A model in three stages, which can be run separately and in different precision.

    sound (batch, samples) ─spectrum▶ ... ─embed▶ (batch, rows, width) ─classify▶ logits
    """

    def prepare(self) -> None:
        """Prepare for inference after the weights are loaded."""

    layers_path: ClassVar[str] = ""
    """The submodule with the transformer's layers; empty if it has none."""

    def drop_layers(self, count: int) -> None:
        """Remove the last `count` layers of a transformer; `ValueError` if it has fewer or none."""
        layers = self.get_submodule(self.layers_path) if self.layers_path else nn.ModuleList()
        assert isinstance(layers, nn.Sequential | nn.ModuleList)
        kept = len(layers) - count
        if count and not 0 < kept < len(layers):
            name = type(self).__name__
            raise ValueError(f"cannot drop {count} of the {len(layers)} layers of {name}")
        del layers[kept:]

    @abstractmethod
    def spectrum(self, sound: Tensor) -> Tensor:
        """The network's input from `sound`, `(batch, samples)`; always in full precision."""

    @abstractmethod
    def embed(self, spectrum: Tensor) -> Tensor:
        """One vector per row, `(batch, rows, width)`."""

    @abstractmethod
    def classify(self, rows: Tensor) -> Tensor:
        """Logits, `(batch, rows, classes)`."""

    def posteriors(self, logits: Tensor) -> Tensor:
        """The probability of each class; classes are independent.

        In double precision: single precision has no numbers between 0.9999999 and 1.
        """
        return torch.sigmoid(logits.double())

    def forward(self, sound: Tensor) -> Tensor:
        """Logits of `sound`, `(batch, rows, classes)`."""
        return self.classify(self.embed(self.spectrum(sound)))


class StrongDetector(Detector):
    """A network with the head that was trained on AudioSet-Strong (Schmid et al., ICASSP 2025).

    The network is called `model.<name>`, as in the checkpoints. The head reads 250 rows: more rows
    are averaged, fewer are interpolated linearly.
    """

    def __init__(self, name: str, network: nn.Module, *, width: int, classes: int = 447) -> None:
        super().__init__()
        self.model = nn.ModuleDict({name: network})
        self.strong_head = nn.Linear(width, classes)
        self._name = name

    def embed(self, spectrum: Tensor) -> Tensor:
        """One vector per step of ten seconds, `(batch, 250, width)`."""
        rows: Tensor = self.model[self._name](spectrum).transpose(1, 2)  # (batch, width, rows)
        if rows.shape[-1] > STEPS:
            rows = F.adaptive_avg_pool1d(rows, STEPS)
        elif rows.shape[-1] < STEPS:
            rows = F.interpolate(rows, size=STEPS, mode="linear")
        return rows.transpose(1, 2)

    def classify(self, rows: Tensor) -> Tensor:
        """Logits of the AudioSet-Strong classes."""
        return self.strong_head(rows)


@dataclass(frozen=True, slots=True)
class TransformerSize:
    """The size of a transformer."""

    width: int = 768
    heads: int = 12
    layers: int = 12
    widening: int = 4
    """Width of the feed-forward layers relative to `width`."""


PUBLISHED = TransformerSize()
"""The size of all published models."""

EPSILON = 1e-6
"""Of the layer norms."""


class Block(nn.Module):
    """Self-attention, then a feed-forward layer, each with a layer norm before and a shortcut."""

    def __init__(self, size: TransformerSize, *, qkv_bias: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=EPSILON)
        self.attn = Attention(size, qkv_bias=qkv_bias)
        self.norm2 = nn.LayerNorm(size.width, eps=EPSILON)
        wide = size.widening * size.width
        layers = {"fc1": nn.Linear(size.width, wide), "fc2": nn.Linear(wide, size.width)}
        self.mlp = nn.ModuleDict(layers)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of the same shape, `(batch, rows, width)`."""
        rows = rows + self.attn(self.norm1(rows))
        return rows + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(rows))))


class Attention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, size: TransformerSize, *, qkv_bias: bool) -> None:
        super().__init__()
        self._heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=qkv_bias)
        self.proj = nn.Linear(size.width, size.width)

    def forward(self, rows: Tensor) -> Tensor:
        """The attended rows, `(batch, rows, width)`."""
        batch, count, width = rows.shape
        parts = self.qkv(rows).reshape(batch, count, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, rows, width / heads)
        seen = F.scaled_dot_product_attention(query, key, value)
        return self.proj(seen.transpose(1, 2).reshape(batch, count, width))
