"""DASM as its authors run it, around their own network and text encoder, as a model of queries.

    network = DASM_HTSAT(...)                  # theirs, with their weights, in eval mode
    def embed(words): ...                      # theirs: MGA-CLAP's embeddings, (words, width)
    encoder = QueryEncoder(queries="kitchen.txt", model=DasmModel(network, embed, name="text"))

Neither is in this tree: the weights come without a licence. What is here is what happens around
them. Each query is asked for as `sound of …`; the base queries the network was trained with stand
before the new ones, and a new query sees those and itself, never another new one, so that what is
asked beside it does not change its answer. Frames past the end of the sound are silent.
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
"""What a query is put after, in lower case."""

TEMPERATURE = 0.5
"""That logits of frames are divided by; the authors'."""

QUERY_TYPES = ("text", "audio")
"""Of queries, in the order the network holds their base queries in."""


@dataclass(frozen=True, slots=True)
class DasmModel:
    """The authors' network with a text encoder, asked as in their own inference."""

    network: Any = field(repr=False)
    """Called with `input`, `temp_w`, `pad_mask`, `query`, `query_type`, `tgt_mask`; has `at_query`,
    the base queries of one kind or of both, and `get_feature_extractor()`."""
    embed: Callable[[Sequence[str]], Any] = field(repr=False)
    """Words to embeddings, `(words, width)`, on the network's device."""
    name: str
    """Tells it from other weights: what was heard is kept under it."""
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
        """The base queries, those of this kind where the network has both."""
        held = self.network.at_query
        if hasattr(held, "shape"):
            return held
        if self.query_type not in QUERY_TYPES[: len(held)]:
            raise ModelMismatch(f"this DASM has no base queries of the kind {self.query_type!r}")
        found: Tensor = held[QUERY_TYPES.index(self.query_type)]
        return found


def query_mask(base: int, asked: int) -> Tensor:
    """The attention between queries, True where it is barred: all see the base and themselves.

    base 2, asked 2      . . x x      a base query sees the base queries,
                         . . x x
                         . . . x      a new one these and itself
                         . . x .
    """
    import torch

    size = base + asked
    mask = torch.ones(size, size, dtype=torch.bool)
    mask[:, :base] = False
    mask.fill_diagonal_(False)
    return mask


def zero_padding_rows(answer: FloatArray, sound: FloatArray) -> FloatArray:
    """`answer` with 0 in the rows that lie wholly past the last sample of each chunk."""
    silent = answer.copy()
    rows = answer.shape[2]
    for place, samples in enumerate(sound):
        loud = np.flatnonzero(samples)
        length = int(loud[-1]) + 1 if len(loud) else 0
        silent[place, :, int(np.ceil(rows * length / len(samples))) :] = 0.0
    return silent
