"""BEATs (Chen et al., 2023), the paper's encoder; ATST-Frame (Li, Shao, Li, 2024) and fPaSST.

fPaSST is PaSST (Koutini et al., 2022) with a token every 40 ms. All have AudioSet-Strong heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by
from torch.nn.utils import parametrizations
from torch.nn.utils.parametrize import remove_parametrizations

from earmark.features.spectrum import hertz_bands
from earmark.timeline import FloatArray
from earmark_lab.encoders.detector import STEPS, StrongDetector


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
        attended = F.scaled_dot_product_attention(query, key, value)
        return self.proj(attended.transpose(1, 2).reshape(batch, count, width))


BEATS_BANDS = 128
PATCH = 16
"""Bands, and spectra, in one token."""
EMBEDDING = 512
MEAN, SPREAD = 15.41663, 6.55582
"""Of the log-mel energies the authors trained on."""
BUCKETS, MAX_DISTANCE = 320, 800
"""Half of the buckets for each direction, and half of those for exact distances."""
POSITION_KERNEL, POSITION_GROUPS = 128, 16
FULL_SCALE = 2.0**15
"""Kaldi counts 16-bit samples."""


class Beats(StrongDetector):
    """496 tokens: 62 patches of 160 ms, eight bands of 16 mels in each, averaged to 250 rows.

    A row averages about two neighbouring bands of a moment, not all: the head was trained so.
    """

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("beats", _BeatsTransformer(size), width=size.width, classes=classes)
        bands = kaldi_bands(BEATS_BANDS, size=512, sample_rate=16_000, low=20.0, high=8_000.0)
        self._mel = KaldiSpectrum(400, bands, hop=160, emphasis=0.97)

    def prepare(self) -> None:
        convolution = self.get_submodule("model.beats.encoder.pos_conv.0")
        remove_parametrizations(convolution, "weight")

    def spectrum(self, sound: Tensor) -> Tensor:
        """Kaldi's log-mel energies, normalised, `(batch, 998, 128)`."""
        energy = self._mel(sound * FULL_SCALE)
        least = torch.finfo(torch.float32).eps
        return ((torch.log(energy.clamp(min=least)) - MEAN) / (2 * SPREAD)).transpose(1, 2)


class _BeatsTransformer(nn.Module):
    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.patch_embedding = nn.Conv2d(1, EMBEDDING, PATCH, stride=PATCH, bias=False)
        self.layer_norm = nn.LayerNorm(EMBEDDING)
        self.post_extract_proj = nn.Linear(EMBEDDING, size.width)
        self.encoder = _Encoder(size)

    def forward(self, spectrum: Tensor) -> Tensor:
        patches = self.patch_embedding(spectrum[:, None]).flatten(2).transpose(1, 2)
        return self.encoder(self.post_extract_proj(self.layer_norm(patches)))


