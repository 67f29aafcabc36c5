"""Encoders whose network reads overlapping chunks, averaged onto the 25 Hz clock.

sound    ├────────────────────────────────────────┤
chunk 0  ├──────────────────┤                          10 s
chunk 1            ├──────────────────┤                5 s later
chunk 2                      ├──────────────────┤
rows     │ 0       │ (0+1)/2 │ (1+2)/2 │ 2      ┊       each moment once
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np

from earmark.errors import ModelMismatch
from earmark.features.sound_tags import SoundTagger
from earmark.media import Sound
from earmark.timeline import CLOCK_RATE, HOP, FloatArray, Span, Track

POSTERIOR_MARGIN = 1e-7
"""So that logits are within ±16.2."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Chunks on the clock; all values in steps."""

    chunk: int = 250
    hop: int = 125
    rows: int = 250
    """Steps with output; overlapping outputs are averaged."""
    lead: int = 0
    """Steps before those with output."""
    block: int = 1
    """Steps of one decision; the hop is a multiple of it."""

    def with_hop(self, seconds: float) -> Layout:
        """`ValueError` unless a multiple of `block` and at most one chunk."""
        hop = round(seconds * CLOCK_RATE)
        fits = hop % self.block == 0 and 0 < hop <= self.chunk
        if not (abs(hop * HOP - seconds) < 1e-6 and fits):
            raise ValueError(
                f"chunks of {self.chunk * HOP:g} s cannot lie {seconds} s apart: "
                f"choose a multiple of {self.block * HOP:g} s up to their length"
            )
        if self.lead == 0:
            return replace(self, hop=hop)
        return replace(self, hop=hop, rows=hop, lead=(self.chunk - hop) // 2)


TEN_SECONDS = Layout()

DECISIONS = Layout(hop=120, rows=248, block=8)
"""31 decisions of 0.32 s, aligned with those of other chunks."""

CLIPS = Layout(chunk=50, hop=10, rows=10, lead=20)


class Network(Protocol):
    """Not sent to other processes."""

    @property
    def source(self) -> str:
        """SHA-256 of the original file, also after an export."""
        ...

    def __call__(self, chunks: FloatArray, /) -> FloatArray:
        """From `(chunks, samples)` to `(chunks, rows, width)`."""
        ...


@dataclass(frozen=True, slots=True)
class WeightsFile:
    file: Path = field(repr=False, compare=False)
    digest: str
    """SHA-256."""

    @classmethod
    def of(cls, file: Path) -> WeightsFile:
        facts = file.stat()
        return cls(file, _digest(file, facts.st_size, facts.st_mtime_ns))


@lru_cache(maxsize=16)
def _digest(file: Path, size_bytes: int, changed: int) -> str:  # noqa: ARG001 - the key's
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


class ChunkEncoder(SoundTagger):
    """An encoder over a network that reads chunks; rows do not depend on the batch size.

    `reads` chooses the features:

    - `logits`: the posteriors in logit space, as read by the paper's gate, without a threshold;
      most values are around -10.
    - `activity`: the highest posterior of any included class, for use without a gate.
    - `embeddings`: the input of the network's head, for a gate that trains its own.
    """

    __slots__ = ()

    name: str
    expects: str | None
    batch: int = 4

    @property
    def layout(self) -> Layout:
        return TEN_SECONDS

    @abstractmethod
    def network(self) -> Network:
        """Opened once per process.

        `ModelMissing` without weights, `ModelMismatch` for those of another model, `MissingExtra`
        without PyTorch.
        """

    @property
    def channels(self) -> int:
        return 1 if self.reads == "activity" else len(self.classes)

    def encode(self, sound: Iterable[Sound]) -> Iterator[Track]:
        network = self.network()
        if self.expects not in (None, network.source):
            raise ModelMismatch(self._weights_mismatch(network.source))
        pieces = encode_in_chunks(
            sound, network, layout=self.layout, sample_rate=self.sample_rate, batch=self.batch
        )
        return (Track(self._features(rows), start=first / CLOCK_RATE) for rows, first in pieces)

    def fingerprint(self) -> str:
        """SHA-256 of the checkpoint, also of an export."""
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
    sure = np.clip(posteriors, POSTERIOR_MARGIN, 1.0 - POSTERIOR_MARGIN).astype(np.float64)
    return (np.log(sure) - np.log1p(-sure)).astype(np.float32)


def encode_in_chunks(
    sound: Iterable[Sound],
    model: Callable[[FloatArray], FloatArray],
    *,
    layout: Layout,
    sample_rate: int,
    batch: int,
) -> Iterator[tuple[FloatArray, int]]:
    """Rows on the clock and the number of the first, without gaps; memory holds `batch` chunks.

    `model` turns `(chunks, samples)` into `(chunks, rows, values)`.
    """
    chunks = _Chunks(sound, layout, step=sample_rate // CLOCK_RATE)
    remaining = iter(chunks)
    batches = iter(lambda: list(islice(remaining, batch)), [])
    outputs = (values for stack in batches for values in model(np.stack(stack)))
    first = 0
    for averaged in _average(outputs, layout):
        rows = averaged[: chunks.steps - first] if chunks.steps else averaged
        if len(rows):
            yield rows, first
        first += len(rows)


class _Chunks:
    """`steps` is known after iterating."""

    def __init__(self, sound: Iterable[Sound], layout: Layout, *, step: int) -> None:
        self._sound, self._layout, self._step = sound, layout, step
        self.steps = 0

    def __iter__(self) -> Iterator[FloatArray]:
        layout, step = self._layout, self._step
        size, hop = layout.chunk * step, layout.hop * step
        buffer = np.zeros(layout.lead * step, dtype=np.float32)
        samples = count = 0
        for block in self._sound:
            if block.sample_rate != step * CLOCK_RATE:
                rate = step * CLOCK_RATE
                raise ValueError(
                    f"this model hears {rate} samples a second, not {block.sample_rate}"
                )
            samples += len(block)
            buffer = np.concatenate([buffer, block.values])
            while len(buffer) >= size:
                yield buffer[:size]
                buffer, count = buffer[hop:], count + 1
        self.steps = -(-samples // step)
        while self.steps and (count == 0 or (count - 1) * layout.hop + layout.rows < self.steps):
            yield np.pad(buffer[:size], (0, max(0, size - len(buffer))))
            buffer, count = buffer[hop:], count + 1


def _average(outputs: Iterable[FloatArray], layout: Layout) -> Iterator[FloatArray]:
    total: FloatArray = np.zeros((layout.rows, 1), dtype=np.float32)  # (rows, values)
    count, ahead = total, ((0, layout.hop), (0, 0))
    for values in outputs:
        rows = np.repeat(values[: layout.rows], max(1, layout.rows // len(values)), axis=0)
        assert len(rows) == layout.rows
        total, count = total + rows, count + 1
        yield total[: layout.hop] / count[: layout.hop]
        total, count = np.pad(total[layout.hop :], ahead), np.pad(count[layout.hop :], ahead)
    if count.any():
        rest = layout.rows - layout.hop
        yield total[:rest] / count[:rest]


PAPER_THRESHOLD = 0.95
"""The posterior above which the paper counts boundaries."""

_NO_CLASS = -1


@dataclass(frozen=True, slots=True)
class Segment:
    span: Span
    name: str


def segments(
    features: Iterable[Track], classes: Sequence[str], *, threshold: float = 0.5
) -> Iterator[Segment]:
    """Runs of steps of one class, the most likely, or none if its posterior is below `threshold`.

    most likely   . . a a a a b b . . b      segments   a, b, b
    boundaries        ^       ^   ^   ^
    """
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"a threshold on posteriors lies between 0 and 1, not at {threshold}")
    least = float(np.log(threshold / (1.0 - threshold)))
    start, end, label = 0.0, 0.0, _NO_CLASS
    for track in features:
        is_sure = track.values.max(axis=1) >= least
        labels = np.where(is_sure, track.values.argmax(axis=1), _NO_CLASS)
        before = np.concatenate([[label], labels[:-1]])
        for step in np.flatnonzero(labels != before):
            time = track.time_of(int(step))
            if label != _NO_CLASS:
                yield Segment(Span(start, time), classes[label])
            start, label = time, int(labels[step])
        end = track.span.end
    if label != _NO_CLASS:
        yield Segment(Span(start, end), classes[label])


def boundaries(found: Iterable[Segment]) -> list[float]:
    return sorted({time for segment in found for time in (segment.span.start, segment.span.end)})
