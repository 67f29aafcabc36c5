"""How the network inside a checkpoint is built, what it hears and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from earmark.timeline import CLOCK_RATE, HOP


@dataclass(frozen=True, slots=True)
class Layout:
    """How a model's chunks lie on the clock; everything in steps of it."""

    chunk: int = 250
    """Steps of sound that the model hears at once."""
    hop: int = 125
    """Steps from one chunk to the next."""
    rows: int = 250
    """Steps that a chunk speaks for; where chunks overlap, they are averaged."""
    lead: int = 0
    """Steps of a chunk that lie before those it speaks for."""
    block: int = 1
    """Steps of one decision; chunks lie whole decisions apart, so that these fall together."""

    def every(self, seconds: float) -> Layout:
        """The same with another hop; a model of one row a chunk speaks for the middle of it."""
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
"""Ten seconds of sound, every five: the paper's."""

DECISIONS = Layout(hop=120, rows=248, block=8)
"""Ten seconds of sound, every 4.8: 31 decisions of 0.32 s that fall on those of other chunks."""

CLIPS = Layout(chunk=50, hop=10, rows=10, lead=20)
"""Two seconds of sound for each 0.4 s in their middle."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The network of a published PyTorch checkpoint, and how the weights in the file are named."""

    width: int
    """Values in each row beneath the head."""
    sample_rate: int = 16_000
    layout: Layout = TEN_SECONDS
    options: tuple[tuple[str, object], ...] = ()
    """Arguments of the class that the model is loaded by."""
    section: str | None = None
    """Where in the checkpoint the weights are; None for a checkpoint that is nothing else."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Beginnings of names in the file, and what they are here."""
    unused: tuple[str, ...] = ("weak_head.",)
    """Beginnings of names that may be in the file and are not needed."""