class _Encoder(nn.Module):
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
    """DeepNorm: the shortcut outweighs the residual."""

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
        buckets = _buckets(count, self.grep_a.device)
        bias: Tensor = self.relative_attention_bias(buckets)
        return bias.permute(2, 0, 1)

    def forward(self, rows: Tensor, bias: Tensor) -> Tensor:
        batch, count, _ = rows.shape
        query, key, value = (
            projection(rows).reshape(batch, count, self._heads, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        shrunk = query / math.sqrt(query.shape[-1])  # before the product: half precision overflows
        likeness = shrunk @ key.transpose(2, 3)
        attended = torch.softmax(likeness + self._gate(query) * bias, dim=-1) @ value
        return self.out_proj(attended.transpose(1, 2).flatten(2))

    def _gate(self, query: Tensor) -> Tensor:
        halves = self.grep_linear(query).unflatten(-1, (2, 4)).sum(-1).sigmoid()
        update, reset = halves.chunk(2, dim=-1)
        return update * (reset * self.grep_a - 1.0) + 2.0


def _buckets(count: int, device: torch.device) -> Tensor:
    """Of each pair's distance, `(count, count)`: exact if near, logarithmic beyond."""
    positions = torch.arange(count, device=device)
    ahead = positions[None, :] - positions[:, None]
    each_way, exact = BUCKETS // 2, BUCKETS // 4
    distance = ahead.abs()
    beyond = torch.log(distance.clamp(min=1) / exact) / math.log(MAX_DISTANCE / exact)
    far = (exact + (beyond * (each_way - exact)).long()).clamp(max=each_way - 1)
    return (ahead > 0) * each_way + torch.where(distance < exact, distance, far)


ATST_BANDS = 64
SPECTRA = 4
"""In one token: 40 ms."""

RANGE_DB = (-79.6482, 50.6842)
"""The levels that become -1 and 1; the authors'."""

DEPTH_DB = 80.0
"""Levels further below the loudest of the chunk are raised to this."""


class AtstFrame(StrongDetector):
    """250 tokens of 40 ms, each all 64 mel bands of four spectra."""

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("atst", _FrameTransformer(size), width=size.width, classes=classes)
        bands = hertz_bands(
            ATST_BANDS, size=1024, sample_rate=16_000, low=60, high=7_800, slaney=False
        )
        self._mel = PowerSpectrum(torch.hann_window(1024), bands, hop=160)

    def spectrum(self, sound: Tensor) -> Tensor:
        """About -1..1, `(batch, 64, 1001)`.

        The authors' code looks for the loudest level in all chunks at once; here chunks are
        independent.
        """
        level = 10.0 * torch.log10(self._mel(sound).clamp(min=1e-10))
        floor = level.amax(dim=(1, 2), keepdim=True) - DEPTH_DB
        level = torch.maximum(level, floor).clamp(-50.0, 80.0)
        low, high = RANGE_DB
        return (level - low) / (high - low) * 2.0 - 1.0


class _FrameTransformer(nn.Module):
    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.mask_embed = nn.Parameter(torch.zeros(1, 1, size.width))  # of its pre-training
        self.pos_embed = nn.Parameter(torch.zeros(1, STEPS + 1, size.width))
        self.patch_embed = nn.ModuleDict(
            {"patch_embed": nn.Linear(ATST_BANDS * SPECTRA, size.width)}
        )
        self.blocks = nn.Sequential(*(Block(size, qkv_bias=False) for _ in range(size.layers)))
        self.norm_frame = nn.LayerNorm(size.width, eps=EPSILON)

    def forward(self, spectrum: Tensor) -> Tensor:
        batch, bands, spectra = spectrum.shape
        tokens = spectra // SPECTRA
        patches = spectrum[:, :, : tokens * SPECTRA].reshape(batch, bands, tokens, SPECTRA)
        patches = patches.transpose(1, 2).reshape(batch, tokens, bands * SPECTRA)
        rows = self.patch_embed["patch_embed"](patches)
        rows = rows + self.pos_embed[:, 1 : tokens + 1]  # place 0 was a class token's
        return self.norm_frame(self.blocks(rows))


PASST_BANDS = 128
EMPHASIS = 0.97


class EmphasisedLogMel(nn.Module):
    """`(batch, 128, 1000)` of ten seconds; for fPaSST and frame_mn."""

    def __init__(self, *, periodic: bool) -> None:
        super().__init__()
        bands = kaldi_bands(PASST_BANDS, size=512, sample_rate=16_000, low=0.0, high=7_000.0)
        self._mel = PowerSpectrum(torch.hann_window(400, periodic=periodic), bands, hop=160)

    def forward(self, sound: Tensor) -> Tensor:
        emphasised = sound[:, 1:] - EMPHASIS * sound[:, :-1]
        energy: Tensor = self._mel(emphasised)
        return (torch.log(energy.clamp(min=1e-7)) + 4.5) / 5.0


class FrequencyPasst(StrongDetector):
    """250 tokens of 40 ms, each over the whole spectrum after three convolutions."""

    def __init__(self, *, size: TransformerSize = PUBLISHED, classes: int = 447) -> None:
        super().__init__("fpasst", _FrequencyTransformer(size), width=size.width, classes=classes)
        self._mel = EmphasisedLogMel(periodic=True)

    def spectrum(self, sound: Tensor) -> Tensor:
        return self._mel(sound)


class _FrequencyTransformer(nn.Module):
    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        width = size.width
        self.conv_in_1 = nn.Conv2d(1, 16, 3, stride=2, padding=1)
        self.conv_in_2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv_in_3 = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.patch_embed = nn.ModuleDict(
            {"proj": nn.Conv2d(16, width, (PASST_BANDS, 2), padding=(0, 1))}
        )
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.dist_token = nn.Parameter(torch.zeros(1, 1, width))
        self.new_pos_embed = nn.Parameter(torch.zeros(1, 2, width))
        self.freq_new_pos_embed = nn.Parameter(torch.zeros(1, width, 1, 1))
        self.time_new_pos_embed = nn.Parameter(torch.zeros(1, width, 1, STEPS))
        self.blocks = nn.Sequential(*(Block(size, qkv_bias=True) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(width, eps=EPSILON)

    def forward(self, spectrum: Tensor) -> Tensor:
        """`(batch, 250, width)`, without the two tokens of the whole chunk."""
        maps = F.gelu(self.conv_in_1(spectrum[:, None]))
        maps = F.gelu(self.conv_in_2(maps))
        maps = F.gelu(self.conv_in_3(maps))  # (batch, 64, 32, 250)
        maps = maps.reshape(maps.shape[0], -1, PASST_BANDS, maps.shape[-1])  # (batch, 16, 128, 250)
        rows = self.patch_embed["proj"](maps)[..., 1:]  # (batch, width, 1, 250)
        rows = rows[..., :STEPS] + self.time_new_pos_embed[..., : rows.shape[-1]]
        rows = (rows + self.freq_new_pos_embed).flatten(2).transpose(1, 2)
        whole = torch.cat([self.cls_token, self.dist_token], dim=1) + self.new_pos_embed
        rows = torch.cat([whole.expand(rows.shape[0], -1, -1), rows], dim=1)
        return self.norm(self.blocks(rows))[:, 2:]
