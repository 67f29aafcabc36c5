"""Published models as encoders: their checkpoints, run by PyTorch.

A file outside the model store is given by its path: `beats:weights=/data/BEATs_strong_1.pt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import Literal, get_args

from earmark.errors import EarmarkError
from earmark.features.sound_tags import class_names
from earmark.models import Model, ModelStore, find_checkpoint, find_model, require
from earmark_lab.encoders.chunk_encoder import (
    CLIPS,
    DECISIONS,
    TEN_SECONDS,
    ChunkEncoder,
    Layout,
    Network,
    WeightsFile,
)

_POSITIONS = "model.beats.encoder.pos_conv.0"


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


Reads = Literal["logits", "activity", "embeddings"]

NOT_IN_REPR = ("weights", "store", "batch", "expects", "hop")
"""Options that do not change the features, and the hop, which is in the layout."""


@dataclass(frozen=True, slots=True, repr=False)
class PretrainedEncoder(ChunkEncoder):
    """Every option is a plain value, so that a gate's card can store it.

    Its `repr`, the key of cached features, contains the hash of the weights.
    """

    name: str
    reads: Reads = "logits"
    hop: float | None = None
    """Seconds; None for the model's own."""
    threshold: float = 0.0
    """Posteriors below this count as 0; activity only."""
    excluded: tuple[str, ...] | None = None
    """None for the documented list."""
    weights: str | None = None
    """A file or folder; None takes it from the model store."""
    store: str | None = None
    """None for the user's own."""
    device: str = "cpu"
    batch: int = 4
    expects: str | None = None
    """SHA-256 of the weights a gate was trained on; None accepts any."""

    def __post_init__(self) -> None:
        self._check(self.name, reads=get_args(Reads))
        if self.batch < 1:
            raise ValueError(f"a network reads at least one chunk at a time, not {self.batch}")
        if self.excluded is not None:  # a gate's card stores it as a list
            object.__setattr__(self, "excluded", tuple(self.excluded))

    def __repr__(self) -> str:
        named = [option.name for option in fields(self) if option.name not in NOT_IN_REPR]
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in named)
        try:
            digest = WeightsFile.of(self._file()).digest
        except EarmarkError:
            digest = "absent"
        return f"{type(self).__name__}({options}, layout={self.layout}, weights={digest})"

    @property
    def architecture(self) -> Architecture:
        return architecture_of(self.name)[1]

    @property
    def sample_rate(self) -> int:
        return self.architecture.sample_rate

    @property
    def layout(self) -> Layout:
        own = self.architecture.layout
        return own if self.hop is None else own.with_hop(self.hop)

    @property
    def channels(self) -> int:
        if self.reads == "embeddings":
            return self.architecture.width
        return 1 if self.reads == "activity" else len(self.classes)

    @property
    def classes(self) -> tuple[str, ...]:
        return class_names(self.architecture.vocabulary)

    def network(self) -> Network:
        return _open(self.name, self.reads, self.device, WeightsFile.of(self._file()))

    def _file(self) -> Path:
        if self.weights is not None:
            return find_checkpoint(self.name, Path(self.weights).expanduser())
        return ModelStore.at(self.store).find(self.name)


@lru_cache(maxsize=1)
def _open(name: str, reads: Reads, device: str, weights: WeightsFile) -> Network:
    require("torch", what=f"the {name} encoder")
    from earmark_lab.encoders.detector import TorchNetwork

    return TorchNetwork.open(name, weights, device, has_head=reads != "embeddings")


# Entry points of `earmark.frontlines`.
beats = partial(PretrainedEncoder, "beats")
atst_frame = partial(PretrainedEncoder, "atst-frame")
fpasst = partial(PretrainedEncoder, "fpasst")
frame_mn06 = partial(PretrainedEncoder, "frame-mn06")
frame_mn10 = partial(PretrainedEncoder, "frame-mn10")
panns = partial(PretrainedEncoder, "panns")
slowfast = partial(PretrainedEncoder, "slowfast")
