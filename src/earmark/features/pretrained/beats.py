"""BEATs (Chen et al., 2023) with its AudioSet-Strong head: the paper's encoder."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import remove_parametrizations

from earmark.features.pretrained.detector import PUBLISHED, StrongDetector, TransformerSize
from earmark.features.pretrained.spectrograms import KaldiSpectrum, kaldi_bands

BANDS = 128
PATCH = 16
"""Bands, and spectra, in one token."""
EMBEDDING = 512
MEAN, SPREAD = 15.41663, 6.55582
"""Of the log-mel energies the authors trained on."""
BUCKETS, MAX_DISTANCE = 320, 800
"""Buckets of relative positions and the largest distance: half of the buckets for each direction,
and half of those for exact distances."""
POSITION_KERNEL, POSITION_GROUPS = 128, 16
FULL_SCALE = 2.0**15
"""Kaldi counts 16-bit samples."""


class Beats(StrongDetector):
    """496 tokens: 62 patches of 160 ms, eight bands of 16 mels in each, averaged to 250 rows.

    The tokens of one moment follow each other, so a row averages about two neighbouring bands of
    one moment, not all bands of one. That is how the head was trained.
    """

    layers_path = "model.beats.encoder.layers"

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("beats", _BeatsTransformer(size), width=size.width, classes=classes)
        bands = kaldi_bands(BANDS, size=512, sample_rate=16_000, low=20.0, high=8_000.0)
        self._mel = KaldiSpectrum(400, bands, hop=160, emphasis=0.97)

    def prepare(self) -> None:
        """Fold the weight norm of the position kernel into its weights."""
        convolution = self.get_submodule("model.beats.encoder.pos_conv.0")
        remove_parametrizations(convolution, "weight")

    def spectrum(self, sound: Tensor) -> Tensor:
        """Kaldi's log-mel energies, normalised, `(batch, 998, 128)`."""
        energy = self._mel(sound * FULL_SCALE)
        least = torch.finfo(torch.float32).eps
        return ((torch.log(energy.clamp(min=least)) - MEAN) / (2 * SPREAD)).transpose(1, 2)


class _BeatsTransformer(nn.Module):
    """The patches and the transformer, by the names in the checkpoint."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(1, EMBEDDING, PATCH, stride=PATCH, bias=False)
        self.layer_norm = nn.LayerNorm(EMBEDDING)
        self.post_extract_proj = nn.Linear(EMBEDDING, size.width)
        self.encoder = _Encoder(size)

    def forward(self, spectrum: Tensor) -> Tensor:
        """Tokens, time before frequency, `(batch, 496, width)`."""
        patches = self.patch_embedding(spectrum[:, None]).flatten(2).transpose(1, 2)
        return self.encoder(self.post_extract_proj(self.layer_norm(patches)))


class _Encoder(nn.Module):
    """A positional convolution, then layers that share one table of relative positions."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        width = size.width
        convolution = nn.Conv1d(
            width,
            width,
            POSITION_KERNEL,
            padding=POSITION_KERNEL // 2,
            groups=min(POSITION_GROUPS, width),
        )
        self.pos_conv = nn.ModuleList([parametrizations.weight_norm(convolution, dim=2)])
        self.layer_norm = nn.LayerNorm(width)
        table = nn.Embedding(BUCKETS, size.heads)
        self.layers = nn.ModuleList(_Layer(size, table) for _ in range(size.layers))

    def forward(self, rows: Tensor) -> Tensor:
        placed = self.pos_conv[0](rows.transpose(1, 2))[..., :-1]  # the even kernel gives one more
        rows = self.layer_norm(rows + F.gelu(placed).transpose(1, 2))
        first = self.layers[0]
        assert isinstance(first, _Layer)
        bias = first.self_attn.positions(rows.shape[1])
        for layer in self.layers:
            rows = layer(rows, bias)
        return rows


class _Layer(nn.Module):
    """Attention and a feed-forward layer with DeepNorm: the shortcut outweighs the residual."""

    def __init__(self, size: TransformerSize, table: nn.Embedding) -> None:
        super().__init__()
        self._shortcut = (2 * size.layers) ** 0.25
        self.self_attn = _GatedAttention(size, table)
        self.self_attn_layer_norm = nn.LayerNorm(size.width)
        self.fc1 = nn.Linear(size.width, size.widening * size.width)
        self.fc2 = nn.Linear(size.widening * size.width, size.width)
        self.final_layer_norm = nn.LayerNorm(size.width)

    def forward(self, rows: Tensor, bias: Tensor) -> Tensor:
        rows = self.self_attn_layer_norm(rows * self._shortcut + self.self_attn(rows, bias))
        residual = self.fc2(F.gelu(self.fc1(rows)))
        return self.final_layer_norm(rows * self._shortcut + residual)


class _GatedAttention(nn.Module):
    """Attention with a relative position bias that each query gates."""

    def __init__(self, size: TransformerSize, table: nn.Embedding) -> None:
        super().__init__()
        self._heads = size.heads
        self.q_proj = nn.Linear(size.width, size.width)
        self.k_proj = nn.Linear(size.width, size.width)
        self.v_proj = nn.Linear(size.width, size.width)
        self.out_proj = nn.Linear(size.width, size.width)
        self.relative_attention_bias = table
        self.grep_linear = nn.Linear(size.width // size.heads, 8)
        self.grep_a = nn.Parameter(torch.ones(1, size.heads, 1, 1))

    def positions(self, count: int) -> Tensor:
        """The relative position bias, `(heads, count, count)`."""
        buckets = _buckets(count, self.grep_a.device)
        bias: Tensor = self.relative_attention_bias(buckets)
        return bias.permute(2, 0, 1)

    def forward(self, rows: Tensor, bias: Tensor) -> Tensor:
        """The attended rows, `(batch, rows, width)`; `bias` is the relative position bias."""
        batch, count, _ = rows.shape
        query, key, value = (
            projection(rows).reshape(batch, count, self._heads, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        shrunk = query / math.sqrt(query.shape[-1])  # before the product: half precision overflows
        likeness = shrunk @ key.transpose(2, 3)
        seen = torch.softmax(likeness + self._gate(query) * bias, dim=-1) @ value
        return self.out_proj(seen.transpose(1, 2).flatten(2))

    def _gate(self, query: Tensor) -> Tensor:
        """The gate of the position bias for each query, `(batch, heads, rows, 1)`."""
        halves = self.grep_linear(query).unflatten(-1, (2, 4)).sum(-1).sigmoid()
        update, reset = halves.chunk(2, dim=-1)
        return update * (reset * self.grep_a - 1.0) + 2.0


def _buckets(count: int, device: torch.device) -> Tensor:
    """The bucket of each pair's distance, `(count, count)`: exact if near, logarithmic beyond."""
    places = torch.arange(count, device=device)
    ahead = places[None, :] - places[:, None]
    each_way, exact = BUCKETS // 2, BUCKETS // 4
    distance = ahead.abs()
    beyond = torch.log(distance.clamp(min=1) / exact) / math.log(MAX_DISTANCE / exact)
    far = (exact + (beyond * (each_way - exact)).long()).clamp(max=each_way - 1)
    return (ahead > 0) * each_way + torch.where(distance < exact, distance, far)
