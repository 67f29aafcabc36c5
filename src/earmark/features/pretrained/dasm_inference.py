"""DASM inference as its authors do it, around their own network and text encoder.

    network = DASM_HTSAT(...)                  # theirs, with their weights, in eval mode
    def embed(words): ...                      # theirs: MGA-CLAP's embeddings, (words, width)
    encoder = QueryEncoder(queries="kitchen.txt", model=DasmModel(network, embed, name="text"))

Neither is part of earmark: the weights have no licence. Here is the code around them. Each query
is phrased as `sound of …`; the base queries of the training stand before the new ones, and a new
query attends to those and to itself, never to another new one, so that other queries do not change
its answer. Posteriors past the end of the sound are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from earmark.errors import ModelMismatch
from earmark.models import require
from earmark.timeline import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

PROMPT = "sound of "
"""The prefix of a query, which is in lower case."""

TEMPERATURE = 0.5
"""Divisor of the logits of frames; the authors'."""

QUERY_TYPES = ("text", "audio")
"""Types of queries, in the order of the network's base queries."""


@dataclass(frozen=True, slots=True)
class DasmModel:
    """The authors' network with a text encoder, called as in their own inference."""

    network: Any = field(repr=False)
    """Called with `input`, `temp_w`, `pad_mask`, `query`, `query_type`, `tgt_mask`; has `at_query`,
    the base queries of one kind or of both, and `get_feature_extractor()`."""
    embed: Callable[[Sequence[str]], Any] = field(repr=False)
    """Words to embeddings, `(words, width)`, on the network's device."""
    name: str
    """Identifies the weights; part of the key of cached features."""
    query_type: Literal["text", "audio"] = "text"
    temperature: float = TEMPERATURE
    sample_rate: int = 32_000

    def __call__(self, sound: FloatArray, queries: tuple[str, ...], /) -> FloatArray:
        """Posteriors, `(chunks, queries, rows)`, of `(chunks, samples)`."""
        require("torch", what="DASM")
        import torch

        with torch.inference_mode():
            asked = self.embed([f"{PROMPT}{query.lower()}" for query in queries])
            asked = torch.nn.functional.normalize(asked, dim=-1)
            base = self._base()
            every = torch.cat([base.to(asked), asked])
            spectra = self.network.get_feature_extractor()(torch.from_numpy(sound).to(asked.device))
            heard, *_ = self.network(
                input=spectra,
                temp_w=self.temperature,
                pad_mask=None,
                query=every,
                query_type=self.query_type,
                tgt_mask=query_mask(len(base), len(asked)).to(asked.device),
            )
        answer: FloatArray = heard[:, len(base) :].cpu().numpy()
        return zero_padding_rows(answer, sound)

    def _base(self) -> Tensor:
        """The base queries, of this type if the network has both."""
        held = self.network.at_query
        if hasattr(held, "shape"):
            return held
        if self.query_type not in QUERY_TYPES[: len(held)]:
            raise ModelMismatch(f"this DASM has no base queries of the kind {self.query_type!r}")
        found: Tensor = held[QUERY_TYPES.index(self.query_type)]
        return found


def query_mask(base: int, asked: int) -> Tensor:
    """The attention mask of queries, True where masked: all attend to the base and themselves.

    base 2, asked 2      . . x x      a base query attends to the base queries,
                         . . x x
                         . . . x      a new one to these and itself
                         . . x .
    """
    import torch

    size = base + asked
    mask = torch.ones(size, size, dtype=torch.bool)
    mask[:, :base] = False
    mask.fill_diagonal_(False)
    return mask


def zero_padding_rows(answer: FloatArray, sound: FloatArray) -> FloatArray:
    """`answer` with 0 in the rows that lie wholly past the last nonzero sample of each chunk."""
    silent = answer.copy()
    rows = answer.shape[2]
    for place, samples in enumerate(sound):
        loud = np.flatnonzero(samples)
        length = int(loud[-1]) + 1 if len(loud) else 0
        silent[place, :, int(np.ceil(rows * length / len(samples))) :] = 0.0
    return silent
