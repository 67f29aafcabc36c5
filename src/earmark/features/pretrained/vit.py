"""The transformer block that ATST-Frame and fPaSST share, by the names in their checkpoints."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from earmark.features.pretrained.detector import Transformer

EPSILON = 1e-6
"""Of the layer norms."""


class Block(nn.Module):
    """Attention, then a feed-forward layer, each behind a layer norm and beside a shortcut."""

    def __init__(self, size: Transformer, *, qkv_bias: bool) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(size.width, eps=EPSILON)
        self.attn = Attention(size, qkv_bias=qkv_bias)
        self.norm2 = nn.LayerNorm(size.width, eps=EPSILON)
        self.mlp = FeedForward(size)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of the same shape, `(batch, rows, width)`."""
        rows = rows + self.attn(self.norm1(rows))
        return rows + self.mlp(self.norm2(rows))


class Attention(nn.Module):
    """Every row looks at every row."""

    def __init__(self, size: Transformer, *, qkv_bias: bool) -> None:
        super().__init__()
        self._heads = size.heads
        self.qkv = nn.Linear(size.width, 3 * size.width, bias=qkv_bias)
        self.proj = nn.Linear(size.width, size.width)

    def forward(self, rows: Tensor) -> Tensor:
        """What each row saw, `(batch, rows, width)`."""
        batch, count, width = rows.shape
        parts = self.qkv(rows).reshape(batch, count, 3, self._heads, width // self._heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (batch, heads, rows, width / heads)
        seen = F.scaled_dot_product_attention(query, key, value)
        return self.proj(seen.transpose(1, 2).reshape(batch, count, width))


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, size: Transformer) -> None:
        super().__init__()
        self.fc1 = nn.Linear(size.width, size.widening * size.width)
        self.fc2 = nn.Linear(size.widening * size.width, size.width)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of the same shape."""
        return self.fc2(F.gelu(self.fc1(rows)))
