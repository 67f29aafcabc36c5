"""Encoders whose network reads overlapping chunks, averaged onto the 25 Hz clock.

sound    ├────────────────────────────────────────┤
chunk 0  ├──────────────────┤                          10 s
chunk 1            ├──────────────────┤                5 s later
chunk 2                      ├──────────────────┤
rows     │ 0       │ (0+1)/2 │ (1+2)/2 │ 2      ┊       each moment once
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.pretrained.network import Network
from earmark.features.sound_tags import SoundTagger
from earmark.media import Sound
from earmark.models.catalogue import TEN_SECONDS, Layout
from earmark.timeline import CLOCK_RATE, FloatArray, Track

POSTERIOR_MARGIN = 1e-7
"""Posteriors are clipped to this distance from 0 and 1, so that logits are within ±16.2."""

ChunkModel = Callable[[FloatArray], FloatArray]
"""`(chunks, samples)` to `(chunks, rows, values)`."""


class ChunkEncoder(SoundTagger):
    """An encoder over a network that reads chunks; rows do not depend on the batch size.

    `reads` chooses the features:

    - `logits`: the posteriors in logit space, as read by the paper's gate, without a threshold.
      Most classes are nearly always absent, so that values are around -10; a gate normalises
      them with statistics of its training recordings.
    - `activity`: the highest posterior of any included class, for use without a gate.
    - `embeddings`: the input of the network's head, for a gate that trains its own.
    """

    __slots__ = ()

    name: str
    """In the catalogue."""
    expects: str | None
    batch: int = 4

    @property
    def layout(self) -> Layout:
        """The layout of its chunks on the clock."""
        return TEN_SECONDS

    @abstractmethod
    def network(self) -> Network:
        """The network, opened once per process.

        `ModelMissing` without weights in the model store, `ModelMismatch` if the file is not of
        this model, `MissingExtra` if it needs PyTorch and this is not installed.
        """

    @property
    def channels(self) -> int:
        """Values in each row of features."""
        return 1 if self.reads == "activity" else len(self.classes)

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        """The features of `sound`, whose blocks follow each other from time 0.

        `ModelMismatch` if its gate was trained on other weights.
        """
        network = self.network()
        if self.expects not in (None, network.source):
            raise ModelMismatch(self._weights_mismatch(network.source))
        heard = encode_in_chunks(
            sound, network, layout=self.layout, sample_rate=self.sample_rate, batch=self.batch
        )
        return (Track(self._features(rows), start=first / CLOCK_RATE) for rows, first in heard)

    def fingerprint(self) -> str:
        """SHA-256 of the checkpoint, to store in a gate; an exported model has its checkpoint's."""
        return self.network().source

    def _features(self, rows: FloatArray) -> FloatArray:
        if self.reads == "activity":
            return self._activity(rows)
        return logit(rows) if self.reads == "logits" else rows

    def _weights_mismatch(self, found: str) -> str:
        return (
            f"this gate was trained on another {self.name}: sha256 {(self.expects or '')[:12]}… "
            f"instead of {found[:12]}…; name its checkpoint with `:weights=FILE`"
        )


def logit(posteriors: FloatArray) -> FloatArray:
    """`log(p / (1 - p))`, within 16.2 of 0."""
    sure = np.clip(posteriors, POSTERIOR_MARGIN, 1.0 - POSTERIOR_MARGIN).astype(np.float64)
    return (np.log(sure) - np.log1p(-sure)).astype(np.float32)


def encode_in_chunks(
    sound: Iterable[Sound], model: ChunkModel, *, layout: Layout, sample_rate: int, batch: int
) -> Iterator[tuple[FloatArray, int]]:
    """Rows on the clock and the number of the first, in order and without gaps.

    Memory holds `batch` chunks, however long the sound is. Beyond its ends are zeros.
    """
    chunks = _Chunks(sound, layout, step=sample_rate // CLOCK_RATE)
    taken = iter(chunks)
    batches = iter(lambda: list(islice(taken, batch)), [])
    heard = (values for some in batches for values in model(np.stack(some)))
    first = 0
    for averaged in _average(heard, layout):
        rows = averaged[: chunks.steps - first] if chunks.steps else averaged
        if len(rows):
            yield rows, first
        first += len(rows)


class _Chunks:
    """The chunks of `sound`, and after iterating, the number of its steps."""

    def __init__(self, sound: Iterable[Sound], layout: Layout, *, step: int) -> None:
        self._sound, self._layout, self._step = sound, layout, step
        self.steps = 0
        """0 until the sound has ended; no chunk before that extends past the end."""

    def __iter__(self) -> Iterator[FloatArray]:
        layout, step = self._layout, self._step
        size, hop = layout.chunk * step, layout.hop * step
        kept = np.zeros(layout.lead * step, dtype=np.float32)
        samples = count = 0
        for block in self._sound:
            if block.sample_rate != step * CLOCK_RATE:
                rate = step * CLOCK_RATE
                raise ValueError(
                    f"this model hears {rate} samples a second, not {block.sample_rate}"
                )
            samples += len(block)
            kept = np.concatenate([kept, block.values])
            while len(kept) >= size:
                yield kept[:size]
                kept, count = kept[hop:], count + 1
        self.steps = -(-samples // step)
        while self.steps and (count == 0 or (count - 1) * layout.hop + layout.rows < self.steps):
            yield np.pad(kept[:size], (0, max(0, size - len(kept))))
            kept, count = kept[hop:], count + 1


def _average(heard: Iterable[FloatArray], layout: Layout) -> Iterator[FloatArray]:
    """The mean rows of overlapping chunks: up to each next chunk, then the rest of the last."""
    total: FloatArray = np.zeros((layout.rows, 1), dtype=np.float32)  # (rows, values)
    count, ahead = total, ((0, layout.hop), (0, 0))
    for values in heard:
        rows = np.repeat(values[: layout.rows], max(1, layout.rows // len(values)), axis=0)
        assert len(rows) == layout.rows
        total, count = total + rows, count + 1
        yield total[: layout.hop] / count[: layout.hop]
        total, count = np.pad(total[layout.hop :], ahead), np.pad(count[layout.hop :], ahead)
    if count.any():
        rest = layout.rows - layout.hop
        yield total[:rest] / count[:rest]
