"""The networks of the published checkpoints, and how they are laid over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from earmark.models import Model, find_model
from earmark.timeline import CLOCK_RATE, HOP

_POSITIONS = "model.beats.encoder.pos_conv.0"


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


@dataclass(frozen=True, slots=True)
class Architecture:
    network: str
    """`module:class` in `earmark_lab.encoders`."""
    width: int
    vocabulary: str = "audioset-strong"
    sample_rate: int = 16_000
    layout: Layout = TEN_SECONDS
    options: tuple[tuple[str, object], ...] = ()
    section: str | None = None
    """None if the checkpoint holds only weights."""
    renamed: tuple[tuple[str, str], ...] = ()
    """Prefixes in the checkpoint, and their replacements."""
    unused: tuple[str, ...] = ("weak_head.",)


ARCHITECTURES: Mapping[str, Architecture] = {
    "beats": Architecture(
        network="audio_transformers:Beats",
        width=768,
        renamed=(
            ("model.model.", "model.beats."),
            (f"{_POSITIONS}.weight_g", f"{_POSITIONS}.parametrizations.weight.original0"),
            (f"{_POSITIONS}.weight_v", f"{_POSITIONS}.parametrizations.weight.original1"),
        ),
    ),
    "atst-frame": Architecture(
        network="audio_transformers:AtstFrame", width=768, unused=("weak_head.", "model.atst_mel.")
    ),
    "fpasst": Architecture(
        network="audio_transformers:FrequencyPasst",
        width=768,
        renamed=(("model.", "model.fpasst."),),
    ),
    "frame-mn06": Architecture(
        network="convolutional:FrameMobileNet", width=576, options=(("width", 0.6),)
    ),
    "frame-mn10": Architecture(network="convolutional:FrameMobileNet", width=960),
    "panns": Architecture(
        network="convolutional:Cnn14",
        vocabulary="audioset",
        width=2048,
        sample_rate=32_000,
        layout=DECISIONS,
        section="model",
        unused=("spectrogram_extractor.", "logmel_extractor."),
    ),
    "slowfast": Architecture(
        network="convolutional:SlowFast",
        vocabulary="epic-sounds",
        width=2304,
        sample_rate=24_000,
        layout=CLIPS,
        section="model_state",
        unused=(),
    ),
}


def architecture_of(name: str) -> tuple[Model, Architecture]:
    if name not in ARCHITECTURES:
        raise ValueError(f"no published model {name!r}; there are {', '.join(ARCHITECTURES)}")
    return find_model(name), ARCHITECTURES[name]
